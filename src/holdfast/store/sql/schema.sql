-- The present schema, for people to read. `holdfast migrate` makes it from the files in sql/migrations/, in order; a
-- test compares the two. Functions are left out, and so are privileges.
--
-- The hot tables, queue and inbox, contain only open tasks and unread signals. There are no foreign keys: only a job's
-- owner writes its rows, and a trigger per row would double the cost of a fan-out.

-- The definitions that jobs have pinned. A definition never changes: its key is the hash of its content. tenant is the
-- one that submitted it first, or '' if defaults of an installation are filled in: no name stands for that one.
create table workflows (
    definition_hash text not null,
    tenant text not null default 'default',
    workflow_id text not null,
    version text not null,
    definition json not null,
    registered_at timestamptz not null default now(),
    primary key (definition_hash)
);
create index workflows_by_id on workflows (tenant, workflow_id, registered_at desc);

-- The definitions that ids stood for, by tenant; the last one counts. The first submission of an id registers its
-- definition, and `register` any other.
create table registrations (
    tenant text not null,
    definition_hash text not null,
    workflow_id text not null,
    version text not null,
    registered_at timestamptz not null default now(),
    primary key (tenant, definition_hash)
);
create index registrations_by_id on registrations (tenant, workflow_id, registered_at desc);

-- Processes that own jobs. After a lease expires, others take over the jobs. only_job: the only job that it may own.
create table orchestrators (
    orchestrator_id bigint not null generated always as identity,
    name text not null,
    version text not null default '',
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    lease_until timestamptz not null,
    ended_at timestamptz,
    only_job uuid,
    primary key (orchestrator_id)
);

-- Processes that run tasks. After a lease expires, the tasks go back to their owners. queues null: all queues. bound_to:
-- the credential that registered a worker over HTTP, and that alone may speak for it; null: it is at the database.
-- tenant: whose tasks it gets; null: those of all. claim_id, last_claim_at: its last claim over HTTP that got tasks, so
-- that the same claim again is answered with the same tasks.
create table workers (
    worker_id bigint not null generated always as identity,
    name text not null,
    version text not null default '',
    queues text[],
    handlers text[] not null,
    concurrency int not null,
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    lease_until timestamptz not null,
    ended_at timestamptz,
    changed_files text[] not null default '{}',
    bound_to text,
    tenant text,
    claim_id text,
    last_claim_at timestamptz,
    primary key (worker_id)
);

-- What only the processes of the installation know. lease_secret: 32 random bytes in hexadecimal, with
-- which the leases of workers over HTTP are signed; a migration draws them.
create table installation_secrets (
    only_one boolean not null default true,
    lease_secret text not null,
    primary key (only_one),
    constraint installation_has_one_row check (only_one)
);

-- One row per run of a workflow. Only the owner writes it. The epoch counts the owners, so that a late write of a
-- former owner finds another epoch. The stop columns describe a job that is stopping. deaths counts the orchestrators
-- that died in cycles of the job. labels null: the job has none. recovered_at: when the present generation began; null
-- for the first one. undo: who wants the job to be undone, which nodes that concerns, and whether it is over.
-- correlation_id, callback_url: what the caller calls the submission, and where it wants to be called back. submitter: the
-- identity that may cancel the job because it submitted it; null: it came without one. notify: the receivers that the
-- submission names. traceparent: the place in a trace from which it was submitted.
create table jobs (
    job_id uuid not null,
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
    owned_since timestamptz,
    result_ref text,
    holds jsonb not null default '[]',
    previous uuid,
    deaths int not null default 0,
    died_at timestamptz,
    stop_signal bigint,
    labels jsonb,
    recovered_at timestamptz,
    undo jsonb,
    correlation_id text,
    callback_url text,
    submitter text,
    notify jsonb,
    traceparent text,
    primary key (job_id),
    constraint job_status_is_known
        check (status in ('pending', 'running', 'completed', 'partial', 'failed', 'cancelled')),
    constraint finished_jobs_have_a_finishing_time
        check ((finished_at is not null) = (status not in ('pending', 'running'))),
    constraint finished_at_is_not_before_started_at
        check (finished_at is null or started_at is null or finished_at >= started_at),
    constraint generation_counts_from_one check (generation >= 1),
    constraint run_counts_from_one check (run >= 1)
) with (fillfactor=50);
create index jobs_by_correlation on jobs (tenant, correlation_id, job_id) where correlation_id is not null;
create index jobs_by_finishing_time on jobs (finished_at, job_id) where finished_at is not null;
create index jobs_by_label on jobs using gin (labels jsonb_path_ops) where labels is not null;
create index jobs_by_tenant on jobs (tenant, job_id);
create unique index jobs_have_one_row_per_identity_and_run on jobs (tenant, identity, run);
create index jobs_in_whose_cycles_orchestrators_died on jobs (job_id) where deaths > 0;
create index jobs_of_later_runs on jobs (tenant, identity) where run > 1;
create index jobs_that_are_open on jobs (job_id) where finished_at is null;
create index jobs_that_ended_with_an_error on jobs (tenant, finished_at desc)
    where error is not null and finished_at is not null;

-- The failed and partial jobs that a person has acknowledged. A later generation of the job is not acknowledged.
create table acknowledgements (
    job_id uuid not null,
    generation int not null,
    actor text not null,
    reason text not null default '',
    at timestamptz not null default now(),
    primary key (job_id, generation)
);

-- One row per node that has begun. The counters say how many of its tasks exist, were queued, and have ended.
-- enqueued_count is the end of the window: items beyond it wait until others have ended. undo: how many of its tasks
-- were undone, of how many the undo failed, and how the node had ended before.
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
    spent jsonb,
    output_ref text,
    waiting_count int not null default 0,
    base_epoch int not null default 0,
    base_attempt int not null default 0,
    batch_size int,
    matching jsonb,
    undo jsonb,
    primary key (job_id, node),
    constraint node_status_is_known
        check (status in ('pending', 'ready', 'dispatched', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
    constraint counters_do_not_exceed_the_rows
        check (completed_count + failed_count + skipped_count + cancelled_count <= expanded_count),
    constraint only_existing_rows_are_enqueued check (enqueued_count <= expanded_count),
    constraint a_node_has_no_more_rows_than_its_width check (expanded_count <= width + (batch_size is not null)::int)
) with (fillfactor=70);

-- One row per task, however many attempts it has. item is -1 for a node's own task, else its index in the fan-out.
-- item_key is what the item is known by: after a correction, an item with the same key has the same task. gone: how it
-- had ended when a correction took its item away; it is skipped since then. params_given: a person gave its params.
-- undo: while the effects of the task are taken back, when it had completed; if that failed, the error.
-- While a task is queued its status stays 'ready': its queue row says whether it waits, is dispatched or runs. Half of
-- each page stays free, here and in jobs, so that an update stays in its page and needs no new index entries.
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
    waits boolean not null default false,
    has_contract boolean,
    requeue_count smallint not null default 0,
    item_key uuid,
    gone text,
    params_given boolean not null default false,
    undo jsonb,
    primary key (job_id, node, item),
    constraint task_status_is_known check (status in ('ready', 'completed', 'failed', 'skipped', 'cancelled')),
    constraint item_is_an_index_or_minus_one check (item >= -1),
    constraint finished_tasks_have_a_finishing_time check ((finished_at is not null) = (status <> 'ready'))
) with (fillfactor=50);
create index tasks_that_wait_after_a_reset on tasks (job_id, node, item) where waits;
create index tasks_with_given_params on tasks (job_id, node) where params_given and gone is null;

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

-- Attempts that did not complete their task, and completed ones that were reset later.
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
    log_times jsonb,
    primary key (job_id, node, item, attempt)
);
create index attempts_by_time on attempts using brin (finished_at);

-- What running attempts have printed so far, in parts. The worker deletes the parts when the report is accepted: the log
-- of an ended attempt is in attempts. An attempt whose worker was lost has only its parts.
create table attempt_output (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    epoch int not null,
    part int not null,
    started_at timestamptz not null,
    log text not null,
    log_times jsonb not null,
    saved_at timestamptz not null default now(),
    primary key (job_id, node, item, epoch, part)
);

-- Checkpoints of handlers. The next attempt resumes from the one with the highest seq.
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

-- The tasks of one queue that share handler, tenant, breaker and limits. A claim picks lanes first. No id below the
-- floor is ready any more. The ceiling is an upper bound of the next floor, which can be set when all transactions
-- older than ceiling_xid have ended.
create table lanes (
    lane_id int not null generated always as identity,
    queue text not null,
    handler text not null,
    tenant text not null default 'default',
    breaker text not null default '',
    limit_key text not null default '',
    floor bigint not null default 0,
    ceiling bigint,
    ceiling_xid xid8,
    primary key (lane_id),
    constraint lanes_are_unique unique (queue, handler, tenant, breaker, limit_key)
);

-- Open tasks. Rows are deleted, never marked as done. The params of a task are in its tasks row. holder is the worker
-- that has the lease, owner the orchestrator that gets the report.
create table queue (
    id bigint not null generated always as identity,
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
    constraint leased_rows_have_a_holder check ((state = 'leased') = (holder is not null)),
    constraint waiting_rows_have_a_due_time check (state <> 'waiting' or due_at is not null),
    constraint queue_state_is_known check (state in ('ready', 'waiting', 'leased', 'paused'))
) with (
    fillfactor=60, autovacuum_vacuum_scale_factor=0,
    autovacuum_vacuum_threshold=2000, autovacuum_vacuum_insert_threshold=-1, autovacuum_analyze_threshold=100000000
);
create index queue_by_claim_order on queue (lane_id, priority desc, rank, id) where state = 'ready';
create index queue_by_due_time on queue (due_at) where state = 'waiting';
create index queue_by_lane_of_lease on queue (lane_id) where state || '' = 'leased';

-- Signals for the owners of jobs (0: no owner yet). The owner deletes a signal in the commit that applies it.
create table inbox (
    owner bigint not null default 0,
    id bigint not null generated always as identity,
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
    constraint signal_kind_is_known
        check (kind in ('submitted', 'report', 'rejected', 'cancel', 'recheck', 'recover', 'pause', 'unpause'))
) with (
    autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000,
    autovacuum_vacuum_insert_threshold=-1, autovacuum_analyze_threshold=100000000
);

-- What people and the janitor ask: orchestrators read it first.
create index inbox_of_people on inbox (id)
    where kind in ('cancel', 'pause', 'unpause', 'recover', 'recheck');

-- The answers of owners to signals of people, kept for a day; those to requests with a key, as long as their jobs.
create table answers (
    signal_id bigint not null,
    job_id uuid not null,
    applied boolean not null,
    reason text not null,
    answered_at timestamptz not null default now(),
    remedy text,
    primary key (signal_id)
);
create index answers_by_job on answers (job_id);

-- The requests of people that have a key, by job. A request that is sent again has the same signal. digest: what was
-- asked for. tasks: how many tasks its plan had.
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

-- Everything that happened to a job, in order. Readers follow one job by (job_id, seq), and all jobs by xid.
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
create index events_of_generations on events (job_id, seq)
    where event in ('job_recovered', 'job_completed', 'job_partial', 'job_failed', 'job_cancelled');
create index events_by_transaction on events (xid);

-- The youngest transaction whose events pruning has deleted, by the identifier of the server: a copy on another server
-- counts its transactions from the beginning. A stream that goes on from before cannot know what it has missed.
create table pruned_events (
    system_identifier bigint not null,
    xid xid8 not null,
    primary key (system_identifier)
);

-- Dependencies that may be down. settings are those of the workflow that declared the breaker last; calls is the window
-- of the latest calls, [time, failed]. held: a person opened it, and only a person closes it. Each tenant has breakers of
-- its own: name is NAME for the default tenant, and NAME@TENANT for others; settings has the name that workflows give it.
create table breakers (
    name text not null,
    state text not null default 'closed',
    settings jsonb not null,
    calls jsonb not null default '[]',
    successes int not null default 0,
    probes int not null default 1,
    changed_at timestamptz not null default now(),
    until timestamptz,
    held boolean not null default false,
    reason text,
    actor text,
    probing_until timestamptz,
    tenant text not null default 'default',
    primary key (name),
    constraint breaker_state_is_known check (state in ('closed', 'open', 'half_open')),
    constraint only_an_open_breaker_is_held check (not held or state = 'open')
) with (fillfactor=50);

-- The history of breakers.
create table breaker_changes (
    id bigint not null generated always as identity,
    name text not null,
    state text not null,
    reason text,
    actor text,
    changed_at timestamptz not null default now(),
    primary key (id)
);
create index breaker_changes_by_name on breaker_changes (name, id desc);

-- How many tasks may run at once (concurrency), how many may begin within a period (rate per second, tokens in a bucket
-- of size burst), and how many jobs may be open (backlog). A lane has the limits that its limit_key names, one per
-- line, those of its queue (tenant '', name queue:NAME) and those of its tenant (name tenant). The limit of a queue that
-- a person has paused has the concurrency 0, and kept_concurrency has what it allows otherwise.
create table limits (
    tenant text not null,
    name text not null,
    concurrency int,
    rate float8,
    burst int,
    tokens float8 not null default 0,
    refilled_at timestamptz not null default '-infinity',
    backlog int,
    changed_at timestamptz not null default now(),
    actor text,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    kept_concurrency int,
    primary key (tenant, name),
    constraint limits_are_above_zero check (
        (concurrency > 0 or concurrency = 0 and paused_at is not null)
        and rate > 0 and burst > 0 and backlog > 0 and kept_concurrency > 0
    ),
    constraint a_rate_has_a_burst check ((rate is null) = (burst is null))
) with (fillfactor=50);

-- The defaults that people have set for the workflows of a tenant: what holds where a workflow says nothing. A submission
-- fills them into the definition that its job pins. value null: a person went back to the built-in value.
create table defaults (
    tenant text not null,
    name text not null,
    value jsonb,
    actor text not null,
    reason text not null default '',
    set_at timestamptz not null default now(),
    primary key (tenant, name)
);

-- Large values in the object store that rows refer to, by job.
create table payloads (
    job_id uuid not null,
    digest text not null,
    bytes bigint not null,
    stored_at timestamptz not null default now(),
    primary key (job_id, digest),
    constraint payloads_are_named_by_their_sha256 check (digest ~ '^[0-9a-f]{64}$')
);

-- Files that attempts have published.
create table artifacts (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    name text not null,
    digest text not null,
    bytes bigint not null,
    attempt int not null,
    published_at timestamptz not null default now(),
    primary key (job_id, node, item, name)
);
create index artifacts_by_digest on artifacts (digest);
create index artifacts_by_name on artifacts (job_id, name, node, item);

-- The leader of each role that only one process may have.
create table leaders (
    role text not null,
    holder text not null,
    since timestamptz not null default now(),
    lease_until timestamptz not null,
    primary key (role)
);

-- What the janitor found wrong, and what it did.
create table janitor_actions (
    action_id bigint not null generated always as identity,
    run uuid not null,
    duty text not null,
    action text not null,
    job_id uuid,
    node text,
    item int,
    reason text not null,
    before jsonb,
    after jsonb,
    at timestamptz not null default now(),
    primary key (action_id),
    constraint janitor_action_is_known check (action in ('recheck', 'expire', 'delete', 'alert'))
);
create index janitor_actions_by_time on janitor_actions (at);

-- Jobs whose rows are deleted and whose objects may still be in the object store.
create table discarded (
    job_id uuid not null,
    discarded_at timestamptz not null default now(),
    primary key (job_id)
);

-- A random mark of each orchestrator's last commit. If its mark is missing, the orchestrator knows that the database
-- has another history: a standby was promoted, or a copy was restored.
create table last_commits (
    orchestrator_id bigint not null,
    mark bigint not null,
    primary key (orchestrator_id, mark)
);

-- The jobs that an orchestrator advances at this moment. Written only while a job is suspected of killing
-- orchestrators.
create table open_cycles (
    orchestrator_id bigint not null,
    jobs uuid[] not null,
    primary key (orchestrator_id)
);

-- All jobs, for people who look with psql. since: when the job got this status, or began this generation. owner: the
-- orchestrator that drives it, if that is alive. stopping: why a job stops that has not ended.
create view job_overview as
select j.job_id, j.tenant, j.workflow_id, j.version, j.run, j.labels, j.status, j.reason,
    jsonb_path_query_first(j.holds, '$[*] ? (@.by == "pause")') ->> 'name' as paused_by,
    case when j.finished_at is null then j.stop_cause end as stopping, j.generation,
    coalesce(j.finished_at, j.recovered_at, j.started_at, j.created_at) as since,
    j.created_at, j.started_at, j.finished_at, n.task_count, n.completed_count, n.failed_count,
    case when o.ended_at is null and o.lease_until > now() then o.name end as owner,
    j.error ->> 'code' as error_code, j.error ->> 'message' as error_message
from jobs j
left join orchestrators o on o.orchestrator_id = j.owner
cross join lateral (
    select coalesce(sum(greatest(n.width, n.expanded_count) - coalesce((n.matching ->> 'gone')::int, 0)), 0) as task_count,
        coalesce(sum(n.completed_count), 0) as completed_count, coalesce(sum(n.failed_count), 0) as failed_count
    from nodes n where n.job_id = j.job_id
) n;

-- The nodes of all jobs in the order of their definitions, those included that have not begun. start and end are left
-- out.
create view node_overview as
select j.job_id, j.tenant, j.workflow_id, d.place::int as place, d.value ->> 'name' as node, d.value ->> 'type' as type,
    d.value ->> 'importance' as importance, coalesce(n.status, 'pending') as status, n.reason,
    greatest(n.width, n.expanded_count, 0) - coalesce((n.matching ->> 'gone')::int, 0) as task_count,
    coalesce(n.completed_count, 0) as completed_count, coalesce(n.failed_count, 0) as failed_count,
    coalesce(n.skipped_count, 0) - coalesce((n.matching ->> 'gone')::int, 0) as skipped_count,
    coalesce(n.cancelled_count, 0) as cancelled_count, (
        select count(*) from queue q where q.job_id = n.job_id and q.node = n.node and q.state = 'leased'
    ) as running_count,
    n.started_at, n.finished_at, (e.error ->> 'index')::int as error_item, e.error ->> 'code' as error_code,
    e.error ->> 'message' as error_message
from jobs j
join workflows w on w.definition_hash = j.definition_hash
cross join lateral json_array_elements(
    case when json_typeof(w.definition -> 'nodes') = 'array' then w.definition -> 'nodes' else '[]' end
) with ordinality as d (value, place)
left join nodes n on n.job_id = j.job_id and n.node = d.value ->> 'name'
-- A node that has completed, or that runs, has no error of its own: the first failed task has it, or the first one that
-- waits for its next attempt.
left join lateral (
    select coalesce(n.error, case when n.failed_count > 0 then (
        select t.error from tasks t
        where t.job_id = n.job_id and t.node = n.node and t.status = 'failed' order by t.item limit 1
    ) end, (
        select t.error from queue q join tasks t on t.job_id = q.job_id and t.node = q.node and t.item = q.item
        where q.job_id = n.job_id and q.node = n.node and q.state = 'waiting' order by q.item limit 1
    )) as error
) e on true
where d.value ->> 'type' not in ('start', 'end');

-- All failed tasks. A task that is not one of many items has no item.
create view failed_tasks as
select t.job_id, j.tenant, j.workflow_id, t.node, nullif(t.item, -1) as item, t.attempt, t.worker, t.started_at,
    t.finished_at, t.error ->> 'code' as error_code, t.error ->> 'class' as error_class,
    t.error ->> 'message' as error_message, t.error ->> 'fingerprint' as fingerprint, t.error ->> 'hint' as hint
from jobs j
join nodes n on n.job_id = j.job_id and n.failed_count > 0
join tasks t on t.job_id = n.job_id and t.node = n.node and t.status = 'failed';

comment on view job_overview is 'All jobs of all tenants: how each is, since when, and its first error.';
comment on view node_overview is 'The nodes of all jobs: how each is, the counts of its tasks, and its first error.';
comment on view failed_tasks is 'All failed tasks, each with its error. Name a job: where job_id = ...';

-- API keys of the service. secret_hash: SHA-256 of the whole key, which is stored nowhere. tenant *: the installation.
create table api_keys (
    prefix text not null,
    secret_hash text not null,
    name text not null,
    tenant text not null,
    roles text[] not null,
    created_at timestamptz not null default now(),
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    last_used_at timestamptz,
    primary key (prefix),
    constraint keys_have_a_role check (cardinality(roles) > 0)
);
create index api_keys_by_tenant on api_keys (tenant, created_at desc);

-- The ids that other systems have for a job, by which people find it.
create table external_ids (
    tenant text not null,
    namespace text not null,
    value text not null,
    job_id uuid not null,
    primary key (tenant, namespace, value, job_id)
);
create index external_ids_by_job on external_ids (job_id);

-- The texts from which the definitions of a tenant were read, as they came. A definition that a program built has none.
create table sources (
    tenant text not null,
    definition_hash text not null,
    kind text not null,
    name text,
    content text not null,
    stored_at timestamptz not null default now(),
    primary key (tenant, definition_hash),
    constraint source_kind_is_known check (kind in ('yaml', 'json', 'python'))
);

-- Tenants that an administrator has made. A tenant needs no row: it exists by its jobs, too. queues: those that its
-- workflows may name; null: any.
create table tenants (
    name text not null,
    created_at timestamptz not null default now(),
    created_by text not null,
    queues text[],
    primary key (name),
    constraint tenants_have_a_name check (name not in ('', '*')),
    constraint bound_tenants_have_a_queue check (cardinality(queues) > 0)
);

-- Browsers that are signed in. token_hash: SHA-256 of the cookie, which is stored nowhere. A session of a key ends with
-- the key.
create table sessions (
    token_hash text not null,
    name text not null,
    tenant text not null,
    roles text[] not null,
    key_prefix text,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    primary key (token_hash),
    constraint sessions_have_a_role check (cardinality(roles) > 0)
);
create index sessions_by_end on sessions (expires_at);

-- Codes with which a browser signs in once, for the holder of a key. A used one is gone.
create table sign_in_codes (
    code_hash text not null,
    key_prefix text not null,
    expires_at timestamptz not null,
    primary key (code_hash)
);

-- Who changed what, when, from where and why: one row for each change that a person or a program has made. Rows of the
-- whole installation have the tenant *. The rows outlive what they are about.
create table audit (
    audit_id bigint not null generated always as identity,
    at timestamptz not null default now(),
    tenant text not null,
    actor text not null,
    key_prefix text,
    address text,
    request_id text,
    action text not null,
    instance text,
    before jsonb,
    after jsonb,
    reason text,
    primary key (audit_id)
);
create index audit_by_tenant on audit (tenant, audit_id desc);
create index audit_by_time on audit using brin (at);

-- What happened in each minute, by tenant: the events of the minute, counted. The janitor counts each event once.
create table stats (
    tenant text not null,
    minute timestamptz not null,
    jobs_submitted int not null default 0,
    jobs_completed int not null default 0,
    jobs_partial int not null default 0,
    jobs_failed int not null default 0,
    jobs_cancelled int not null default 0,
    tasks_completed int not null default 0,
    tasks_failed int not null default 0,
    tasks_skipped int not null default 0,
    tasks_cancelled int not null default 0,
    attempts_failed int not null default 0,
    primary key (tenant, minute)
);
create index stats_by_time on stats using brin (minute);

-- Which events are counted: those that this snapshot sees. Events from before this migration are not counted.
create table stats_progress (
    is_only_row boolean not null default true,
    snapshot pg_snapshot not null,
    counted_at timestamptz not null default now(),
    primary key (is_only_row),
    constraint there_is_one_row check (is_only_row)
);

-- Events that some receiver wants. The owner of a job writes a row in the commit that writes the events; an event that no
-- receiver wants has none. The processes that deliver find out who gets it.

create table outbox (
    outbox_id bigint not null generated always as identity,
    tenant text not null,
    job_id uuid,
    workflow_id text,
    node text collate "C",
    event text not null,
    generation int,
    seq int,
    count int not null default 1,
    items int[] not null default '{}',
    data jsonb not null default '{}',
    rules jsonb not null default '[]',
    created_at timestamptz not null default now(),
    expanded_at timestamptz,
    primary key (outbox_id)
);
create index outbox_to_expand on outbox (outbox_id) where expanded_at is null;
create index outbox_by_time on outbox using brin (created_at);

-- Receivers that a tenant has named, to which events are sent by HTTP. secret signs what is sent; former_secret signs it
-- too until former_secret_until, so that a receiver can change over. disabled_at: nothing is sent until a person enables
-- it again.
create table webhooks (
    tenant text not null,
    name text not null,
    url text not null,
    events text[] not null,
    secret text not null,
    former_secret text,
    former_secret_until timestamptz,
    created_at timestamptz not null default now(),
    created_by text not null,
    disabled_at timestamptz,
    disabled_reason text,
    primary key (tenant, name),
    constraint a_disabled_webhook_has_a_reason check ((disabled_at is null) = (disabled_reason is null))
);

-- What a tenant has settled for what is sent: the domains to which mails may go, and the secret that signs callbacks.
create table notify_settings (
    tenant text not null,
    mail_domains text[] not null default '{}',
    secret text,
    former_secret text,
    former_secret_until timestamptz,
    primary key (tenant)
);

-- One row for each event and receiver; its id is what the receiver sees at each try. A mail has the events of several
-- rows: head_id names the row that stands for the mail, whose status its others share. next_at: when it may be tried; of
-- one that a process is trying (holder), when another may take it. due_since: since when it is tried. destination: what
-- fails together, such as a webhook, the host of callbacks, or the mail server.
create table deliveries (
    delivery_id uuid not null default gen_random_uuid(),
    number bigint not null generated always as identity,
    outbox_id bigint not null,
    tenant text not null,
    job_id uuid,
    kind text not null,
    receiver text not null,
    destination text not null,
    status text not null,
    head_id uuid,
    holder uuid,
    tries int not null default 0,
    next_at timestamptz not null default now(),
    due_since timestamptz not null default now(),
    created_at timestamptz not null default now(),
    ended_at timestamptz,
    answer int,
    error text,
    primary key (delivery_id),
    constraint an_event_goes_to_a_receiver_once unique (outbox_id, receiver),
    constraint delivery_status_is_known check (status in ('gathering', 'waiting', 'sent', 'dead'))
);
create index deliveries_to_send on deliveries (tenant, destination, next_at) where status = 'waiting';
create index deliveries_in_flight on deliveries (tenant, destination) where holder is not null;
create index deliveries_to_gather on deliveries (tenant, job_id, receiver) where status = 'gathering';
create index deliveries_in_order on deliveries (job_id, receiver, outbox_id) where status = 'waiting';
create index deliveries_by_mail on deliveries (head_id) where head_id is not null;
create index deliveries_by_tenant on deliveries (tenant, number desc);
create index deliveries_by_time on deliveries using brin (created_at);
create index dead_deliveries on deliveries (ended_at) where status = 'dead';

-- The mails of a job to a recipient, which follow each other: since when the last one is on its way, and the delivery
-- that stands for the first.
create table mail_threads (
    tenant text not null,
    thread text not null,
    receiver text not null,
    mailed_at timestamptz,
    first_id uuid,
    created_at timestamptz not null default now(),
    primary key (tenant, thread, receiver)
);

-- Destinations that fail: since when, how often in a row, and until when none is tried. Those that work have no row.
create table failing_destinations (
    tenant text not null,
    destination text not null,
    failing_since timestamptz not null default now(),
    failures int not null default 1,
    held_until timestamptz,
    primary key (tenant, destination)
);

-- The hooks of apps, which get the ends of the jobs of all tenants. seen_at: about when a process that has the hook has
-- last made it known. One that no process has had for days is forgotten.
create table hooks (
    name text not null,
    seen_at timestamptz not null default now(),
    primary key (name)
);

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
