-- The requests of people that have a key: a request that is sent again, because its answer was lost, has the same signal.
-- signal_id is null only inside of the transaction that sends the signal.
create table requests (
    job_id uuid not null,
    key text not null,
    digest text not null,
    verb text not null,
    tasks int,
    signal_id bigint,
    sent_at timestamptz not null default now(),
    primary key (job_id, key)
);

-- The answers to such requests stay as long as their jobs.
create index answers_by_job on answers (job_id);

-- Who may cancel a job because they have submitted it. Jobs that were submitted at the database have none.
alter table jobs add column submitter text;
