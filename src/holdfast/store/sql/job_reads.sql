-- Reads for people who look at the details of one job: the map of a node, its timeline, its generations, one task. Nothing here
-- writes.

-- name: task_runs
-- How a node's items stand: a letter for each task, as the tasks say; then, for open ones, where the state in the queue
-- changes, with the item before, and the last item in the queue. Tasks are numbered without gaps.
select 'tasks' as source, 0 as item, coalesce(string_agg(case t.status when 'completed' then 'c' when 'failed' then 'f'
    when 'skipped' then 's' when 'cancelled' then 'x' else 'r' end, '' order by t.item), '') as status, null as previous
from tasks t where t.job_id = %(job)s and t.node = %(node)s and t.item >= 0 and {{of_the_tenant}}
union all
select 'queue', r.item, r.state, r.previous from (
    select q.item, q.state, lag(q.state) over w as before, lag(q.item) over w as previous
    from queue q where q.job_id = %(job)s and q.node = %(node)s and q.item >= 0 and {{of_the_tenant}}
    window w as (order by q.item)
) r where r.before is distinct from r.state or r.previous <> r.item - 1
union all
(select 'last queued', q.item, q.state, null from queue q
where q.job_id = %(job)s and q.node = %(node)s and q.item >= 0 and {{of_the_tenant}}
order by q.item desc limit 1);

-- name: ended_by_time
-- How many tasks of each node ended in each stretch of time, and how many of them failed.
select t.node, least(%(buckets)s::int - 1, floor(
        (date_part('epoch', t.finished_at) - date_part('epoch', %(since)s::timestamptz)) / %(seconds)s::float8)::int
    ) as bucket, count(*)::int as ended, (count(*) filter (where t.status = 'failed'))::int as failed
from tasks t
where t.job_id = %(job)s and t.finished_at >= %(since)s::timestamptz and t.finished_at <= %(until)s::timestamptz
    and {{of_the_tenant}}
group by 1, 2;

-- name: read_generations
-- One page of the generations of a job: the event that began each, and the one that ended it. One that is recovered
-- while it runs has no end.
select b.seq, b.at, b.data::text as data, e.event as ended, e.at as ended_at, e.data::text as details
from (
    select 1 as seq, j.created_at as at, null::jsonb as data
    from jobs j where j.job_id = %(job)s and %(after)s < 1
    union all
    (select r.seq, r.at, r.data from events r
    where r.job_id = %(job)s and r.event = 'job_recovered' and r.seq > %(after)s
    order by r.seq limit %(limit)s)
) b
left join lateral (
    select e.event, e.at, e.data from events e
    where e.job_id = %(job)s and e.event in ('job_completed', 'job_partial', 'job_failed', 'job_cancelled')
        and e.seq > b.seq and e.seq < coalesce((
            select n.seq from events n
            where n.job_id = %(job)s and n.event = 'job_recovered' and n.seq > b.seq order by n.seq limit 1
        ), 2147483647)
    order by e.seq desc limit 1
) e on true
where {{of_the_tenant}}
order by b.seq limit %(limit)s;

-- name: read_task
-- One task as it is now, with its params, its output and its progress; large ones by their digests.
select t.node, t.item, {{status_of_task}} as status, {{attempts_of_task}} as attempt, coalesce(w.name, t.worker) as worker,
    case when q.state = 'leased' then q.claimed_at else t.started_at end as started_at, t.finished_at,
    t.error::text as error, t.gone is not null as gone, t.undo::text as undo, q.progress::text as progress,
    t.params_given as is_corrected, t.params::text as params, t.params_ref, t.output::text as output, t.output_ref
from tasks t
{{queued_task}}
left join workers w on w.worker_id = q.holder
where t.job_id = %(job)s and t.node = %(node)s and t.item = %(item)s and {{of_the_tenant}};

-- name: latest_attempts
-- The latest attempts at one task that failed or printed something, the last one first, until there is much text; at
-- least one, if there is one.
select r.node, r.item, r.attempt, r.outcome, r.worker, r.started_at, r.finished_at, r.error, r.log, r.extra, r.log_times
from (
    select p.*, sum(coalesce(octet_length(p.log), 0)) over (order by p.attempt desc) - coalesce(octet_length(p.log), 0)
        as bytes_before
    from (
        select {{attempt_columns}}
        from attempts a
        where a.job_id = %(job)s and a.node = %(node)s and a.item = %(item)s and {{of_the_tenant}}
        order by a.attempt desc limit %(limit)s
    ) p
) r
where r.bytes_before < %(bytes)s
order by r.attempt desc;

-- name: latest_checkpoints
-- The latest checkpoints of one task, the last one first, until there is much data; at least one, if there is one.
select r.item, r.seq, r.name, r.saved_at, octet_length(r.data) as bytes, r.data
from (
    select p.*, sum(octet_length(p.data)) over (order by p.seq desc) - octet_length(p.data) as bytes_before
    from (
        select k.item, k.seq, k.name, k.saved_at, coalesce(k.data::text, 'null') as data from checkpoints k
        where k.job_id = %(job)s and k.node = %(node)s and k.item = %(item)s and {{of_the_tenant}}
        order by k.seq desc limit %(limit)s
    ) p
) r
where r.bytes_before < %(bytes)s
order by r.seq desc;

-- name: artifacts_of_name
-- The files of a job with one name, by node and item; more than a few are one too many.
select a.node, a.item, a.name, a.digest, a.bytes, a.attempt, a.published_at
from artifacts a
where a.job_id = %(job)s and a.name = %(name)s
    and (%(node)s::text is null or a.node = %(node)s) and (%(item)s::int is null or a.item = %(item)s)
    and {{of_the_tenant}}
order by a.node, a.item limit %(limit)s;
