-- What the janitor looks for, and what it writes: signals, and a line for each action. Each search is one statement
-- with one snapshot: it sees either a queue row or the report that replaces it.

-- name: lead
-- One leader at a time. After its lease has expired, the first janitor that asks becomes the next leader.
insert into leaders as l (role, holder, lease_until)
values (%(role)s, %(me)s, now() + make_interval(secs => %(lease)s))
on conflict (role) do update
set holder = excluded.holder, lease_until = excluded.lease_until,
    since = case when l.holder = excluded.holder then l.since else now() end
where l.holder = excluded.holder or l.lease_until < now()
returning l.holder;

-- name: resign
-- The row stays with an expired lease, so that the next leader need not wait.
update leaders set lease_until = '-infinity' where role = %(role)s and holder = %(me)s;

-- name: leader
select holder, since, extract(epoch from lease_until - now())::float8 as lease_seconds from leaders
where role = %(role)s and lease_until > now();

-- name: take_turn
-- A pass locks this row until its commit: two passes act one after the other, and the second sees what the first did.
insert into leaders (role, holder, lease_until) values (%(role)s, '', '-infinity')
on conflict (role) do update set role = excluded.role;

-- name: patrol
-- The next open jobs to check, up to a number of jobs or of tasks, whichever is reached first.
with opened as (
    select j.job_id,
        (select coalesce(sum(n.expanded_count), 0) from nodes n where n.job_id = any(array[j.job_id])) as tasks
    from jobs j
    where j.finished_at is null and j.job_id > %(after)s::uuid
    order by j.job_id limit %(jobs)s
),
added as (
    select o.job_id, sum(o.tasks) over (order by o.job_id) - o.tasks as tasks_before from opened o
)
select a.job_id::text as job_id from added a where a.tasks_before < %(tasks)s order by a.job_id;

-- name: patrol_completed
-- The next jobs that completed within the last hour without an error, up to a number of jobs or of tasks. The latest
-- jobs wait for a while: a job that ended earlier may be committed later.
with ended as (
    select j.job_id, j.finished_at,
        (select coalesce(sum(n.expanded_count), 0) from nodes n where n.job_id = any(array[j.job_id])) as tasks
    from jobs j
    where j.finished_at > now() - interval '1 hour' and j.finished_at < now() - make_interval(secs => %(patience)s)
        and (j.finished_at, j.job_id) > (%(since)s::timestamptz, %(after)s::uuid)
        and j.status = 'completed' and j.error is null
    order by j.finished_at, j.job_id limit %(jobs)s
),
added as (
    select e.*, sum(e.tasks) over (order by e.finished_at, e.job_id) - e.tasks as tasks_before from ended e
)
select a.job_id::text as job_id, a.finished_at from added a where a.tasks_before < %(tasks)s
order by a.finished_at, a.job_id;

-- name: finding_columns
-- A finding, from a line of the log.
duty, action, reason, job_id::text as job_id, node, item, before::text as before, after::text as after;

-- name: find_expired_leases
-- Expired leases, and attempts past their deadline.
select q.job_id::text as job_id, q.node, nullif(q.item, -1) as item, jsonb_build_object(
    'worker', coalesce(w.name, 'worker ' || q.holder), 'attempt', q.attempt,
    'epoch', q.epoch, 'claimed_at', q.claimed_at, 'timed_out', q.deadline_at < now())::text as seen
from queue q left join workers w on w.worker_id = q.holder
where q.state = 'leased' and (w.worker_id is null or w.lease_until < now() or q.deadline_at < now())
order by q.job_id, q.node, q.item limit 1000;

-- name: find_stuck_tasks
-- Tasks that were queued and have not ended, but have neither a queue row nor an unread report. The inbox is read once.
-- In this form Postgres looks up each of its rows in a hash of the jobs, and does not compare it with all of them.
with unread as materialized (
    select i.job_id, i.node, i.item, i.epoch from inbox i
    where i.kind = 'report' and (i.job_id in (select unnest(%(jobs)s::uuid[]))) is true
)
select t.job_id::text as job_id, t.node, case when count(*) = 1 and min(t.item) >= 0 then min(t.item) end as item,
    jsonb_build_object(
        'tasks', count(*), 'first', array_remove((array_agg(t.item order by t.item))[1:5], -1))::text as seen
from nodes n
join tasks t on t.job_id = any(array[n.job_id]) and t.node = n.node and t.item < n.enqueued_count
where n.job_id = any(%(jobs)s::uuid[]) and n.status in ('ready', 'dispatched', 'running') and t.status = 'ready'
    and not t.waits and not exists (
        select 1 from queue q where q.job_id = any(array[t.job_id]) and q.node = t.node and q.item = t.item)
    and not exists (
        select 1 from unread u where u.job_id = t.job_id and u.node = t.node and u.item = t.item and u.epoch = t.epoch)
group by t.job_id, t.node order by t.job_id, t.node;

-- name: find_wrong_counters
-- Nodes whose counters differ from their tasks.
select n.job_id::text as job_id, n.node, null::int as item, jsonb_build_object(
    'counters', jsonb_build_object('rows', n.expanded_count, 'completed', n.completed_count,
        'failed', n.failed_count, 'skipped', n.skipped_count, 'cancelled', n.cancelled_count,
        'waiting', n.waiting_count),
    'tasks', jsonb_build_object('rows', t.total, 'completed', t.completed, 'failed', t.failed, 'skipped', t.skipped,
        'cancelled', t.cancelled, 'waiting', t.waiting))::text as seen
from nodes n
cross join lateral (
    select count(*), count(*) filter (where k.status = 'completed'), count(*) filter (where k.status = 'failed'),
        count(*) filter (where k.status = 'skipped'), count(*) filter (where k.status = 'cancelled'),
        count(*) filter (where k.waits)
    from tasks k where k.job_id = any(array[n.job_id]) and k.node = n.node
) as t (total, completed, failed, skipped, cancelled, waiting)
where n.job_id = any(%(jobs)s::uuid[])
    and (n.expanded_count, n.completed_count, n.failed_count, n.skipped_count, n.cancelled_count, n.waiting_count)
        <> (t.total, t.completed, t.failed, t.skipped, t.cancelled, t.waiting)
order by n.job_id, n.node;

-- name: find_missed_deadlines
-- Deadlines that passed long ago, and on which no owner has acted.
select j.job_id::text as job_id, null::text as node, null::int as item, jsonb_build_object('deadline_at', j.deadline_at,
    'stop_cause', j.stop_cause, 'stop_until', j.stop_until)::text as seen
from jobs j
where j.job_id = any(%(jobs)s::uuid[]) and j.finished_at is null and not j.stop_leases_ended and (
    (j.deadline_at < now() - make_interval(secs => %(patience)s) and coalesce(j.stop_cause, 'failed') = 'failed')
    or j.stop_until < now() - make_interval(secs => %(patience)s))
order by j.job_id;

-- name: find_idle_jobs
-- Open jobs with nothing queued or unread, with no step that their owner owes, and with no deadline that would wake
-- them.
with unread as materialized (
    select distinct i.job_id from inbox i where (i.job_id in (select unnest(%(jobs)s::uuid[]))) is true
)
select j.job_id::text as job_id, null::text as node, null::int as item,
    jsonb_build_object('status', j.status, 'reason', j.reason)::text as seen
from jobs j
where j.job_id = any(%(jobs)s::uuid[]) and j.finished_at is null
    and j.deadline_at is null and (j.stop_cause is null or j.stop_leases_ended)
    and not exists (select 1 from queue q where q.job_id = any(array[j.job_id]))
    and j.job_id not in (select u.job_id from unread u)
    and not exists (
        select 1 from nodes n
        where n.job_id = any(array[j.job_id]) and n.status = 'running'
            and (n.expanded_count < n.width or n.completed_count = n.width))
order by j.job_id;

-- name: nodes_of_open_jobs
-- The progress of open jobs that an orchestrator has claimed and that are not stopping.
select j.job_id::text as job_id, j.definition_hash, (
    select coalesce(jsonb_object_agg(n.node, n.status), '{}') from nodes n where n.job_id = any(array[j.job_id])
)::text as statuses
from jobs j
where j.job_id = any(%(jobs)s::uuid[]) and j.finished_at is null and j.stop_cause is null and j.epoch > 0
order by j.job_id;

-- name: find_orphaned_queue
-- Queue rows of jobs that have ended or do not exist.
select q.job_id::text as job_id, q.node, nullif(q.item, -1) as item, jsonb_build_object(
    'table', 'queue', 'state', q.state, 'epoch', q.epoch, 'job', j.status)::text as seen
from queue q left join jobs j on j.job_id = any(array[q.job_id])
where j.job_id is null or j.finished_at is not null
order by q.job_id, q.node, q.item limit 1000;

-- name: find_laneless_queue
-- Queue rows of lanes that do not exist: no claim finds them.
select q.job_id::text as job_id, q.node, nullif(q.item, -1) as item, jsonb_build_object(
    'table', 'queue', 'state', q.state, 'epoch', q.epoch, 'lane', q.lane_id, 'job', null)::text as seen
from queue q
where q.state <> 'leased' and not exists (select 1 from lanes l where l.lane_id = q.lane_id)
order by q.job_id, q.node, q.item limit 1000;

-- name: delete_laneless_queue
-- Tasks without a queue row are stuck tasks, and their owner queues them again.
with orphan as (
    select q.job_id, q.node, q.item from queue q
    where q.state <> 'leased' and not exists (select 1 from lanes l where l.lane_id = q.lane_id)
    order by q.job_id, q.node, q.item limit 1000
    for update of q skip locked
),
gone as (
    delete from queue q using orphan o
    where q.job_id = any(array[o.job_id]) and q.node = o.node and q.item = o.item
    returning q.job_id, q.node, q.item, q.state, q.epoch, q.lane_id
)
insert into janitor_actions (run, duty, action, job_id, node, item, reason, before)
select %(run)s::uuid, %(duty)s, 'delete', g.job_id, g.node, nullif(g.item, -1),
    'a queue row of a lane that does not exist',
    jsonb_build_object('table', 'queue', 'state', g.state, 'epoch', g.epoch, 'lane', g.lane_id)
from gone g
returning {{finding_columns}};

-- name: find_orphaned_inbox
-- Signals of jobs that do not exist. Signals of an ended job are left: the first orchestrator that claims them reads
-- them.
select i.job_id::text as job_id, i.node, nullif(i.item, -1) as item, jsonb_build_object(
    'table', 'inbox', 'kind', i.kind, 'outcome', i.outcome, 'sent_at', i.sent_at, 'job', null)::text as seen
from inbox i
where not exists (select 1 from jobs j where j.job_id = any(array[i.job_id]))
order by i.id limit 1000;

-- name: delete_orphaned_queue
-- Deletes rows and writes the lines about it in one statement. A job that does not exist has no owner that could do it.
with orphan as (
    select q.job_id, q.node, q.item from queue q
    where not exists (select 1 from jobs j where j.job_id = any(array[q.job_id]))
    order by q.job_id, q.node, q.item limit 1000
    for update of q skip locked
),
gone as (
    delete from queue q using orphan o
    where q.job_id = any(array[o.job_id]) and q.node = o.node and q.item = o.item
    returning q.job_id, q.node, q.item, q.state, q.epoch
)
insert into janitor_actions (run, duty, action, job_id, node, item, reason, before)
select %(run)s::uuid, %(duty)s, 'delete', g.job_id, g.node, nullif(g.item, -1),
    'a queue row of a job that does not exist',
    jsonb_build_object('table', 'queue', 'state', g.state, 'epoch', g.epoch, 'job', null)
from gone g
returning {{finding_columns}};

-- name: delete_orphaned_inbox
with orphan as (
    select i.owner, i.id from inbox i
    where not exists (select 1 from jobs j where j.job_id = any(array[i.job_id]))
    order by i.id limit 1000
    for update of i skip locked
),
gone as (
    delete from inbox i using orphan o where i.owner = o.owner and i.id = o.id
    returning i.job_id, i.node, i.item, i.kind, i.outcome, i.sent_at, i.data
)
insert into janitor_actions (run, duty, action, job_id, node, item, reason, before)
select %(run)s::uuid, %(duty)s, 'delete', g.job_id, g.node, nullif(g.item, -1),
    'a signal of a job that does not exist',
    jsonb_build_object('table', 'inbox', 'kind', g.kind, 'outcome', g.outcome, 'sent_at', g.sent_at, 'data', g.data,
        'job', null)
from gone g
returning {{finding_columns}};

-- name: find_repeated_failures
-- Failures of the same kind that happened often in one workflow of a tenant within an hour.
select (array_agg(a.job_id::text))[1] as job_id, null::text as node, null::int as item, jsonb_build_object(
    'tenant', j.tenant, 'workflow_id', j.workflow_id, 'fingerprint', a.error->>'fingerprint', 'failures', count(*),
    'jobs', count(distinct a.job_id),
    'code', min(a.error->>'code'), 'message', min(a.error->>'message'))::text as seen
from attempts a join jobs j on j.job_id = any(array[a.job_id])
where a.finished_at > now() - interval '1 hour' and a.outcome = 'failed'
group by j.tenant, j.workflow_id, a.error->>'fingerprint'
having count(*) >= %(failures)s
order by count(*) desc limit 20;

-- name: find_long_open_breakers
-- Breakers that have been open for many cooldowns, and breakers that a person opened long ago. A half open breaker that
-- opens again has not worked in between: the time counts from when the breaker was last closed.
select null::text as job_id, null::text as node, null::int as item, jsonb_build_object(
    'breaker', b.name, 'held_by', case when b.held then b.actor end,
    'open_seconds', round(extract(epoch from now() - o.since)), 'reason', b.reason, 'waiting', (
        select count(*) from lanes l join queue q on q.lane_id = l.lane_id
        where l.breaker = b.name and q.state <> 'leased'))::text as seen
from breakers b
cross join lateral (
    select least(b.changed_at, min(c.changed_at)) from breaker_changes c
    where c.name = b.name and c.id > coalesce(
        (select max(d.id) from breaker_changes d where d.name = b.name and d.state = 'closed'), 0)
) as o (since)
where b.state = 'open' and o.since < now() - case when b.held then make_interval(secs => %(held_seconds)s)
    else make_interval(secs => %(cooldowns)s * (b.settings ->> 'cooldown_seconds')::float8) end
order by b.name limit 20;

-- name: rechecks_tried
-- How many rechecks owners got within the last hour, by finding.
select a.duty, a.job_id::text as job_id, a.node, count(*)::int as rechecks from janitor_actions a
where a.at > now() - interval '1 hour' and a.action = 'recheck' and a.job_id = any(%(jobs)s::uuid[])
group by a.duty, a.job_id, a.node;

-- name: send_rechecks
-- Sends one signal for each job, unless one is unread, and writes a line for each finding.
with found as (
    select * from unnest(%(duty)s::text[], %(reason)s::text[], %(job_id)s::uuid[], %(node)s::text[], %(item)s::int[],
        %(before)s::jsonb[]) with ordinality as f (duty, reason, job_id, node, item, before, number)
),
doubted as materialized (
    select i.job_id from inbox i where i.kind = 'recheck'
),
sent as (
    insert into inbox (owner, job_id, kind, actor, reason)
    select distinct on (j.job_id) coalesce(j.owner, 0), j.job_id, 'recheck', f.duty, f.reason
    from found f join jobs j on j.job_id = any(array[f.job_id])
    where j.job_id not in (select d.job_id from doubted d)
    order by j.job_id, f.number
    returning job_id, owner
)
insert into janitor_actions (run, duty, action, job_id, node, item, reason, before, after)
select %(run)s::uuid, f.duty, 'recheck', f.job_id, f.node, f.item, f.reason, f.before,
    jsonb_build_object('sent_to', nullif(s.owner, 0))
from found f join sent s on s.job_id = any(array[f.job_id])
order by f.number
returning {{finding_columns}};

-- name: write_alerts
-- Writes at most one line an hour for each problem that needs a person, and an event for the webhooks of its tenant. A
-- finding about no tenant concerns the tenant `default`.
with found as (
    select * from unnest(%(duty)s::text[], %(reason)s::text[], %(job_id)s::uuid[], %(node)s::text[], %(item)s::int[],
        %(before)s::jsonb[]) with ordinality as f (duty, reason, job_id, node, item, before, number)
),
written as (
    insert into janitor_actions (run, duty, action, job_id, node, item, reason, before)
    select %(run)s::uuid, f.duty, 'alert', f.job_id, f.node, f.item, f.reason, f.before
    from found f
    where not exists (
        select 1 from janitor_actions a
        where a.at > now() - interval '1 hour' and a.action = 'alert' and a.duty = f.duty
            and case when f.before ? 'fingerprint'
                then a.before->>'fingerprint' = f.before->>'fingerprint'
                    and a.before->>'workflow_id' = f.before->>'workflow_id'
                    and coalesce(a.before->>'tenant', f.before->>'tenant') = f.before->>'tenant'
                when f.before ? 'breaker' then a.before->>'breaker' = f.before->>'breaker'
                else a.job_id is not distinct from f.job_id and a.node is not distinct from f.node end)
    order by f.number
    returning *
),
noted as (
    insert into outbox (tenant, job_id, workflow_id, node, event, generation, items, data)
    select t.tenant, j.job_id, coalesce(j.workflow_id, a.before->>'workflow_id'), a.node, 'janitor_alert', j.generation,
        case when a.item is null then '{}' else array[a.item] end,
        jsonb_build_object('duty', a.duty, 'reason', a.reason)
    from written a
    left join jobs j on j.job_id = a.job_id
    cross join lateral (
        select coalesce(j.tenant, a.before->>'tenant', nullif(split_part(a.before->>'breaker', '@', 2), ''), 'default')
    ) as t (tenant)
    where exists (
        select 1 from webhooks w
        where w.tenant = t.tenant and w.disabled_at is null and 'janitor_alert' = any(w.events)
    )
)
select {{finding_columns}} from written order by action_id;

-- name: forget
-- Deletes processes an hour after their end, answers and plans after a day, the janitor's own lines after a month, and
-- the audit and the statistics when their time is over. A
-- process that still holds a lease or owns a job stays. One line reports what was deleted; there is none if nothing was.
-- An owner may still have to carry out a plan that a signal names; the signal's job is then open, or about to be.
with workers_gone as (
    delete from workers w
    where w.ended_at < now() - interval '1 hour'
        and not exists (select 1 from queue q where q.state = 'leased' and q.holder = w.worker_id)
    returning 1
),
orchestrators_gone as (
    delete from orchestrators o
    where o.ended_at < now() - interval '1 hour'
        and not exists (select 1 from jobs j where j.finished_at is null and j.owner = o.orchestrator_id)
    returning o.orchestrator_id
),
last_commits_gone as (
    delete from last_commits c using orchestrators_gone o where c.orchestrator_id = o.orchestrator_id
),
answers_gone as (
    delete from answers a where {{answer_is_old}} returning 1
),
plans_gone as (
    delete from plans p where {{plan_is_old}} returning 1
),
lines_gone as (
    delete from janitor_actions a where a.at < now() - interval '30 days' returning 1
),
audit_gone as (
    delete from audit d where {{audit_is_old}} returning 1
),
stats_gone as (
    delete from stats s where {{stats_are_old}} returning 1
),
counted as (
    select (select count(*) from workers_gone) as workers, (select count(*) from orchestrators_gone) as orchestrators,
        (select count(*) from answers_gone) as answers, (select count(*) from plans_gone) as plans,
        (select count(*) from lines_gone) as janitor_actions, (select count(*) from audit_gone) as audit,
        (select count(*) from stats_gone) as stats
)
insert into janitor_actions (run, duty, action, reason, before)
select %(run)s::uuid, %(duty)s, 'delete', 'rows that ended long ago', to_jsonb(c) from counted c
where c.workers + c.orchestrators + c.answers + c.plans + c.janitor_actions + c.audit + c.stats > 0
returning {{finding_columns}};

-- name: write_deletion
-- A line about rows that other transactions deleted.
insert into janitor_actions (run, duty, action, reason, before)
values (%(run)s::uuid, %(duty)s, 'delete', %(reason)s, %(before)s::jsonb)
returning {{finding_columns}};

-- name: audit_is_old
-- Whole days, so that the janitor has this to do once a day.
d.at < date_trunc('day', now()) - make_interval(secs => 86400 * %(audit_days)s::float8);

-- name: stats_are_old
s.minute < date_trunc('day', now()) - make_interval(secs => 86400 * %(stats_days)s::float8);

-- name: answer_is_old
-- The answer to a request with a key stays: the request may be sent again.
a.answered_at < now() - interval '1 day'
    and not exists (select 1 from requests r where r.job_id = a.job_id and r.signal_id = a.signal_id);

-- name: plan_is_old
-- Nothing in its job's inbox may still name it.
p.made_at < now() - interval '1 day' and not exists (select 1 from inbox i where i.job_id = p.job_id);

-- name: find_forgotten
select null::text as job_id, null::text as node, null::int as item, to_jsonb(c)::text as seen
from (
    select (select count(*) from workers w where w.ended_at < now() - interval '1 hour' and not exists (
            select 1 from queue q where q.state = 'leased' and q.holder = w.worker_id)) as workers,
        (select count(*) from orchestrators o where o.ended_at < now() - interval '1 hour' and not exists (
            select 1 from jobs j where j.finished_at is null and j.owner = o.orchestrator_id)) as orchestrators,
        (select count(*) from answers a where {{answer_is_old}}) as answers,
        (select count(*) from plans p where {{plan_is_old}}) as plans,
        (select count(*) from janitor_actions a where a.at < now() - interval '30 days') as janitor_actions,
        (select count(*) from audit d where {{audit_is_old}}) as audit,
        (select count(*) from stats s where {{stats_are_old}}) as stats
) c
where c.workers + c.orchestrators + c.answers + c.plans + c.janitor_actions + c.audit + c.stats > 0;

-- name: read_janitor_actions
-- A page of the log, newest first: all lines, or those about jobs of one tenant. `|| ''` keeps the planner from reading
-- all jobs of the tenant.
select a.run::text as run, a.duty, a.action, a.job_id::text as job_id, a.node, a.item, a.reason,
    a.before::text as before, a.after::text as after, a.at, a.action_id
from janitor_actions a
where a.action_id < coalesce(%(before)s::bigint, 9223372036854775807) and (%(tenant)s::text is null or exists (
    select 1 from jobs j where j.job_id = any(array[a.job_id]) and j.tenant || '' = %(tenant)s))
order by a.action_id desc limit %(limit)s;
