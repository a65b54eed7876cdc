-- The statements about what attempts print: workers save it while an attempt runs, and people read it.

-- name: save_output
-- Stores parts of what running attempts printed. The lease fences it: a late worker stores nothing. A part can be sent
-- again if its answer was lost.
insert into attempt_output (job_id, node, item, epoch, part, started_at, log, log_times)
select p.job_id, p.node, p.item, p.epoch, p.part, to_timestamp(p.started_at), p.log, p.log_times
from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[], %(part)s::int[],
    %(started_at)s::float8[], %(log)s::text[], %(log_times)s::jsonb[])
    as p (job_id, node, item, epoch, part, started_at, log, log_times)
join queue q on q.job_id = any(array[p.job_id]) and q.node = p.node and q.item = p.item and q.epoch = p.epoch
where q.state = 'leased' and q.holder = %(me)s
    and exists (select 1 from workers w where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now())
on conflict do nothing;

-- name: delete_output
-- Deletes what attempts printed that have reported: their logs have it.
delete from attempt_output o
using unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[]) as e (job_id, node, item, epoch)
where o.job_id = any(array[e.job_id]) and o.node = e.node and o.item = e.item and o.epoch = e.epoch;

-- name: running_output
-- What attempts that run now have printed, in parts, without the parts that the reader has seen.
select q.node, q.item, q.attempt, w.name as worker, o.started_at, o.part, o.log,
    o.log_times::text as log_times
from queue q
join attempt_output o on o.job_id = q.job_id and o.node = q.node and o.item = q.item and o.epoch = q.epoch
join workers w on w.worker_id = q.holder
left join unnest(%(seen_node)s::text[], %(seen_item)s::int[], %(seen_attempt)s::int[], %(seen_part)s::int[])
    as s (node, item, attempt, part) on s.node = q.node and s.item = q.item and s.attempt = q.attempt
where q.job_id = %(job)s and q.state = 'leased' and (%(node)s::text is null or q.node = %(node)s)
    and (%(item)s::int is null or q.item = %(item)s) and o.part > coalesce(s.part, 0)
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant))
order by q.node, q.item, o.part
limit %(limit)s;

-- name: attempt_columns
-- An attempt that has ended, as people see it. Of one whose worker was lost, what the worker had saved.
a.node, a.item, a.attempt, a.outcome, a.worker, a.started_at, a.finished_at, a.error::text as error,
    coalesce(a.log, case when a.outcome = 'lost' then (
        select string_agg(o.log, '' order by o.part) from attempt_output o
        where o.job_id = a.job_id and o.node = a.node and o.item = a.item and o.epoch = a.epoch
    ) end) as log,
    a.extra::text as extra, a.log_times::text as log_times;

-- name: ended_attempts
-- One page of the attempts that failed or printed something, in the order in which they ended.
select {{attempt_columns}}
from attempts a
where a.job_id = %(job)s and (%(node)s::text is null or a.node = %(node)s)
    and (%(item)s::int is null or a.item = %(item)s)
    and (a.finished_at, a.node, a.item, a.attempt)
        > (%(after_time)s::timestamptz, %(after_node)s::text collate "C", %(after_item)s::int, %(after_attempt)s::int)
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant))
order by a.finished_at, a.node, a.item, a.attempt
limit %(limit)s;
