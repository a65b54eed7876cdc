-- Jobs whose rows are deleted and whose objects are about to be: whoever prunes next removes what a killed one left.
create table discarded (
    job_id uuid primary key,
    discarded_at timestamptz not null default now()
);

-- What ended first goes first. Jobs that are open are not in here, and cost nothing.
create index jobs_by_finishing_time on jobs (finished_at, job_id) where finished_at is not null;
