-- The first schema: definitions, jobs with their nodes and tasks, the hot queue and inbox, the event log.
-- Hot tables (queue, inbox) hold only what is open: rows are deleted, never marked done. There are no
-- foreign keys: only a job's owner writes its rows, and a trigger per row would double the cost of a fan-out.

create table workflows (
    definition_hash text primary key,
    tenant text not null default 'default',
    workflow_id text not null,
    version text not null,
    definition json not null,
    registered_at timestamptz not null default now()
);
create index workflows_by_id on workflows (tenant, workflow_id, registered_at desc);

create table orchestrators (
    orchestrator_id bigint generated always as identity primary key,
    name text not null,
    version text not null default '',
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    lease_until timestamptz not null,
    ended_at timestamptz
);

create table workers (
    worker_id bigint generated always as identity primary key,
    name text not null,
    version text not null default '',
    queues text[],
    handlers text[] not null,
    concurrency int not null,
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    lease_until timestamptz not null,
    ended_at timestamptz
);

create table jobs (
    job_id uuid primary key,
    tenant text not null default 'default',
    workflow_id text not null,
    version text not null,
    definition_hash text not null,
    identity text not null,
    run int not null default 1,
    body_hash text not null,
    status text not null default 'pending',
    reason text,
    priority smallint not null default 0,
    generation int not null default 1,
    owner bigint,
    epoch int not null default 0,
    inputs jsonb not null,
    result jsonb,
    error jsonb,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    deadline_at timestamptz,
    stop_cause text,
    stop_until timestamptz,
    stop_leases_ended boolean not null default false,
    constraint job_status_is_known
        check (status in ('pending', 'running', 'completed', 'partial', 'failed', 'cancelled')),
    constraint finished_jobs_have_a_finishing_time
        check ((finished_at is not null) = (status not in ('pending', 'running'))),
    constraint finished_at_is_not_before_started_at
        check (finished_at is null or started_at is null or finished_at >= started_at),
    constraint generation_counts_from_one check (generation >= 1),
    constraint run_counts_from_one check (run >= 1)
) with (fillfactor = 50);
create unique index jobs_have_one_row_per_identity_and_run on jobs (tenant, identity, run);
-- Who owns an open job changes without touching an index: finding a dead owner's jobs reads the open ones.
create index jobs_that_are_open on jobs (job_id) where finished_at is null;

create table nodes (
    job_id uuid not null,
    node text collate "C" not null,
    status text not null,
    reason text,
    importance text not null default 'critical',
    output jsonb,
    error jsonb,
    attempt int not null default 0,
    width int not null default 0,
    expanded_count int not null default 0,
    enqueued_count int not null default 0,
    completed_count int not null default 0,
    failed_count int not null default 0,
    skipped_count int not null default 0,
    cancelled_count int not null default 0,
    taken text[] not null default '{}',
    retry_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    primary key (job_id, node),
    constraint node_status_is_known check (status in
        ('pending', 'ready', 'dispatched', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
    constraint a_node_has_no_more_rows_than_its_width check (expanded_count <= width),
    constraint counters_do_not_exceed_the_rows
        check (completed_count + failed_count + skipped_count + cancelled_count <= expanded_count),
    constraint only_existing_rows_are_enqueued check (enqueued_count <= expanded_count)
) with (fillfactor = 70);

-- Half of each page stays free, here and in jobs: a row is changed in place, without a new entry in every index.
-- One row per task whatever its attempts. item is -1 for a node's own task, else the index in its fan-out.
-- While a task is queued its status stays 'ready'; whether it waits, is dispatched or running says its queue row.
create table tasks (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    status text not null default 'ready',
    epoch int not null default 1,
    attempt int not null default 0,
    retry_count smallint not null default 0,
    lost_count smallint not null default 0,
    crash_count smallint not null default 0,
    params jsonb,
    params_ref text,
    output jsonb,
    output_ref text,
    error jsonb,
    worker text,
    started_at timestamptz,
    finished_at timestamptz,
    primary key (job_id, node, item),
    constraint task_status_is_known check (status in ('ready', 'completed', 'failed', 'skipped', 'cancelled')),
    constraint item_is_an_index_or_minus_one check (item >= -1),
    constraint finished_tasks_have_a_finishing_time check ((finished_at is not null) = (status <> 'ready'))
) with (fillfactor = 50);

create table attempts (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    attempt int not null,
    epoch int not null,
    outcome text not null,
    worker text,
    started_at timestamptz,
    finished_at timestamptz not null default now(),
    error jsonb,
    log text,
    extra jsonb,
    primary key (job_id, node, item, attempt)
);

create table checkpoints (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    seq int not null,
    name text not null,
    data jsonb,
    epoch int not null,
    saved_at timestamptz not null default now(),
    primary key (job_id, node, item, seq)
);

-- The tasks of one queue that share handler, tenant, breaker and limits: what a claim picks first.
create table lanes (
    lane_id int generated always as identity primary key,
    queue text not null,
    handler text not null,
    tenant text not null default 'default',
    breaker text not null default '',
    limit_key text not null default '',
    constraint lanes_are_unique unique (queue, handler, tenant, breaker, limit_key)
);

-- Ids only: what a task is made of is read from its row. Rows that are not due lie outside the claim index.
create table queue (
    id bigint generated always as identity,
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    epoch int not null,
    attempt int not null,
    lane_id int not null,
    state text not null default 'ready',
    priority smallint not null default 0,
    rank int not null default 0,
    suspect boolean not null default false,
    owner bigint not null,
    timeout_seconds real not null,
    queue_timeout_seconds real,
    due_at timestamptz,
    queued_at timestamptz not null default now(),
    holder bigint,
    claimed_at timestamptz,
    deadline_at timestamptz,
    progress jsonb,
    primary key (job_id, node, item),
    constraint queue_state_is_known check (state in ('ready', 'waiting', 'leased')),
    constraint leased_rows_have_a_holder check ((state = 'leased') = (holder is not null)),
    constraint waiting_rows_have_a_due_time check (state <> 'waiting' or due_at is not null)
) with (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 100000000
);
create index queue_by_claim_order on queue (lane_id, priority desc, rank, id) where state = 'ready';
create index queue_by_due_time on queue (due_at) where state = 'waiting';

-- Signals on their way to a job's owner (0: nobody yet). A handled row is deleted in the owner's commit.
create table inbox (
    owner bigint not null default 0,
    id bigint generated always as identity,
    job_id uuid not null,
    kind text not null,
    node text,
    item int,
    epoch int,
    attempt int,
    outcome text,
    worker text,
    alone boolean not null default false,
    started_at timestamptz,
    output jsonb,
    data jsonb,
    actor text,
    reason text,
    sent_at timestamptz not null default now(),
    primary key (owner, id),
    constraint signal_kind_is_known check (kind in ('submitted', 'report', 'rejected', 'cancel'))
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 100000000
);

-- What the owner answered to a person's signal, for as long as somebody may ask.
create table answers (
    signal_id bigint primary key,
    job_id uuid not null,
    applied boolean not null,
    reason text not null,
    answered_at timestamptz not null default now()
);

create table events (
    job_id uuid not null,
    seq int not null,
    event text not null,
    node text,
    item int,
    attempt int,
    at timestamptz not null default now(),
    xid xid8 not null default pg_current_xact_id(),
    data jsonb,
    primary key (job_id, seq)
);
