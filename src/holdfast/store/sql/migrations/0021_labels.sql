-- Labels, by which people find jobs. A process of an older version submits jobs without labels; the index has only jobs
-- with labels.
alter table jobs add column labels jsonb;
create index jobs_by_label on jobs using gin (labels jsonb_path_ops) where labels is not null;

-- The failed and partial jobs that a person has acknowledged. A later generation of the job is not acknowledged.
create table acknowledgements (
    job_id uuid not null,
    generation int not null,
    actor text not null,
    reason text not null default '',
    at timestamptz not null default now(),
    primary key (job_id, generation)
);
