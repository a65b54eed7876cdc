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
-- The nodes of a job whose ready tasks are all held back: their queue is paused, or a breaker is not closed, or a limit
-- is full. The statement works by lane, because a job has few lanes, however many rows it has.
with mine as materialized (
    select q.node, q.lane_id, count(*)::int as tasks, min(q.queued_at) as queued_at
    from queue q where q.job_id = %(job)s and q.state = 'ready'
    group by q.node, q.lane_id
),
lane as materialized (
    select l.lane_id, l.breaker, gates_of(l) as gates from lanes l where l.lane_id in (select m.lane_id from mine m)
),
bound as materialized (
    select m.name, m.tenant, m.concurrency, m.rate, m.burst, m.paused_at, m.paused_by, m.pause_reason,
        {{limit_is_paused}} as is_paused,
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
    select l.lane_id, case when b.is_paused then 0 else 2 end, 'limit', b.name, case when b.is_paused then b.paused_at end,
        case when b.tokens < 1 and not b.is_paused then b.next_at end,
        jsonb_build_object('tenant', b.tenant, 'concurrency', b.concurrency, 'running', b.running,
            'rate', b.rate, 'burst', b.burst, 'workers', coalesce(to_jsonb(b.workers), '[]'))
            || case when b.is_paused then jsonb_build_object('paused_by', b.paused_by, 'reason', b.pause_reason)
                else '{}' end
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
-- The limits of a tenant and of the queues, with the numbers of running and waiting tasks of the tenant; without a tenant
-- all limits and all tasks. The queue is counted once, by lane.
with load as materialized (
    select q.lane_id, count(*) filter (where q.state = 'leased') as running,
        count(*) filter (where q.state <> 'leased') as waiting
    from queue q group by q.lane_id
),
under as (
    select g.gate, sum(o.running)::int as running, sum(o.waiting)::int as waiting
    from load o join lanes l on l.lane_id = o.lane_id cross join lateral unnest(gates_of(l)) as g (gate)
    where l.tenant = coalesce(%(tenant)s, l.tenant)
    group by g.gate
)
select m.tenant, m.name, case when {{limit_is_paused}} then m.kept_concurrency else m.concurrency end as concurrency,
    m.rate, m.burst, m.backlog, coalesce(u.running, 0) as running,
    coalesce(u.waiting, 0) as waiting, case when m.backlog is not null then (
        select count(*)::int from jobs j where j.tenant = m.tenant and j.finished_at is null) end as open_jobs,
    m.changed_at, m.actor, case when {{limit_is_paused}} then m.paused_at end as paused_at, m.paused_by, m.pause_reason
from limits m left join under u on u.gate = 'limit:' || m.tenant || ':' || m.name
where %(tenant)s::text is null or m.tenant in ('', %(tenant)s)
order by m.tenant, m.name;

-- name: limit_values
-- What a limit allows, locked until the commit.
select jsonb_strip_nulls(jsonb_build_object(
    'concurrency', case when {{limit_is_paused}} then m.kept_concurrency else m.concurrency end, 'rate', m.rate,
    'burst', m.burst, 'backlog', m.backlog, 'set_by', m.actor,
    'paused_by', case when {{limit_is_paused}} then m.paused_by end))::text as values
from limits m where m.tenant = %(tenant)s and m.name = %(name)s
for update;

-- name: limit_is_paused
-- Whether a limit `m` is that of a paused queue. A process of an older version that sets the limit ends the pause.
(m.paused_at is not null and coalesce(m.concurrency = 0, false));

-- name: set_limit
-- Values that are null stay as they are. From now on the person who set the limit decides, not the workflows. The
-- concurrency of a paused queue counts when the pause ends.
insert into limits as m (tenant, name, concurrency, rate, burst, backlog, actor)
values (%(tenant)s, %(name)s, %(concurrency)s::int, %(rate)s::float8, %(burst)s::int, %(backlog)s::int, %(actor)s)
on conflict (tenant, name) do update
set concurrency = case when {{limit_is_paused}} then 0 else coalesce(excluded.concurrency, m.concurrency) end,
    kept_concurrency = case when {{limit_is_paused}} then coalesce(excluded.concurrency, m.kept_concurrency) end,
    rate = coalesce(excluded.rate, m.rate), burst = coalesce(excluded.burst, m.burst),
    backlog = coalesce(excluded.backlog, m.backlog), changed_at = now(), actor = excluded.actor;

-- name: drop_limit
delete from limits m where m.tenant = %(tenant)s and m.name = %(name)s and not {{limit_is_paused}};

-- name: drop_limit_of_paused_queue
-- The queue stays paused, and has no limit afterwards.
update limits m set kept_concurrency = null, rate = null, burst = null, actor = null, changed_at = now()
where m.tenant = %(tenant)s and m.name = %(name)s and {{limit_is_paused}};

-- name: pause_queue
-- Zero rows: the queue is paused already. A claim that has locked the row has its tasks before the pause.
insert into limits as m (tenant, name, concurrency, paused_at, paused_by, pause_reason)
values ('', %(name)s, 0, now(), %(actor)s, %(reason)s)
on conflict (tenant, name) do update
set kept_concurrency = m.concurrency, concurrency = 0, paused_at = now(), paused_by = excluded.paused_by,
    pause_reason = excluded.pause_reason
where not {{limit_is_paused}}
returning m.name;

-- name: unpause_queue
-- Zero rows: the queue is not paused. The limit is as before, and a row without a limit goes. The time of the pause does
-- not count as time in the queue; a row that a claim has locked is about to leave the queue.
with paused as materialized (
    select m.* from limits m where m.tenant = '' and m.name = %(name)s and {{limit_is_paused}} for update
),
waited as materialized (
    select q.job_id, q.node, q.item
    from lanes l join queue q on q.lane_id = l.lane_id
    where exists (select 1 from paused) and 'queue:' || l.queue = %(name)s
        and q.state = 'ready' and q.queue_timeout_seconds is not null
    for update of q skip locked
),
extended as (
    update queue q set queued_at = q.queued_at + (now() - greatest(q.queued_at, p.paused_at))
    from waited w, paused p
    where q.job_id = any(array[w.job_id]) and q.node = w.node and q.item = w.item
),
gone as (
    delete from limits m using paused p
    where m.tenant = p.tenant and m.name = p.name and p.kept_concurrency is null and p.rate is null
        and p.backlog is null
),
restored as (
    update limits m
    set concurrency = p.kept_concurrency, kept_concurrency = null, paused_at = null, paused_by = null, pause_reason = null
    from paused p
    where m.tenant = p.tenant and m.name = p.name
        and not (p.kept_concurrency is null and p.rate is null and p.backlog is null)
)
select p.name from paused p;

-- name: give_limit_back
-- A limit that a workflow has declared is not deleted: the workflow's next declaration sets it again.
update limits m set actor = null, changed_at = now()
where m.tenant = %(tenant)s and m.name = %(name)s and m.actor is not null;

-- name: note_breaker
-- An event for the webhooks of a tenant that subscribe to it: a person has opened or closed a breaker. What a report does
-- to a breaker is noted with the commit of its job.
insert into outbox (tenant, event, data)
select %(tenant)s, %(event)s, jsonb_build_object('breaker', %(name)s::text, 'reason', %(reason)s::text)
where exists (
    select 1 from webhooks w
    where w.tenant = %(tenant)s and w.disabled_at is null and %(event)s = any(w.events)
);
