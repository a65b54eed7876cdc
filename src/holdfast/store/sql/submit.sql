-- Submissions, definitions, and signals of people.

-- name: register_definitions
insert into workflows (definition_hash, tenant, workflow_id, version, definition)
select distinct on (w.definition_hash) w.definition_hash, w.tenant, w.workflow_id, w.version, w.definition
from unnest(%(definition_hash)s::text[], %(tenant)s::text[], %(workflow_id)s::text[], %(version)s::text[],
    %(definition)s::json[])
    as w (definition_hash, tenant, workflow_id, version, definition)
on conflict (definition_hash) do nothing;

-- name: take_backlog_turn
-- Submissions of a tenant with a limited backlog run one after the other: each counts the jobs that earlier ones made.
select pg_advisory_xact_lock(hashtextextended('holdfast backlog ' || m.tenant, 0))
from (
    select m.tenant from limits m
    where m.tenant = any(%(tenant)s::text[]) and m.name = 'tenant' and m.backlog is not null order by m.tenant
) m;

-- name: submit_jobs
-- The job's row, its first event and its first signal commit together. An existing job of the same identity wins,
-- unless the submission is forced: then it makes the next run of the same body. If two submissions need the same run
-- number, one of them gets it. A first run may have been pruned before a later one, so a submission that is not forced
-- also looks for later runs. A tenant whose backlog is full gets no new job, but gets an existing one. The order is the
-- same everywhere: two calls with the same identities wait for each other, but never deadlock.
with wanted as (
    select * from unnest(%(job_id)s::uuid[], %(tenant)s::text[], %(workflow_id)s::text[], %(version)s::text[],
        %(definition_hash)s::text[], %(identity)s::text[], %(body_hash)s::text[], %(inputs)s::jsonb[],
        %(priority)s::smallint[], %(force)s::boolean[]) with ordinality
        as w (job_id, tenant, workflow_id, version, definition_hash, identity, body_hash, inputs, priority, force, place)
),
full_tenant as materialized (
    select m.tenant from limits m
    where m.tenant in (select w.tenant from wanted w) and m.name = 'tenant' and m.backlog is not null
        and m.backlog <= (
            select count(*) from (
                select 1 from jobs j where j.tenant = m.tenant and j.finished_at is null limit m.backlog
            ) o)
),
created as (
    insert into jobs (job_id, tenant, workflow_id, version, definition_hash, identity, body_hash, inputs, priority, run,
        previous)
    select w.job_id, w.tenant, w.workflow_id, w.version, w.definition_hash, w.identity, w.body_hash, w.inputs, w.priority,
        coalesce(n.run, 0) + 1, n.job_id
    from wanted w
    left join lateral (
        select j.job_id, j.run, j.body_hash from jobs j
        where w.force and j.tenant = w.tenant and j.identity = w.identity order by j.run desc limit 1
    ) n on true
    where w.tenant not in (select f.tenant from full_tenant f)
        and case when w.force then n.job_id is null or n.body_hash = w.body_hash
            else (
                select j.run from jobs j
                where j.tenant = w.tenant and j.identity = w.identity and j.run > 1 limit 1
            ) is null end
    order by w.tenant, w.identity, w.place
    on conflict (tenant, identity, run) do nothing
    returning job_id, workflow_id, version, run, previous
),
logged as (
    insert into events (job_id, seq, event, data)
    select job_id, 1, 'job_created', jsonb_strip_nulls(
        jsonb_build_object('workflow_id', workflow_id, 'version', version, 'previous', previous)) from created
),
signalled as (
    insert into inbox (owner, job_id, kind) select 0, job_id, 'submitted' from created
)
select job_id::text as job_id, run from created;

-- name: backlog_of
-- The number of open jobs of a tenant, and its limit.
select m.backlog, (select count(*) from jobs j where j.tenant = m.tenant and j.finished_at is null) as open_jobs
from limits m where m.tenant = %(tenant)s and m.name = 'tenant' and m.backlog is not null;

-- name: jobs_by_identity
-- The newest job of each identity.
select distinct on (j.tenant, j.identity)
    j.tenant, j.identity, j.job_id::text as job_id, j.body_hash, j.status, j.run, j.result::text as result, j.version,
    j.result_ref
from jobs j
join unnest(%(tenant)s::text[], %(identity)s::text[]) as w (tenant, identity)
    on j.tenant = w.tenant and j.identity = w.identity
order by j.tenant, j.identity, j.run desc;

-- name: definition
select definition::text as definition from workflows where definition_hash = %(hash)s;

-- name: newest_definition
select definition::text as definition from workflows
where tenant = %(tenant)s and workflow_id = %(workflow_id)s
order by registered_at desc, version desc limit 1;

-- name: ensure_lanes
insert into lanes (queue, handler, tenant, breaker, limit_key)
select * from unnest(%(queue)s::text[], %(handler)s::text[], %(tenant)s::text[], %(breaker)s::text[],
    %(limit_key)s::text[])
on conflict do nothing;

-- name: declare_limits
-- The values are those of the workflow that was read last.
insert into limits (tenant, name, concurrency, rate, burst)
select * from unnest(%(tenant)s::text[], %(name)s::text[], %(concurrency)s::int[], %(rate)s::float8[],
    %(burst)s::int[])
on conflict (tenant, name) do update
set concurrency = coalesce(excluded.concurrency, limits.concurrency), rate = coalesce(excluded.rate, limits.rate),
    burst = coalesce(excluded.burst, limits.burst), changed_at = now()
where limits.actor is null;

-- name: all_lanes
select lane_id, queue, handler, tenant, breaker, limit_key from lanes;

-- name: notify
select pg_notify(%(channel)s, %(payload)s);

-- name: send_signal
-- The signal gets the present owner of the job; the sweep corrects it after a change. The job cannot be pruned
-- meanwhile.
insert into inbox (owner, job_id, kind, actor, reason, data)
select coalesce(j.owner, 0), j.job_id, %(kind)s, %(actor)s, %(reason)s, %(data)s::jsonb
from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant)
for key share
returning id, owner;

-- name: answer
select a.applied, a.reason, a.remedy from answers a
where a.signal_id = %(signal_id)s and (%(tenant)s::text is null
    or exists (select 1 from jobs j where j.job_id = a.job_id and j.tenant = %(tenant)s));
