-- Breakers and limits, for people to see and to change.

-- name: read_breakers
-- All breakers of a tenant, with the numbers of waiting and running tasks of each.
with behind as (
    select l.breaker, count(*) filter (where q.state <> 'leased') as waiting,
        count(*) filter (where q.state = 'leased') as running
    from lanes l join queue q on q.lane_id = l.lane_id
    where l.breaker <> '' group by l.breaker
)
select coalesce(b.settings ->> 'name', b.name) as name, b.state, b.held, b.changed_at as since, b.until,
    b.settings ->> 'probe_url' is not null or b.settings ->> 'probe_handler' is not null as has_probe,
    (select count(*) from jsonb_array_elements(b.calls) c)::int as calls,
    (select count(*) from jsonb_array_elements(b.calls) c where (c ->> 1)::boolean)::int as failed,
    (b.settings ->> 'window_calls')::int as window_calls, b.successes, coalesce(w.waiting, 0)::int as waiting,
    coalesce(w.running, 0)::int as running, b.reason, b.actor
from breakers b left join behind w on w.breaker = b.name
where b.tenant = %(tenant)s
order by b.name;

-- name: clock
-- The current time, not the time at which the transaction began: the transaction may have waited for a lock.
select extract(epoch from clock_timestamp())::float8 as now;

-- name: read_holds
-- The nodes of a job whose ready tasks are all held back, by a breaker that is not closed or else by a full limit. The
-- statement works by lane, because a job has few lanes, however many rows it has.
with mine as materialized (
    select q.node, q.lane_id, count(*)::int as tasks, min(q.queued_at) as queued_at
    from queue q where q.job_id = %(job)s and q.state = 'ready'
    group by q.node, q.lane_id
),
lane as materialized (
    select l.lane_id, l.breaker, gates_of(l) as gates from lanes l where l.lane_id in (select m.lane_id from mine m)
),
bound as materialized (
    select m.name, m.tenant, m.concurrency, m.rate, m.burst,
        m.refilled_at + make_interval(secs => (1 - m.tokens) / m.rate) as next_at,
        'limit:' || m.tenant || ':' || m.name as gate,
        least(m.burst, m.tokens + case when m.refilled_at = '-infinity' then m.burst
            else m.rate * extract(epoch from now() - m.refilled_at) end) as tokens,
        r.running, r.workers
    from limits m
    cross join lateral (
        select count(*)::int as running, (array_agg(distinct w.name))[1:3] as workers
        from lanes l join queue q on q.lane_id = l.lane_id left join workers w on w.worker_id = q.holder
        where q.state || '' = 'leased' and 'limit:' || m.tenant || ':' || m.name = any(gates_of(l))
    ) r
    where exists (select 1 from lane l where 'limit:' || m.tenant || ':' || m.name = any(l.gates))
),
shut as (
    select l.lane_id, 1 as place, 'breaker' as by, coalesce(b.settings ->> 'name', b.name) as name, b.changed_at as since, b.until,
        jsonb_build_object('state', b.state, 'reason', b.reason, 'held_by', case when b.held then b.actor end,
            'has_probe', b.settings ->> 'probe_url' is not null or b.settings ->> 'probe_handler' is not null)
            as details
    from lane l join breakers b on b.name = l.breaker where b.state <> 'closed'
    union all
    select l.lane_id, 2, 'limit', b.name, null,
        case when b.tokens < 1 then b.next_at end,
        jsonb_build_object('tenant', b.tenant, 'concurrency', b.concurrency, 'running', b.running,
            'rate', b.rate, 'burst', b.burst, 'workers', coalesce(to_jsonb(b.workers), '[]'))
    from lane l join bound b on b.gate = any(l.gates) where b.running >= b.concurrency or b.tokens < 1
),
first_shut as (
    select distinct on (s.lane_id) s.* from shut s order by s.lane_id, s.place, s.name
)
select m.node, sum(m.tasks)::int as tasks, (array_agg(s.by order by m.lane_id))[1] as by,
    (array_agg(s.name order by m.lane_id))[1] as name, coalesce(min(s.since), min(m.queued_at)) as since,
    max(s.until) as until, (array_agg(s.details::text order by m.lane_id))[1] as details
from mine m left join first_shut s on s.lane_id = m.lane_id
group by m.node having bool_and(s.lane_id is not null);

-- name: read_limits
-- All limits, with the numbers of running and waiting tasks of each. The queue is counted once, by lane.
with load as materialized (
    select q.lane_id, count(*) filter (where q.state = 'leased') as running,
        count(*) filter (where q.state <> 'leased') as waiting
    from queue q group by q.lane_id
),
under as (
    select g.gate, sum(o.running)::int as running, sum(o.waiting)::int as waiting
    from load o join lanes l on l.lane_id = o.lane_id cross join lateral unnest(gates_of(l)) as g (gate)
    group by g.gate
)
select m.tenant, m.name, m.concurrency, m.rate, m.burst, m.backlog, coalesce(u.running, 0) as running,
    coalesce(u.waiting, 0) as waiting, case when m.backlog is not null then (
        select count(*)::int from jobs j where j.tenant = m.tenant and j.finished_at is null) end as open_jobs,
    m.changed_at, m.actor
from limits m left join under u on u.gate = 'limit:' || m.tenant || ':' || m.name
order by m.tenant, m.name;

-- name: set_limit
-- Values that are null stay as they are. From now on the person who set the limit decides, not the workflows.
insert into limits (tenant, name, concurrency, rate, burst, backlog, actor)
values (%(tenant)s, %(name)s, %(concurrency)s::int, %(rate)s::float8, %(burst)s::int, %(backlog)s::int, %(actor)s)
on conflict (tenant, name) do update
set concurrency = coalesce(excluded.concurrency, limits.concurrency), rate = coalesce(excluded.rate, limits.rate),
    burst = coalesce(excluded.burst, limits.burst), backlog = coalesce(excluded.backlog, limits.backlog),
    changed_at = now(), actor = excluded.actor;

-- name: drop_limit
delete from limits m where m.tenant = %(tenant)s and m.name = %(name)s;

-- name: give_limit_back
-- A limit that a workflow has declared is not deleted: the workflow's next declaration sets it again.
update limits m set actor = null, changed_at = now()
where m.tenant = %(tenant)s and m.name = %(name)s and m.actor is not null;
