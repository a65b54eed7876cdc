-- Counts events by tenant and minute. A statement sees each event in one snapshot; the next pass counts what that
-- snapshot did not see, so that each event counts once, however late its transaction commits.

-- name: roll_up
-- Counts the events that the last pass did not see, and remembers what this one sees, in one transaction. A transaction
-- that was open then is looked up by its number. A database that was copied to another server counts its transactions
-- from the beginning: then this pass counts nothing, and the next one continues.
with progress as materialized (
    select p.snapshot, p.counted_at from stats_progress p
),
fresh as (
    select e.job_id, e.event, e.item, e.attempt, e.at, e.data
    from progress p cross join lateral pg_snapshot_xip(p.snapshot) as x (xid) join events e on e.xid = any(array[x.xid])
    where e.at > p.counted_at - interval '1 day'
    union all
    select e.job_id, e.event, e.item, e.attempt, e.at, e.data
    from events e
    where e.xid >= coalesce((select pg_snapshot_xmax(p.snapshot) from progress p), '0')
        and e.at > coalesce((select p.counted_at - interval '1 day' from progress p), '-infinity')
),
judged as (
    select f.job_id, date_trunc('minute', f.at) as minute, f.event, case
        when f.event in ('node_retry_scheduled', 'task_retry_scheduled')
            then (f.data ->> 'outcome' in ('failed', 'lost'))::int
        when f.event like 'job\_%%' then 1
        when f.event like 'task\_%%' and f.item is null then coalesce((f.data ->> 'count')::int, 0)
        when f.event like 'task\_%%' or f.attempt is not null then 1
        else 0 end as number, (f.attempt is not null)::int as attempts
    from fresh f
    where f.event in ('job_created', 'job_completed', 'job_partial', 'job_failed', 'job_cancelled', 'task_completed',
        'task_failed', 'task_skipped', 'task_cancelled', 'node_completed', 'node_failed', 'node_skipped', 'node_cancelled',
        'node_retry_scheduled', 'task_retry_scheduled')
),
of_jobs as (
    select g.job_id, g.minute, replace(g.event, 'node_', 'task_') as event, sum(g.number) as number,
        sum(g.attempts) as attempts
    from judged g group by 1, 2, 3
),
named as materialized (
    -- By a subquery, so that each job is looked up by its key, whatever the planner thinks of the size of the tables.
    select o.*, (select j.tenant from jobs j where j.job_id = o.job_id) as tenant from of_jobs o
),
counted as (
    select o.tenant, o.minute,
        coalesce(sum(o.number) filter (where o.event = 'job_created'), 0) as jobs_submitted,
        coalesce(sum(o.number) filter (where o.event = 'job_completed'), 0) as jobs_completed,
        coalesce(sum(o.number) filter (where o.event = 'job_partial'), 0) as jobs_partial,
        coalesce(sum(o.number) filter (where o.event = 'job_failed'), 0) as jobs_failed,
        coalesce(sum(o.number) filter (where o.event = 'job_cancelled'), 0) as jobs_cancelled,
        coalesce(sum(o.number) filter (where o.event = 'task_completed'), 0) as tasks_completed,
        coalesce(sum(o.number) filter (where o.event = 'task_failed'), 0) as tasks_failed,
        coalesce(sum(o.number) filter (where o.event = 'task_skipped'), 0) as tasks_skipped,
        coalesce(sum(o.number) filter (where o.event = 'task_cancelled'), 0) as tasks_cancelled,
        coalesce(sum(o.number) filter (where o.event = 'task_retry_scheduled'), 0)
            + coalesce(sum(o.attempts) filter (where o.event = 'task_failed'), 0) as attempts_failed
    from named o
    where o.tenant is not null
    group by o.tenant, o.minute
    having sum(o.number) > 0
),
moved as (
    insert into stats_progress as p (snapshot) values (pg_current_snapshot())
    on conflict (is_only_row) do update set snapshot = excluded.snapshot, counted_at = now()
)
insert into stats as s (tenant, minute, jobs_submitted, jobs_completed, jobs_partial, jobs_failed, jobs_cancelled,
    tasks_completed, tasks_failed, tasks_skipped, tasks_cancelled, attempts_failed)
select * from counted order by tenant, minute
on conflict (tenant, minute) do update
set jobs_submitted = s.jobs_submitted + excluded.jobs_submitted,
    jobs_completed = s.jobs_completed + excluded.jobs_completed, jobs_partial = s.jobs_partial + excluded.jobs_partial,
    jobs_failed = s.jobs_failed + excluded.jobs_failed, jobs_cancelled = s.jobs_cancelled + excluded.jobs_cancelled,
    tasks_completed = s.tasks_completed + excluded.tasks_completed, tasks_failed = s.tasks_failed + excluded.tasks_failed,
    tasks_skipped = s.tasks_skipped + excluded.tasks_skipped,
    tasks_cancelled = s.tasks_cancelled + excluded.tasks_cancelled,
    attempts_failed = s.attempts_failed + excluded.attempts_failed;

-- name: read_stats
-- The minutes of a tenant, or of all, summed to steps since a time.
select to_timestamp(floor(extract(epoch from s.minute) / %(step)s::int) * %(step)s::int) as start,
    sum(s.jobs_submitted)::bigint as jobs_submitted, sum(s.jobs_completed)::bigint as jobs_completed,
    sum(s.jobs_partial)::bigint as jobs_partial, sum(s.jobs_failed)::bigint as jobs_failed,
    sum(s.jobs_cancelled)::bigint as jobs_cancelled, sum(s.tasks_completed)::bigint as tasks_completed,
    sum(s.tasks_failed)::bigint as tasks_failed, sum(s.tasks_skipped)::bigint as tasks_skipped,
    sum(s.tasks_cancelled)::bigint as tasks_cancelled, sum(s.attempts_failed)::bigint as attempts_failed
from stats s
where s.minute >= %(since)s::timestamptz and s.tenant = any(case when %(tenant)s::text is not null
    then array[%(tenant)s::text] else array(select distinct t.tenant from stats t) end)
group by 1 order by 1;

-- name: last_pass
-- When the janitor was here last, and which migration was applied last.
select (select p.counted_at from stats_progress p) as counted_at,
    (select max(m.number) from migrations m) as schema_number;
