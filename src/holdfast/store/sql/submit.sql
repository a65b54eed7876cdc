-- Submissions, definitions, and signals of people.

-- name: register_definitions
-- Stores definitions. Tenants share the content of equal ones. The first definition of an id becomes the one that the id
-- stands for; later ones, which register_definition names, belong to no tenant. The order is the same everywhere, so
-- that two submissions never deadlock.
with wanted as materialized (
    select w.*, not exists (
            select 1 from registrations r where r.tenant = w.tenant and r.workflow_id = w.workflow_id
        ) and not exists (
            select 1 from workflows c where c.tenant = w.tenant and c.workflow_id = w.workflow_id
        ) as is_first
    from unnest(%(definition_hash)s::text[], %(tenant)s::text[], %(workflow_id)s::text[], %(version)s::text[],
        %(definition)s::json[])
        as w (definition_hash, tenant, workflow_id, version, definition)
),
stored as (
    insert into workflows (definition_hash, tenant, workflow_id, version, definition)
    select distinct on (w.definition_hash) w.definition_hash, case when w.is_first then w.tenant else '' end,
        w.workflow_id, w.version, w.definition
    from wanted w order by w.definition_hash, w.tenant
    on conflict (definition_hash) do nothing
)
insert into registrations (tenant, definition_hash, workflow_id, version)
select distinct on (w.definition_hash, w.tenant) w.tenant, w.definition_hash, w.workflow_id, w.version
from wanted w where w.is_first order by w.definition_hash, w.tenant
on conflict (tenant, definition_hash) do nothing;

-- name: keep_plan
-- The plan of a correction that a person has decided on, and the definition that it brings, for the owner. No name
-- stands for that definition. The plan of an earlier request that was not carried out counts as new.
with stored as (
    insert into workflows (definition_hash, tenant, workflow_id, version, definition)
    select %(definition_hash)s, '', j.workflow_id, %(version)s, %(definition)s::json
    from jobs j where j.job_id = %(job)s::uuid
    on conflict (definition_hash) do nothing
)
insert into plans (job_id, plan_id, generation, last_seq, definition_hash, inputs, content)
values (%(job)s::uuid, %(plan)s, %(generation)s, %(last_seq)s, %(definition_hash)s, %(inputs)s::jsonb, %(content)s::jsonb)
on conflict (job_id, plan_id) do update set made_at = now();

-- name: store_resolved
-- Definitions into which defaults were filled. They belong to no tenant, so that no name stands for them: a name stands
-- for a definition as it was written.
insert into workflows (definition_hash, tenant, workflow_id, version, definition)
select distinct on (w.definition_hash) w.definition_hash, '', w.workflow_id, w.version, w.definition
from unnest(%(definition_hash)s::text[], %(workflow_id)s::text[], %(version)s::text[], %(definition)s::json[])
    as w (definition_hash, workflow_id, version, definition)
order by w.definition_hash
on conflict (definition_hash) do nothing;

-- name: register_definition
-- Makes a definition the current one of its id: no other was registered later, whatever the clock says. A definition
-- that is the current one stays as it is.
with current as materialized (
    select n.definition_hash, n.registered_at from (
        select r.definition_hash, r.registered_at, r.version from registrations r
        where r.tenant = %(tenant)s and r.workflow_id = %(workflow_id)s
        union all
        select c.definition_hash, c.registered_at, c.version from workflows c
        where c.tenant = %(tenant)s and c.workflow_id = %(workflow_id)s
    ) n order by n.registered_at desc, n.version desc limit 1
),
stored as (
    insert into workflows (definition_hash, tenant, workflow_id, version, definition)
    values (%(definition_hash)s, %(tenant)s, %(workflow_id)s, %(version)s, %(definition)s::json)
    on conflict (definition_hash) do nothing
),
registered as (
    insert into registrations as r (tenant, definition_hash, workflow_id, version, registered_at)
    select %(tenant)s, %(definition_hash)s, %(workflow_id)s, %(version)s,
        greatest(now(), (select c.registered_at + interval '1 microsecond' from current c))
    where not exists (select 1 from current c where c.definition_hash = %(definition_hash)s)
    on conflict (tenant, definition_hash) do update set registered_at = excluded.registered_at
    returning r.registered_at
),
noted as (
    insert into audit ({{audit_names}})
    select %(tenant)s, {{audit_signature}}, 'workflow.register', %(workflow_id)s,
        (select jsonb_build_object('definition_hash', c.definition_hash) from current c),
        jsonb_build_object('definition_hash', %(definition_hash)s::text, 'version', %(version)s::text), null
    from registered
)
select d.registered_at, true as is_new from registered d
union all
select c.registered_at, false from current c where c.definition_hash = %(definition_hash)s;

-- name: acknowledge
-- The job cannot be pruned meanwhile. Its next generation is another one, so that a recovery ends the acknowledgement.
with acknowledged as (
    insert into acknowledgements (job_id, generation, actor, reason)
    select j.job_id, j.generation, %(actor)s, %(reason)s from jobs j
    where j.job_id = %(job)s and j.tenant = %(tenant)s and j.status in ('failed', 'partial')
    for key share
    on conflict (job_id, generation) do update set actor = excluded.actor, reason = excluded.reason, at = now()
    returning job_id, generation, actor, reason, at
),
noted as (
    insert into audit ({{audit_names}})
    select %(tenant)s, {{audit_signature}}, 'job.acknowledge', k.job_id::text, null,
        jsonb_build_object('generation', k.generation), nullif(k.reason, '')
    from acknowledged k
)
select k.actor, k.reason, k.at from acknowledged k;

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
-- also looks for later runs. A tenant with a limited backlog gets no more new jobs than there is room for, but gets existing
-- ones. The order is the same everywhere: two calls with the same identities wait for each other, but never deadlock. No
-- job is made if the defaults of a tenant are not those with which its definition was resolved; a row without a job says
-- so.
with wanted as (
    select * from unnest(%(job_id)s::uuid[], %(tenant)s::text[], %(workflow_id)s::text[], %(version)s::text[],
        %(definition_hash)s::text[], %(identity)s::text[], %(body_hash)s::text[], %(inputs)s::jsonb[],
        %(priority)s::smallint[], %(force)s::boolean[], %(labels)s::jsonb[], %(defaults_mark)s::text[],
        %(correlation_id)s::text[], %(callback_url)s::text[], %(submitter)s::text[], %(request_id)s::text[],
        %(notify)s::jsonb[], %(traceparent)s::text[])
        with ordinality
        as w (job_id, tenant, workflow_id, version, definition_hash, identity, body_hash, inputs, priority, force, labels,
            defaults_mark, correlation_id, callback_url, submitter, request_id, notify, traceparent, place)
),
other_defaults as materialized (
    select t.tenant from (select distinct w.tenant, w.defaults_mark from wanted w) t
    where t.defaults_mark <> coalesce((
        select md5(string_agg(d.name || d.value::text, ',' order by d.name))
        from defaults d where d.tenant = t.tenant and d.value is not null), '')
),
room as materialized (
    select m.tenant, m.backlog - (
            select count(*) from (
                select 1 from jobs j where j.tenant = m.tenant and j.finished_at is null limit m.backlog
            ) o) as places
    from limits m
    where m.tenant in (select w.tenant from wanted w) and m.name = 'tenant' and m.backlog is not null
),
without_room as materialized (
    select o.job_id from (
        select w.job_id, r.places, row_number() over (partition by w.tenant order by w.place) as number
        from room r join wanted w on w.tenant = r.tenant
    ) o where o.number > o.places
),
created as (
    insert into jobs (job_id, tenant, workflow_id, version, definition_hash, identity, body_hash, inputs, priority, run,
        previous, labels, correlation_id, callback_url, submitter, notify, traceparent)
    select w.job_id, w.tenant, w.workflow_id, w.version, w.definition_hash, w.identity, w.body_hash, w.inputs, w.priority,
        coalesce(n.run, 0) + 1, n.job_id, w.labels, w.correlation_id, w.callback_url, w.submitter,
        w.notify, w.traceparent
    from wanted w
    left join lateral (
        select j.job_id, j.run, j.body_hash from jobs j
        where w.force and j.tenant = w.tenant and j.identity = w.identity order by j.run desc limit 1
    ) n on true
    where not exists (select 1 from other_defaults)
        and w.job_id not in (select f.job_id from without_room f)
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
    select c.job_id, 1, 'job_created', jsonb_strip_nulls(jsonb_build_object('workflow_id', c.workflow_id,
        'version', c.version, 'previous', c.previous, 'request_id', w.request_id))
    from created c join wanted w on w.job_id = c.job_id
),
signalled as (
    insert into inbox (owner, job_id, kind) select 0, job_id, 'submitted' from created
)
select job_id::text as job_id, run from created
union all
select null, null from other_defaults;

-- name: write_external_ids
-- The ids that other systems have for the jobs that this transaction has made. A job that was there keeps its own.
insert into external_ids (tenant, namespace, value, job_id)
select j.tenant, e.key, e.value, j.job_id
from unnest(%(job_id)s::uuid[], %(external_ids)s::jsonb[]) as w (job_id, external_ids)
join jobs j on j.job_id = w.job_id
cross join lateral jsonb_each_text(w.external_ids) as e
on conflict do nothing;

-- name: write_sources
-- The texts from which definitions were read. The first one stays: a submission changes no registration.
insert into sources (tenant, definition_hash, kind, name, content)
select * from unnest(%(tenant)s::text[], %(definition_hash)s::text[], %(kind)s::text[], %(name)s::text[],
    %(content)s::text[]) as w (tenant, definition_hash, kind, name, content)
order by w.tenant, w.definition_hash
on conflict do nothing;

-- name: register_source
-- The text of a definition that a person registers: it takes the place of an earlier spelling of the same one.
insert into sources as s (tenant, definition_hash, kind, name, content)
values (%(tenant)s, %(definition_hash)s, %(kind)s, %(name)s, %(content)s)
on conflict (tenant, definition_hash) do update
set kind = excluded.kind, name = excluded.name, content = excluded.content, stored_at = now()
where (s.kind, s.name, s.content) is distinct from (excluded.kind, excluded.name, excluded.content);

-- name: backlog_of
-- The number of open jobs of a tenant, and its limit.
select m.backlog, (select count(*) from jobs j where j.tenant = m.tenant and j.finished_at is null) as open_jobs
from limits m where m.tenant = %(tenant)s and m.name = 'tenant' and m.backlog is not null;

-- name: jobs_by_identity
-- The newest job of each identity.
select distinct on (j.tenant, j.identity)
    j.tenant, j.identity, j.job_id::text as job_id, j.body_hash, j.status, j.run, j.result::text as result, j.version,
    j.result_ref, j.definition_hash
from jobs j
join unnest(%(tenant)s::text[], %(identity)s::text[]) as w (tenant, identity)
    on j.tenant = w.tenant and j.identity = w.identity
order by j.tenant, j.identity, j.run desc;

-- name: definition
select definition::text as definition from workflows where definition_hash = %(hash)s;

-- name: newest_definition
-- A process of an older version makes no registrations: what it submits is found by the tenant of the content.
select w.definition::text as definition from (
    select r.definition_hash, r.registered_at, r.version from registrations r
    where r.tenant = %(tenant)s and r.workflow_id = %(workflow_id)s
    union all
    select c.definition_hash, c.registered_at, c.version from workflows c
    where c.tenant = %(tenant)s and c.workflow_id = %(workflow_id)s
) n
join workflows w on w.definition_hash = n.definition_hash
order by n.registered_at desc, n.version desc limit 1;

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
with sent as (
    insert into inbox (owner, job_id, kind, actor, reason, data)
    select coalesce(j.owner, 0), j.job_id, %(kind)s, %(actor)s, %(reason)s, %(data)s::jsonb
    from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant)
    for key share
    returning id, owner, job_id
),
noted as (
    insert into audit ({{audit_names}})
    select {{audit_of_signal}} from sent s join jobs j on j.job_id = any(array[s.job_id])
)
select s.id, s.owner from sent s;

-- name: audit_of_signal
-- The line about a signal `s` to a job `j`: how the job was, and what was asked.
j.tenant, {{audit_signature}}, %(action)s::text, j.job_id::text,
    jsonb_build_object('status', j.status, 'generation', j.generation),
    coalesce(%(asked)s::jsonb, '{}') || jsonb_build_object('signal_id', s.id), nullif(%(reason)s::text, '');

-- name: send_signals
-- The same signal to many jobs that have not ended.
with sent as (
    insert into inbox (owner, job_id, kind, actor, reason, data)
    select coalesce(j.owner, 0), j.job_id, %(kind)s, %(actor)s, %(reason)s, %(data)s::jsonb
    from jobs j
    where j.job_id = any(%(jobs)s::uuid[]) and j.finished_at is null and j.tenant = coalesce(%(tenant)s, j.tenant)
    for key share
    returning id, owner, job_id
),
noted as (
    insert into audit ({{audit_names}})
    select {{audit_of_signal}} from sent s join jobs j on j.job_id = any(array[s.job_id])
)
select s.id, s.owner, s.job_id::text as job_id from sent s;

-- name: answers
-- The answers so far to signals that were sent to many jobs.
select a.signal_id, a.applied, a.reason from answers a where a.signal_id = any(%(signals)s::bigint[]);

-- name: answer
select a.applied, a.reason, a.remedy from answers a
where a.signal_id = %(signal_id)s and (%(tenant)s::text is null
    or exists (select 1 from jobs j where j.job_id = a.job_id and j.tenant = %(tenant)s));
