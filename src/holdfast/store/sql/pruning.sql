-- Deletes ended jobs with all their rows. A job can be pruned if it ended before the cutoff, has no owner, no queued
-- task, no unread signal and no notification that waits. Lock order: the rows of the jobs; locked ones are skipped. Only owners write the other
-- rows of a job, so a job without an owner needs no other locks.

-- name: cutoff
-- One cutoff for a whole prune: jobs that end meanwhile stay.
select (now() - make_interval(secs => %(age)s::float8))::text as cutoff;

-- name: jobs_with_work_left
-- Jobs of which a signal is still to be read, or an event is still to be sent.
select i.job_id from inbox i
union all
select o.job_id from outbox o where o.expanded_at is null and o.job_id is not null
union all
select d.job_id from deliveries d where d.status = 'gathering' and d.job_id is not null
union all
select d.job_id from deliveries d where d.status = 'waiting' and d.job_id is not null;

-- name: find_prunable
-- The oldest jobs that can be pruned, counted by workflow and status.
with awaited as materialized (
    {{jobs_with_work_left}}
),
prunable as (
    select j.job_id, j.workflow_id, j.status, j.finished_at
    from jobs j
    where j.finished_at < %(cutoff)s::timestamptz and j.status = any(%(statuses)s::text[]) and j.owner is null
        and j.job_id not in (select a.job_id from awaited a)
        and not exists (select 1 from queue q where q.job_id = any(array[j.job_id]))
    order by j.finished_at, j.job_id limit %(most)s::bigint
)
select p.workflow_id, p.status, count(*) as jobs, coalesce(sum(n.tasks), 0)::bigint as tasks,
    coalesce(sum(o.bytes), 0)::bigint as bytes, min(p.finished_at) as oldest
from prunable p
cross join lateral (
    select sum(k.expanded_count) from nodes k where k.job_id = any(array[p.job_id])
) as n (tasks)
cross join lateral (
    select sum(l.bytes) from payloads l where l.job_id = any(array[p.job_id])
) as o (bytes)
group by p.workflow_id, p.status order by p.workflow_id, p.status;

-- name: next_prunable
-- The next jobs that can be pruned, oldest first, up to a number of jobs and of tasks, but at least one job.
with awaited as materialized (
    {{jobs_with_work_left}}
),
prunable as (
    select j.job_id, j.finished_at,
        (select coalesce(sum(n.expanded_count), 0) from nodes n where n.job_id = any(array[j.job_id])) as tasks
    from jobs j
    where j.finished_at < %(cutoff)s::timestamptz and j.status = any(%(statuses)s::text[]) and j.owner is null
        and (j.finished_at, j.job_id) > (%(after_time)s::timestamptz, %(after_job)s::uuid)
        and j.job_id not in (select a.job_id from awaited a)
        and not exists (select 1 from queue q where q.job_id = any(array[j.job_id]))
    order by j.finished_at, j.job_id limit %(jobs)s
),
added as (
    select p.job_id, p.finished_at, row_number() over in_order as number, sum(p.tasks) over in_order as tasks
    from prunable p window in_order as (order by p.finished_at, p.job_id)
)
select a.job_id::text as job_id, a.finished_at::text as finished_at from added a
where a.tasks <= %(tasks)s or a.number = 1
order by a.number;

-- name: prune_jobs
-- Deletes all rows of these jobs, and notes that their objects must be deleted, too. A job that another session has
-- locked, or that can no longer be pruned, keeps all its rows.
with awaited as materialized (
    {{jobs_with_work_left}}
),
locked as materialized (
    select j.job_id, j.workflow_id, j.status, j.finished_at
    from jobs j
    where j.job_id = any(%(jobs)s::uuid[]) and j.finished_at < %(cutoff)s::timestamptz
        and j.status = any(%(statuses)s::text[]) and j.owner is null
        and j.job_id not in (select a.job_id from awaited a)
        and not exists (select 1 from queue q where q.job_id = any(array[j.job_id]))
    order by j.job_id
    for update skip locked
),
tasks_gone as (
    delete from tasks t using locked l where t.job_id = any(array[l.job_id]) returning t.job_id
),
payloads_gone as (
    delete from payloads p using locked l where p.job_id = any(array[l.job_id]) returning p.job_id, p.bytes
),
nodes_gone as (
    delete from nodes n using locked l where n.job_id = any(array[l.job_id])
),
attempts_gone as (
    delete from attempts a using locked l where a.job_id = any(array[l.job_id])
),
output_gone as (
    delete from attempt_output o using locked l where o.job_id = any(array[l.job_id])
),
checkpoints_gone as (
    delete from checkpoints c using locked l where c.job_id = any(array[l.job_id])
),
events_gone as (
    delete from events e using locked l where e.job_id = any(array[l.job_id]) returning e.xid
),
noted as (
    insert into pruned_events as p (system_identifier, xid)
    select c.system_identifier, max(g.xid) from events_gone g cross join pg_control_system() c
    group by c.system_identifier
    on conflict (system_identifier) do update set xid = greatest(p.xid, excluded.xid)
),
artifacts_gone as (
    delete from artifacts a using locked l where a.job_id = any(array[l.job_id])
),
acknowledgements_gone as (
    delete from acknowledgements k using locked l where k.job_id = any(array[l.job_id])
),
plans_gone as (
    delete from plans p using locked l where p.job_id = any(array[l.job_id])
),
pins_gone as (
    delete from pins p using locked l where p.job_id = any(array[l.job_id])
),
external_ids_gone as (
    delete from external_ids e using locked l where e.job_id = any(array[l.job_id])
),
requests_gone as (
    delete from requests r using locked l where r.job_id = any(array[l.job_id])
),
answered as materialized (
    -- If an answer is locked, the janitor is deleting it.
    select a.signal_id from answers a where a.job_id in (select l.job_id from locked l) for update skip locked
),
answers_gone as (
    delete from answers a using answered d where a.signal_id = any(array[d.signal_id])
),
to_follow as (
    insert into discarded (job_id) select l.job_id from locked l on conflict (job_id) do nothing
),
gone as (
    delete from jobs j using locked l where j.job_id = any(array[l.job_id])
    returning j.job_id, j.workflow_id, j.status, j.finished_at
),
task_count as materialized (
    select t.job_id, count(*) as tasks from tasks_gone t group by t.job_id
),
payload_size as materialized (
    select p.job_id, sum(p.bytes)::bigint as bytes from payloads_gone p group by p.job_id
)
select g.job_id::text as job_id, g.workflow_id, g.status, coalesce(t.tasks, 0) as tasks, coalesce(p.bytes, 0) as bytes,
    g.finished_at
from gone g
left join task_count t on t.job_id = g.job_id
left join payload_size p on p.job_id = g.job_id
order by g.finished_at, g.job_id;

-- name: oldest_left
-- The oldest ended job that a prune would leave.
with awaited as materialized (
    {{jobs_with_work_left}}
)
select j.job_id::text as job_id, j.workflow_id, j.finished_at from jobs j
where j.finished_at is not null and not (
    j.finished_at < %(cutoff)s::timestamptz and j.status = any(%(statuses)s::text[]) and j.owner is null
    and j.job_id not in (select a.job_id from awaited a)
    and not exists (select 1 from queue q where q.job_id = any(array[j.job_id])))
order by j.finished_at, j.job_id limit 1;

-- name: discarded
-- Jobs whose objects must still be deleted. Another process may be deleting those of the last moments.
select d.job_id::text as job_id from discarded d
where d.job_id > %(after)s::uuid and d.discarded_at <= now() - make_interval(secs => %(age)s::float8)
order by d.job_id limit %(limit)s;

-- name: count_discarded
select count(*) as jobs from discarded d where d.discarded_at <= now() - make_interval(secs => %(age)s::float8);

-- name: forget_discarded
delete from discarded where job_id = any(%(jobs)s::uuid[]);
