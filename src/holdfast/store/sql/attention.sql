-- What a person of a tenant should look at now. Each statement gives causes: how many there are of each, since when, and
-- an example. Nothing here writes.

-- name: attention_columns
-- A cause, by what it is about.
cause, number, since, instance, workflow_id, text;

-- name: attention_to_ended_jobs
-- Failed and partial jobs that no person has acknowledged, by workflow and code: the newest ones.
with newest as materialized (
    select j.job_id, j.workflow_id, j.status, j.generation, j.finished_at, j.error
    from jobs j
    where j.tenant = %(tenant)s and j.error is not null and j.finished_at is not null
    order by j.finished_at desc limit %(walk)s
),
found as (
    select 'job_' || n.status as cause, count(*) as number, min(n.finished_at) as since,
        (array_agg(n.job_id::text order by n.finished_at desc))[1] as instance, n.workflow_id, concat_ws(': ',
            n.error ->> 'code', (array_agg(n.error ->> 'message' order by n.finished_at desc))[1]) as text
    from newest n
    where n.status in ('failed', 'partial') and not exists (
        select 1 from acknowledgements k where k.job_id = any(array[n.job_id]) and k.generation = n.generation)
    group by n.status, n.workflow_id, n.error ->> 'code'
)
select {{attention_columns}} from found order by number desc, since limit %(limit)s;

-- name: attention_to_open_jobs
-- Open jobs that are paused, held by a breaker, set aside, or without a live owner, by workflow and cause.
with opened as materialized (
    select j.job_id, j.workflow_id, j.holds, j.reason, j.created_at, j.owner from jobs j
    where j.finished_at is null and j.tenant = %(tenant)s
),
single as (
    select case h.hold ->> 'by' when 'pause' then 'job_paused' else 'job_held' end as cause, o.job_id, o.workflow_id,
        to_timestamp((h.hold ->> 'since')::float8) as since, h.hold ->> 'name' as text
    from opened o cross join lateral jsonb_array_elements(o.holds) as h (hold)
    union all
    select 'set_aside', o.job_id, o.workflow_id, o.created_at, o.reason
    from opened o where starts_with(o.reason, 'orchestrator_error')
    union all
    select 'owner_gone', o.job_id, o.workflow_id,
        case when a.orchestrator_id is null then o.created_at
            when isfinite(a.lease_until) then a.lease_until else a.ended_at end, coalesce(a.name, '')
    from opened o left join orchestrators a on a.orchestrator_id = o.owner
    where (a.orchestrator_id is null and o.created_at < now() - make_interval(secs => %(patience)s))
        or a.ended_at < now() - make_interval(secs => %(patience)s)
        or a.lease_until between '-infinity'::timestamptz + interval '1 s' and now() - make_interval(secs => %(patience)s)
),
found as (
    select s.cause, count(*) as number, min(s.since) as since,
        (array_agg(s.job_id::text order by s.since))[1] as instance, s.workflow_id, s.text
    from single s group by s.cause, s.workflow_id, s.text
)
select {{attention_columns}} from found order by number desc, since limit %(limit)s;

-- name: attention_to_signals
-- What people have asked of jobs, and no owner has answered yet. `|| ''` keeps the planner from reading all jobs of the
-- tenant.
with found as (
    select 'unanswered' as cause, count(*) as number, min(i.sent_at) as since,
        (array_agg(i.job_id::text order by i.id))[1] as instance, j.workflow_id, i.kind as text
    from inbox i
    cross join lateral (
        select k.workflow_id from jobs k where k.job_id = i.job_id and k.tenant || '' = %(tenant)s offset 0
    ) j
    where i.kind = any({{asked_kinds}}) and i.sent_at < now() - make_interval(secs => %(patience)s)
    group by j.workflow_id, i.kind
)
select {{attention_columns}} from found order by since limit %(limit)s;

-- name: attention_to_alerts
-- What the janitor could not repair within the last hour: of jobs of the tenant, and with `everything` of no job.
with found as (
    select 'janitor_alert' as cause, count(*) as number, min(a.at) as since, a.job_id::text as instance, j.workflow_id,
        (array_agg(a.duty || ': ' || a.reason order by a.action_id desc))[1] as text
    from janitor_actions a left join jobs j on j.job_id = any(array[a.job_id])
    where a.at > now() - interval '1 hour' and a.action = 'alert'
        and (j.tenant = %(tenant)s or (%(everything)s and a.job_id is null))
    group by a.duty, a.job_id, j.workflow_id
)
select {{attention_columns}} from found order by since limit %(limit)s;

-- name: attention_to_schedules
-- Schedules whose last tick made no job, and those that have left the file of their workflow.
with found as (
    select case when s.problem is not null then 'schedule_failed' else 'schedule_left_file' end as cause, 1 as number,
        case when s.problem is not null then coalesce(s.last_tick, s.changed_at) else s.paused_at end as since,
        s.name as instance, s.workflow_id, coalesce(s.problem, s.pause_reason) as text
    from schedules s
    where s.tenant = %(tenant)s and (s.problem is not null or (s.source = 'left_file' and s.paused_at is not null))
)
select {{attention_columns}} from found order by since limit %(limit)s;

-- name: attention_to_receivers
-- Webhooks that are disabled; what died within a day on its way to other receivers, of the newest deliveries; and what
-- no process tries, because none has the mail server or the app that it needs.
with newest as materialized (
    select d.delivery_id, d.kind, d.receiver, d.status, d.ended_at, d.error from deliveries d
    where d.tenant = %(tenant)s order by d.number desc limit %(walk)s
),
disabled as (
    select w.name, w.disabled_at, w.disabled_reason from webhooks w
    where w.tenant = %(tenant)s and w.disabled_at is not null
),
untried as materialized (
    (select d.delivery_id, d.kind, d.created_at as since from deliveries d
    where d.status = 'gathering' and d.tenant = %(tenant)s and d.created_at < now() - interval '5 minutes'
    limit %(walk)s)
    union all
    (select d.delivery_id, d.kind, d.due_since from deliveries d
    where d.status = 'waiting' and d.tenant = %(tenant)s and d.next_at < now() - interval '5 minutes' and d.tries = 0
        and d.holder is null and (d.head_id is null or d.head_id = d.delivery_id)
        and not exists (select from failing_destinations f where f.tenant = d.tenant and f.destination = d.destination)
    limit %(walk)s)
),
found as (
    select 'webhook_disabled' as cause, 1 as number, w.disabled_at as since, w.name as instance,
        null::text as workflow_id, w.disabled_reason as text
    from disabled w
    union all
    select 'delivery_dead', count(*), min(n.ended_at), (array_agg(n.delivery_id::text order by n.ended_at desc))[1], null,
        n.kind || ' ' || split_part(substr(n.receiver, length(n.kind) + 2), '?', 1)
        || coalesce(': ' || (array_agg(n.error order by n.ended_at desc))[1], '')
    from newest n
    where n.status = 'dead' and n.ended_at > now() - interval '1 day'
        and not exists (select from disabled w where n.receiver = 'webhook:' || w.name)
    group by n.kind, n.receiver
    union all
    select 'delivery_untried', count(*), min(u.since),
        (array_agg(u.delivery_id::text order by u.since))[1], null, u.kind
    from untried u group by u.kind
)
select {{attention_columns}} from found order by since limit %(limit)s;

-- name: paused_jobs
-- The paused jobs of a tenant, by workflow: how many, since when, and by whom.
select j.workflow_id, count(*) as jobs, to_timestamp(min((h.hold ->> 'since')::float8)) as since,
    (array_agg(distinct h.hold ->> 'name'))[1:5] as by
from jobs j cross join lateral jsonb_path_query_first(j.holds, '$[*] ? (@.by == "pause")') as h (hold)
where j.finished_at is null and j.tenant = %(tenant)s and h.hold is not null
group by j.workflow_id order by j.workflow_id;
