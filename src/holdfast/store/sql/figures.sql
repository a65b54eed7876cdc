-- The figures of the whole installation that a monitoring system reads.

-- name: figures
-- All figures in one snapshot, those of a tenant or of all. What can grow is read up to a limit, so that a scrape of a
-- flooded installation costs no more than that; a figure that reaches it is at least that high. Queues: those that live
-- workers name come first, then those with the most tasks; what is beyond the limit is added up.
with lane as materialized (
    select l.lane_id, l.queue, l.tenant, l.breaker, gates_of(l) as gates from lanes l
),
counted as materialized (
    select q.lane_id, count(*) filter (where q.state = 'ready') as ready,
        count(*) filter (where q.state = 'waiting') as waiting, count(*) filter (where q.state = 'paused') as paused,
        count(*) filter (where q.state = 'leased') as running,
        min(greatest(q.queued_at, q.due_at)) filter (where q.state = 'ready') as ready_since
    from (select r.lane_id, r.state, r.queued_at, r.due_at from queue r limit %(most)s) q group by q.lane_id
),
shut as materialized (
    {{shut_gates}}
),
held as materialized (
    select distinct l.lane_id from lane l join counted c on c.lane_id = l.lane_id cross join unnest(l.gates) as g (gate)
    where c.ready > 0 and g.gate in (select s.gate from shut s)
),
alive as materialized (
    select w.queues, w.concurrency from workers w
    where w.ended_at is null and w.lease_until > now()
        and (w.tenant is null or w.tenant = coalesce(%(tenant)s, w.tenant))
),
judged as (
    select l.queue, c.waiting, c.running, case when h.lane_id is null then c.ready else 0 end as ready,
        c.paused + case when h.lane_id is null then 0 else c.ready end as held,
        case when h.lane_id is null then c.ready_since end as ready_since
    from lane l
    left join counted c on c.lane_id = l.lane_id
    left join held h on h.lane_id = l.lane_id
    where l.tenant = coalesce(%(tenant)s, l.tenant)
),
summed as (
    select j.queue, coalesce(sum(j.ready), 0) as ready, coalesce(sum(j.waiting), 0) as waiting,
        coalesce(sum(j.held), 0) as held, coalesce(sum(j.running), 0) as running, min(j.ready_since) as ready_since
    from judged j group by j.queue
),
ranked as (
    select s.*, row_number() over (order by s.queue in (select unnest(a.queues) from alive a) desc,
        s.ready + s.waiting + s.held + s.running desc, s.queue) as place
    from summed s
),
folded as materialized (
    select case when r.place <= %(names)s then r.queue else %(other)s end as queue, sum(r.ready) as ready,
        sum(r.waiting) as waiting, sum(r.held) as held, sum(r.running) as running, min(r.ready_since) as ready_since
    from ranked r group by 1
),
signal as materialized (
    select count(*) as number, min(i.sent_at) as since from (
        select n.sent_at from inbox n
        where %(tenant)s::text is null or exists (
            select 1 from jobs j where j.job_id = any(array[n.job_id]) and j.tenant = %(tenant)s)
        limit %(most)s
    ) i
),
opened as (
    select b.name, b.state, o.since from breakers b
    cross join lateral (
        select coalesce(least(b.changed_at, min(c.changed_at)), b.changed_at) from breaker_changes c
        where c.name = b.name and c.id > coalesce(
            (select max(d.id) from breaker_changes d where d.name = b.name and d.state = 'closed'), 0)
    ) as o (since)
    where b.state <> 'closed' and b.tenant = coalesce(%(tenant)s, b.tenant)
    order by o.since, b.name limit %(names)s
),
noted as materialized (
    select count(*) as number, min(o.created_at) as since from (
        select b.created_at from outbox b
        where b.expanded_at is null and b.tenant = coalesce(%(tenant)s, b.tenant) order by b.outbox_id limit %(most)s
    ) o
),
unsent as materialized (
    select count(*) as number, min(d.due_since) as since from (
        select v.due_since from deliveries v
        where v.status = 'waiting' and v.tenant = coalesce(%(tenant)s, v.tenant) limit %(most)s
    ) d
)
select 'queue_tasks' as metric, array[f.queue, s.state] as labels, s.number::float8 as value
from folded f
cross join lateral (values ('ready', f.ready), ('waiting', f.waiting), ('held', f.held), ('running', f.running))
    as s (state, number)
union all
select 'queue_oldest_seconds', array[f.queue],
    coalesce(greatest(extract(epoch from now() - f.ready_since), 0), 0)::float8 from folded f
union all
select 'jobs_open', array[s.status], (
    select count(*) from (
        select j.status from jobs j where j.finished_at is null and j.tenant = coalesce(%(tenant)s, j.tenant)
        limit %(most)s) o
    where o.status = s.status)
from (values ('pending'), ('running')) as s (status)
union all
select 'signals_waiting', array[]::text[], g.number from signal g
union all
select 'signals_oldest_seconds', array[]::text[],
    coalesce(greatest(extract(epoch from now() - g.since), 0), 0)::float8 from signal g
union all
select 'breakers', array[s.state], (
    select count(*) from breakers b where b.state = s.state and b.tenant = coalesce(%(tenant)s, b.tenant))
from (values ('closed'), ('open'), ('half_open')) as s (state)
union all
select 'breaker_open_seconds', array[o.name], greatest(extract(epoch from now() - o.since), 0)::float8 from opened o
union all
select 'outbox_waiting', array[]::text[], o.number from noted o
union all
select 'outbox_oldest_seconds', array[]::text[],
    coalesce(greatest(extract(epoch from now() - o.since), 0), 0)::float8 from noted o
union all
select 'deliveries_waiting', array[]::text[], u.number from unsent u
union all
select 'deliveries_oldest_seconds', array[]::text[],
    coalesce(greatest(extract(epoch from now() - u.since), 0), 0)::float8 from unsent u
union all
select 'deliveries_dead', array[]::text[], (
    select count(*) from (
        select from deliveries v
        where v.status = 'dead' and v.ended_at > now() - interval '1 day' and v.tenant = coalesce(%(tenant)s, v.tenant)
            and (v.head_id is null or v.head_id = v.delivery_id)
        limit %(most)s) d)
union all
select 'destinations_failing', array[]::text[], (
    select count(*) from failing_destinations f where f.tenant = coalesce(%(tenant)s, f.tenant))
union all
select 'orchestrators', array[]::text[], (
    select count(*) from orchestrators o where o.ended_at is null and o.lease_until > now() and o.only_job is null)
union all
select 'workers', array[]::text[], (select count(*) from alive)
union all
select 'worker_slots', array[]::text[], (select coalesce(sum(a.concurrency), 0) from alive a)
union all
select 'janitor_pass_seconds', array[]::text[], greatest(extract(epoch from now() - p.counted_at), 0)::float8
from stats_progress p;
