-- Orchestrators, their leases, and the repairs of the sweeps.

-- name: register_orchestrator
-- The id is random: a sequence goes back with a restored database, and could give one id to two processes.
insert into orchestrators (orchestrator_id, name, version, lease_until, only_job) overriding system value
values (%(id)s, %(name)s, %(version)s, now() + make_interval(secs => %(lease)s), %(only_job)s::uuid);

-- name: renew_orchestrator
-- Zero rows: another orchestrator has ended this one.
update orchestrators
set lease_until = now() + make_interval(secs => %(lease)s), renewed_at = now()
where orchestrator_id = %(me)s and ended_at is null;

-- name: end_orchestrator
update orchestrators set ended_at = now(), lease_until = '-infinity'
where orchestrator_id = %(me)s and ended_at is null;

-- name: end_lapsed_orchestrators
-- An orchestrator that holds its row for share is in the middle of a commit: it is left for the next sweep.
with lapsed as (
    select orchestrator_id from orchestrators
    where ended_at is null and lease_until < now() and orchestrator_id <> %(me)s
    for update skip locked
)
update orchestrators o set ended_at = now()
from lapsed l where o.orchestrator_id = l.orchestrator_id;

-- name: take_jobs
-- Takes over jobs of orchestrators that have ended or have no row, and returns the former owner's name of each. The new
-- epoch fences the former owner. An owner registers before it claims a job, so a missing row was deleted by hand. An
-- orchestrator that has no row itself, as after a restore, takes over nothing: its jobs would have no live owner.
with lost as (
    select j.job_id, j.owner as previous
    from jobs j
    where j.finished_at is null and j.owner is not null
        and j.owner not in (select o.orchestrator_id from orchestrators o where o.ended_at is null)
        and exists (select 1 from orchestrators o where o.orchestrator_id = %(me)s and o.ended_at is null)
        and coalesce(j.job_id = (select o.only_job from orchestrators o where o.orchestrator_id = %(me)s), true)
    order by j.job_id
    limit %(limit)s
    for update skip locked
)
update jobs j set owner = %(me)s, epoch = j.epoch + 1, owned_since = now()
from lost l left join orchestrators o on o.orchestrator_id = l.previous
where j.job_id = any(array[l.job_id])
returning j.job_id::text as job_id, coalesce(o.name, 'orchestrator ' || l.previous) as former_owner;

-- name: blame_open_cycles
-- If an orchestrator ended during a cycle, one of that cycle's jobs may have killed it.
with left_open as (
    delete from open_cycles c
    where not exists (
        select 1 from orchestrators o where o.orchestrator_id = c.orchestrator_id and o.ended_at is null)
    returning c.jobs
),
involved as (
    select i.job_id, count(*) filter (where cardinality(l.jobs) = 1)::int as alone
    from left_open l cross join lateral unnest(l.jobs) as i (job_id)
    group by i.job_id
)
update jobs j set deaths = greatest(j.deaths, 1) + i.alone, died_at = now()
from involved i where j.job_id = any(array[i.job_id]) and j.finished_at is null;

-- name: dangers
-- Whether an orchestrator died suddenly in the last minutes, and the jobs in whose cycles orchestrators died. After a
-- long time without a death a job gets another try; the clock may have stepped back since then.
select exists (
        select 1 from orchestrators o
        where o.lease_until > '-infinity'
            and (o.ended_at > now() - interval '10 minutes' or (o.ended_at is null and o.lease_until < now()))) as are_near,
    (
        select jsonb_object_agg(j.job_id::text, case
            when j.died_at between now() - make_interval(secs => %(patience)s) and now() + interval '1 minute'
            then j.deaths else 1 end)
        from jobs j where j.deaths > 0 and j.finished_at is null
    )::text as deaths;

-- name: note_open_cycle
-- The row must survive the death of this process, not that of the server: the commit does not wait for the disk.
with unhurried as materialized (select set_config('synchronous_commit', 'off', true))
insert into open_cycles (orchestrator_id, jobs)
select %(me)s, %(jobs)s::uuid[] from unhurried
on conflict (orchestrator_id) do update set jobs = excluded.jobs;

-- name: forget_open_cycle
delete from open_cycles where orchestrator_id = %(me)s;

-- name: set_aside
-- Writes why a job does not advance; the next commit that advances the job removes the reason. If another session has
-- locked the job's row, nothing is written, because no process may wait for that lock.
update jobs j set reason = 'orchestrator_error: ' || left(%(problem)s, 500)
from (select job_id from jobs where job_id = %(job)s for update skip locked) free
where j.job_id = free.job_id and j.finished_at is null and (j.owner is null or j.owner = %(me)s);

-- name: own_row
-- No row: another session has locked it, or has ended this orchestrator. A lock of our own transaction does not count.
select 1 from orchestrators where orchestrator_id = %(me)s and ended_at is null for share skip locked;

-- name: inherit_jobs
-- Moves the jobs of an orchestrator whose row another session keeps locked to a new orchestrator of the same process.
-- While its row is locked, the old one can have no transaction, and no other process can end it.
with left_behind as (
    select j.job_id from jobs j
    where j.finished_at is null and j.owner = %(former)s
    order by j.job_id
    limit %(limit)s
    for update skip locked
)
update jobs j set owner = %(me)s, epoch = j.epoch + 1, owned_since = now()
from left_behind l join orchestrators o on o.orchestrator_id = %(former)s
where j.job_id = any(array[l.job_id])
returning j.job_id::text as job_id, o.name as former_owner;

-- name: follow_clock_leaders
-- After the clock has stepped back, this and the next statements shorten times that are too far in the future: no wait
-- may last longer than its full duration from now. Two seconds are tolerated: a transaction that began later may have
-- written them.
update leaders set lease_until = now() + make_interval(secs => %(lease)s)
where lease_until > now() + make_interval(secs => %(lease)s::float8 + 2);

-- name: follow_clock_workers
-- A lease keeps the length that it had when it was last renewed.
with ahead as (
    select worker_id from workers where renewed_at > now() + interval '2 s' for update skip locked
)
update workers w set lease_until = now() + (w.lease_until - w.renewed_at), renewed_at = now()
from ahead a where w.worker_id = a.worker_id;

-- name: follow_clock_orchestrators
-- As for workers. An orchestrator that holds its row for share is in the middle of a commit: it lives, and renews the
-- lease.
with ahead as (
    select orchestrator_id from orchestrators
    where ended_at is null and renewed_at > now() + interval '2 s'
    for update skip locked
)
update orchestrators o set lease_until = now() + (o.lease_until - o.renewed_at), renewed_at = now()
from ahead a where o.orchestrator_id = a.orchestrator_id;

-- name: follow_clock_queue
-- A retry waits for the rest of its delay, and an attempt has at most its full timeout.
with ahead as (
    select job_id, node, item from queue
    where queued_at > now() + interval '2 s' or claimed_at > now() + interval '2 s'
        or deadline_at > now() + make_interval(secs => timeout_seconds + %(slack)s::float8 + 2)
    for update skip locked
)
update queue q
set due_at = q.due_at - greatest(q.queued_at - now(), interval '0 s'), queued_at = least(q.queued_at, now()),
    claimed_at = case when q.claimed_at is not null then least(q.claimed_at, now()) end,
    deadline_at = case when q.deadline_at is not null
        then least(q.deadline_at, now() + make_interval(secs => q.timeout_seconds + %(slack)s::float8)) end
from ahead a where q.job_id = any(array[a.job_id]) and q.node = a.node and q.item = a.item;

-- name: follow_clock_breakers
-- A cooldown lasts at most its full time from now. Calls that began after the step are newer than the last change.
with ahead as (
    select b.name, now() + make_interval(secs => (b.settings ->> 'cooldown_seconds')::float8) as latest from breakers b
    where b.changed_at > now() + interval '2 s' or greatest(b.until, b.probing_until)
        > now() + make_interval(secs => (b.settings ->> 'cooldown_seconds')::float8 + 2)
    for update skip locked
)
update breakers b
set changed_at = least(b.changed_at, now()),
    until = case when b.until is not null then least(b.until, a.latest) end,
    probing_until = case when b.probing_until is not null then least(b.probing_until, a.latest) end
from ahead a where b.name = a.name;

-- name: follow_clock_limits
-- A bucket keeps its tokens and is refilled from now on.
with ahead as (
    select tenant, name from limits where refilled_at > now() + interval '2 s' for update skip locked
)
update limits m set refilled_at = now() from ahead a where m.tenant = a.tenant and m.name = a.name;

-- name: sweep_inbox
-- Signals whose owner is no longer the owner of their job. With owner 0 any orchestrator can claim them.
with astray as (
    select i.owner, i.id, coalesce(j.owner, 0) as rightful
    from inbox i
    join jobs j on j.job_id = any(array[i.job_id])
    where i.owner <> coalesce(j.owner, 0)
    limit 10000
    for update of i skip locked
)
update inbox i set owner = a.rightful
from astray a where i.owner = a.owner and i.id = a.id;

-- name: wake_due
-- Retries whose time has come can be claimed. They get a new id, because their lane's floor may have passed the old
-- one.
with due as (
    select job_id, node, item from queue
    where state = 'waiting' and due_at <= now()
    order by due_at
    limit 5000
    for update skip locked
)
update queue q set state = 'ready', id = default
from due d where q.job_id = any(array[d.job_id]) and q.node = d.node and q.item = d.item and q.state = 'waiting';

-- name: newest_queue_id
-- Read in a transaction of its own: each transaction that drew this id or a smaller one is older than the next
-- transaction.
select last_value from queue_id_seq;

-- name: raise_floors
-- Raises floors in two steps. First the newest id becomes a lane's ceiling. When all transactions of that moment have
-- ended, all rows below the ceiling are visible, and the smallest ready one is the new floor. A transaction that queues
-- tasks has its transaction id before it draws a queue id: the fence gives it one. Floors rise in large steps, because
-- each change leaves a dead row in lanes.
with settled as (
    select l.lane_id, l.floor, l.ceiling from lanes l
    where l.lane_id = any(%(lanes)s::int[]) and l.floor + 1000 <= %(newest)s
        and (l.ceiling_xid is null or l.ceiling_xid <= pg_snapshot_xmin(pg_current_snapshot()))
    for update skip locked
)
update lanes l
set floor = case when s.ceiling is null then s.floor else least(s.ceiling, (
        select min(q.id) from queue q where q.lane_id = s.lane_id and q.state = 'ready' and q.id >= s.floor)) end,
    ceiling = %(newest)s, ceiling_xid = pg_current_xact_id()
from settled s where l.lane_id = s.lane_id;

-- name: lower_floors
-- A restored sequence, or a process of an older version, may have put rows below a floor: all floors start again at 0.
update lanes l set floor = 0, ceiling = null, ceiling_xid = null
from (select lane_id from lanes where floor > 0 for update skip locked) free where l.lane_id = free.lane_id;

-- name: lapsed_workers
-- Whether the next statements have anything to do: expired or missing workers, attempts past their deadline, or tasks
-- past their queue timeout. Usually there are none.
select exists (
    select 1 from workers w where w.ended_at is null and w.lease_until < now()
) or exists (
    select 1 from queue q left join workers w on w.worker_id = q.holder
    where q.state = 'leased' and (w.worker_id is null or w.lease_until < now())
) or exists (
    select 1 from queue q where q.state = 'leased' and q.deadline_at < now()
) or exists (
    select 1 from queue q
    where q.state = 'ready' and q.queue_timeout_seconds is not null
        and q.queued_at + make_interval(secs => q.queue_timeout_seconds) < now()
) as are_there;

-- name: expire_leases
-- Ends leases and sends reports about them to the owners in one fenced statement. A worker without a row counts as
-- dead.
with lapsed as (
    select q.job_id, q.node, q.item, coalesce(w.name, 'worker ' || q.holder) as name, q.deadline_at < now() as timed_out
    from queue q left join workers w on w.worker_id = q.holder
    where q.state = 'leased' and (w.worker_id is null or w.lease_until < now() or q.deadline_at < now())
    for update of q skip locked
),
gone as (
    delete from queue q
    using lapsed l
    where q.job_id = any(array[l.job_id]) and q.node = l.node and q.item = l.item
    returning q.job_id, q.node, q.item, q.epoch, q.attempt, q.owner, q.claimed_at, l.name, l.timed_out
),
noted as (
    insert into janitor_actions (run, duty, action, job_id, node, item, reason, before, after)
    select %(run)s::uuid, 'expired_leases', 'expire', g.job_id, g.node, nullif(g.item, -1),
        case when g.timed_out then format('attempt %%s outlived its timeout on %%s', g.attempt, g.name)
            else format('%%s is gone', g.name) end,
        jsonb_build_object('worker', g.name, 'attempt', g.attempt, 'epoch', g.epoch, 'claimed_at', g.claimed_at),
        jsonb_build_object('outcome', case when g.timed_out then 'failed' else 'lost' end)
    from gone g
)
insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome, worker, started_at, data)
select g.owner, g.job_id, 'report', g.node, g.item, g.epoch, g.attempt,
    case when g.timed_out then 'failed' else 'lost' end, g.name, g.claimed_at,
    case when g.timed_out
        then '{"code": "TIMEOUT", "message": "the attempt outlived its timeout and its worker did not end it"}'::jsonb
    end
from gone g;

-- name: expire_queued
-- Tasks that no worker claimed within their queue timeout. The time does not run while a breaker holds tasks back, or
-- while their queue is paused.
with overdue as (
    select q.job_id, q.node, q.item
    from queue q
    where q.state = 'ready' and q.queue_timeout_seconds is not null
        and q.queued_at + make_interval(secs => q.queue_timeout_seconds) < now()
        and not exists (
            select 1 from lanes l join breakers b on b.name = l.breaker
            where l.lane_id = q.lane_id
                and (b.state <> 'closed' or b.changed_at + make_interval(secs => q.queue_timeout_seconds) > now()))
        and not exists (
            select 1 from lanes l join limits m on m.tenant = '' and m.name = 'queue:' || l.queue
            where l.lane_id = q.lane_id and {{limit_is_paused}})
    for update skip locked
),
gone as (
    delete from queue q
    using overdue o
    where q.job_id = any(array[o.job_id]) and q.node = o.node and q.item = o.item
    returning q.job_id, q.node, q.item, q.epoch, q.attempt, q.owner, q.queue_timeout_seconds
)
insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome, data)
select g.owner, g.job_id, 'report', g.node, g.item, g.epoch, g.attempt, 'failed',
    jsonb_build_object('code', 'QUEUE_TIMEOUT',
        'message', format('no worker took it within %%s s', g.queue_timeout_seconds))
from gone g;

-- name: end_lapsed_workers
with lapsed as (
    select worker_id from workers where ended_at is null and lease_until < now() for update skip locked
)
update workers w set ended_at = now() from lapsed l where w.worker_id = l.worker_id;

-- name: declare_breakers
-- The settings are those of the workflow that was read last; the state of an existing breaker stays.
insert into breakers (name, tenant, settings, probes)
select r.key, %(tenant)s, r.settings, r.probes
from unnest(%(key)s::text[], %(settings)s::jsonb[], %(probes)s::int[]) as r (key, settings, probes)
on conflict (name) do update set settings = excluded.settings, probes = excluded.probes
where breakers.settings <> excluded.settings;

-- name: limited_work_waits
-- Whether a task is ready behind a limit. Its slots and tokens become free without a signal; a paused queue has none.
select exists (
    select 1 from lanes l
    where (l.limit_key <> '' or exists (
            select 1 from limits m where m.tenant = '' and m.name = 'queue:' || l.queue
        ) or exists (
            select 1 from limits m where m.tenant = l.tenant and m.name = 'tenant'
        ))
        and not exists (
            select 1 from limits m where m.tenant = '' and m.name = 'queue:' || l.queue and {{limit_is_paused}})
        and exists (select 1 from queue q where q.lane_id = l.lane_id and q.state = 'ready')
) as waits;

-- name: shut_breakers
-- The breakers that are not closed.
select {{breaker_columns}}, extract(epoch from now())::float8 as now from breakers b where b.state <> 'closed';
