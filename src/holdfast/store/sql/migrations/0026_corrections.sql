-- What the item of a task is known by, so that it is recognised after a correction: null for a node's own task, for a
-- batch, and for tasks that a process of an older version has made. gone: how it had
-- ended when a correction took its item away; it is skipped since then. params_given: a person gave its params.
alter table tasks add column item_key uuid, add column gone text,
    add column params_given boolean not null default false;

-- How the items of a corrected fan-out are matched with the tasks that it had before.
alter table nodes add column matching jsonb;

-- The plans of corrections: what a job is to have from its next generation on, and what that means for each node. The
-- owner carries a plan out if the generation and the last event are still those of the job.
create table plans (
    job_id uuid not null,
    plan_id text not null,
    generation int not null,
    last_seq int not null,
    definition_hash text not null,
    inputs jsonb not null,
    content jsonb not null,
    made_at timestamptz not null default now(),
    primary key (job_id, plan_id)
);

-- The definition and the inputs of corrected jobs, from each corrected generation on; generation 1 is the submission.
create table pins (
    job_id uuid not null,
    generation int not null,
    definition_hash text not null,
    version text not null,
    inputs jsonb not null,
    pinned_at timestamptz not null default now(),
    primary key (job_id, generation)
);
