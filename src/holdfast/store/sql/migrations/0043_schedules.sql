-- What starts by the clock. A tick moves next_at and inserts its job in one transaction, guarded by the revision, so that
-- each tick has one job at most. next_at: null while the schedule is paused. waiting: ticks whose job begins when
-- last_job has ended. schedule_id: a part of the identity of its jobs. source: person, file (the file of its workflow has
-- it), or left_file (the file has it no longer).
create table schedules (
    tenant text not null,
    name text not null,
    schedule_id uuid not null,
    workflow_id text not null,
    cron text,
    every_seconds int,
    time_zone text not null,
    anchored_at timestamptz not null,
    inputs jsonb not null,
    overlap text not null,
    catch_up text not null,
    source text not null,
    next_at timestamptz,
    waiting timestamptz[] not null default '{}',
    last_tick timestamptz,
    last_answer text,
    problem text,
    last_job uuid,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    revision bigint not null default 1,
    created_at timestamptz not null default now(),
    created_by text not null,
    changed_at timestamptz not null default now(),
    changed_by text not null,
    primary key (tenant, name),
    constraint schedules_have_a_cron_expression_or_an_interval check ((cron is null) <> (every_seconds is null)),
    constraint schedule_overlap_is_known check (overlap in ('skip', 'queue', 'replace')),
    constraint schedule_catch_up_is_known check (catch_up in ('none', 'last', 'all')),
    constraint schedule_source_is_known check (source in ('person', 'file', 'left_file')),
    constraint paused_schedules_have_no_next_tick check (paused_at is null or next_at is null),
    constraint at_most_a_hundred_ticks_wait check (cardinality(waiting) <= 100)
);
create index schedules_by_next_tick on schedules (next_at) where next_at is not null;
create index schedules_with_waiting_ticks on schedules (tenant, name) where waiting <> '{}';
