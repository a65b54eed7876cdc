-- Explains why a job does not advance: four small reads, in one snapshot with the job and its nodes.

-- name: why_job
-- The orchestrators that could own the job, the signals that its owner has not read, and its stop.
select j.epoch, j.stop_cause, j.stop_until,
    case when isfinite(o.lease_until) then o.lease_until else o.ended_at end as owner_gone_at,
    (select count(*) from orchestrators a where a.ended_at is null and a.lease_until > now()
        and (a.only_job is null or a.only_job = j.job_id))::int as orchestrators,
    (select count(*) from inbox i where i.job_id = j.job_id)::int as unread,
    (select min(i.sent_at) from inbox i where i.job_id = j.job_id) as unread_since
from jobs j left join orchestrators o on o.orchestrator_id = j.owner
where j.job_id = %(job)s;

-- name: why_windows
-- How many items of each fan-out were queued.
select n.node, n.enqueued_count as enqueued from nodes n where n.job_id = %(job)s;

-- name: why_queue
-- The queued tasks of a job, by what holds them. They are never more than the windows of its fan-outs.
select q.node, q.state, l.queue, l.handler, count(*)::int as tasks, (array_agg(q.item order by q.item))[1:5] as first,
    min(q.queued_at) as queued_at, min(q.claimed_at) as claimed_at, min(q.due_at) as due_at, max(q.attempt) as attempt,
    (array_agg(distinct w.name) filter (where w.name is not null))[1:3] as workers,
    w.ended_at is null and w.lease_until > now() as worker_is_alive, max(w.lease_until) as lease_until,
    case when count(*) = 1 then min(q.progress::text) end as progress,
    (array_agg(t.error::text order by q.item))[1] as error
from queue q
join lanes l on l.lane_id = q.lane_id
left join workers w on w.worker_id = q.holder
left join tasks t on q.state = 'waiting' and t.job_id = any(array[q.job_id]) and t.node = q.node and t.item = q.item
where q.job_id = %(job)s
group by q.node, q.state, l.queue, l.handler, w.ended_at is null and w.lease_until > now(), t.error->>'fingerprint'
order by q.node, q.state, min(q.item);

-- name: why_errors
-- The error of the last failed attempt at each node that has tasks in the queue.
select distinct on (a.node) a.node, a.error::text as error from attempts a
where a.job_id = %(job)s and a.error is not null and exists (
    select 1 from queue q where q.job_id = any(array[a.job_id]) and q.node = a.node)
order by a.node, a.finished_at desc, a.attempt desc;

-- name: why_locks
-- Sessions that keep rows of the job locked, or rows of its owner and of its workers. A locked row names the
-- transaction that locked it last; while that transaction is open, its session is the one to look at.
with locked as materialized (
    select 'jobs' as relation, j.xmax as locker from jobs j where j.job_id = %(job)s
    union all
    select 'orchestrators', o.xmax from jobs j join orchestrators o on o.orchestrator_id = j.owner where j.job_id = %(job)s
    union all
    select 'nodes', n.xmax from nodes n where n.job_id = %(job)s
    union all
    select 'inbox', i.xmax from inbox i where i.job_id = %(job)s
    union all
    select 'tasks', t.xmax from inbox i join tasks t
        on t.job_id = any(array[i.job_id]) and t.node = i.node and t.item = i.item
    where i.job_id = %(job)s
    union all
    select 'queue', q.xmax from queue q where q.job_id = %(job)s
    union all
    select 'workers', w.xmax from queue q join workers w on w.worker_id = q.holder where q.job_id = %(job)s
)
select {{session_columns}}, array_agg(distinct r.relation) as tables
from locked r
join pg_locks l on l.locktype = 'transactionid' and l.granted and l.transactionid = r.locker
join pg_stat_activity a on a.pid = l.pid
where a.pid <> pg_backend_pid() and coalesce(a.xact_start < now() - make_interval(secs => %(held_seconds)s), true)
group by a.pid, a.application_name, a.usename, a.state, a.xact_start, a.query
order by a.xact_start, a.pid;
