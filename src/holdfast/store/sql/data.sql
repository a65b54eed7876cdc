-- Reads for people: the tasks of one job, their params, outputs, failures, checkpoints and files. Nothing here writes.

-- name: of_the_tenant
-- Whether the job belongs to the tenant that asks.
exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant));

-- name: status_of_task
-- The status of a task `t` as people see it: its queue row `q` says whether an open task waits, is dispatched or runs.
case when t.status <> 'ready' then t.status when q.state = 'leased' then 'running'
    when q.state = 'ready' then 'dispatched' else 'ready' end;

-- name: attempts_of_task
-- How many attempts of a task have begun; a running one counts.
case when q.state = 'leased' then q.attempt else t.attempt end;

-- name: queued_task
-- The queue row of a task, if it has one.
left join queue q on t.status = 'ready' and q.job_id = any(array[t.job_id]) and q.node = t.node and q.item = t.item;

-- name: read_tasks
-- One page of a job's tasks, by node and item; with a node, up to its last one. The names of nodes sort before '~'.
select t.node, t.item, {{status_of_task}} as status, {{attempts_of_task}} as attempt, coalesce(w.name, t.worker) as worker,
    case when q.state = 'leased' then q.claimed_at else t.started_at end as started_at, t.finished_at,
    t.error::text as error, t.gone is not null as gone, t.undo::text as undo, t.params_given as is_corrected
from tasks t
{{queued_task}}
left join workers w on w.worker_id = q.holder
where t.job_id = %(job)s and (t.node, t.item) > (%(after_node)s, %(after_item)s)
    and t.node <= coalesce(%(node)s::text, '~')
    and (%(status)s::text is null or %(status)s = {{status_of_task}})
    and (%(fingerprint)s::text is null
        or t.status = 'failed' and t.error->>'fingerprint' = %(fingerprint)s) and {{of_the_tenant}}
order by t.node, t.item limit %(limit)s;

-- name: read_node_output
-- The output of a node, or the digest of a large one.
select n.output::text as output, n.output_ref from nodes n
where n.job_id = %(job)s and n.node = %(node)s and {{of_the_tenant}};

-- name: read_task_output
-- The output of one task, or the digest of a large one.
select {{status_of_task}} as status, t.output::text as output, t.output_ref
from tasks t
{{queued_task}}
where t.job_id = %(job)s and t.node = %(node)s and t.item = %(item)s and {{of_the_tenant}};

-- name: read_task_params
-- The params of one task, as its attempts get them, or the digest of large ones. A task that was refused before it
-- could be queued has none.
select {{status_of_task}} as status, t.params::text as params, t.params_ref
from tasks t
{{queued_task}}
where t.job_id = %(job)s and t.node = %(node)s and t.item = %(item)s and {{of_the_tenant}};

-- name: read_results
-- One page of the results of a node's tasks, by item. A page ends when it gets large, but has at least one row if there
-- is one.
select r.item, r.status, r.attempts, r.code, r.output, r.output_ref
from (
    select p.*, sum(octet_length(coalesce(p.output, ''))) over (order by p.item)
        - octet_length(coalesce(p.output, '')) as bytes_before
    from (
        select t.item, {{status_of_task}} as status, {{attempts_of_task}} as attempts, t.error->>'code' as code,
            case when t.gone is null then t.output::text end as output,
            case when t.gone is null then t.output_ref end as output_ref
        from tasks t
        {{queued_task}}
        where t.job_id = %(job)s and t.node = %(node)s and t.item > %(after)s
            and (%(status)s::text is null or %(status)s = {{status_of_task}}) and {{of_the_tenant}}
        order by t.item limit %(limit)s
    ) p
) r
where r.bytes_before < %(bytes)s
order by r.item;

-- name: failed_items
-- The failed items of a node, those that failed in the same way together: the largest groups first, each with the error
-- of its first item.
with alike as (
    select count(*)::int as number, min(t.item) as first, (array_agg(t.item order by t.item))[1:3] as items,
        min(t.finished_at) as first_at, max(t.finished_at) as last_at
    from tasks t
    where t.job_id = %(job)s and t.node = %(node)s and t.status = 'failed' and t.item >= 0 and {{of_the_tenant}}
    group by t.error->>'fingerprint' order by count(*) desc, min(t.item) limit %(limit)s
)
select a.number, a.items, t.error->>'code' as code, t.error->>'message' as message,
    t.error->>'fingerprint' as fingerprint, a.first_at, a.last_at
from alike a
join tasks t on t.job_id = %(job)s and t.node = %(node)s and t.item = a.first
order by a.number desc, a.first;

-- name: read_artifacts
-- One page of the files that a job's tasks have published, by node, item and name.
select a.node, a.item, a.name, a.digest, a.bytes, a.attempt, a.published_at
from artifacts a
where a.job_id = %(job)s and (a.node, a.item, a.name) > (%(after_node)s, %(after_item)s, %(after_name)s)
    and (%(node)s::text is null or a.node = %(node)s) and (%(item)s::int is null or a.item = %(item)s)
    and (%(name)s::text is null or a.name = %(name)s) and {{of_the_tenant}}
order by a.node, a.item, a.name limit %(limit)s;

-- name: read_checkpoints
-- One page of the checkpoints of a node's tasks, by item and number.
select r.item, r.seq, r.name, r.saved_at, octet_length(r.data) as bytes, r.data
from (
    select p.*, sum(octet_length(p.data)) over (order by p.item, p.seq) - octet_length(p.data) as bytes_before
    from (
        select k.item, k.seq, k.name, k.saved_at, coalesce(k.data::text, 'null') as data from checkpoints k
        where k.job_id = %(job)s and k.node = %(node)s and (k.item, k.seq) > (%(after_item)s, %(after_seq)s)
            and (%(item)s::int is null or k.item = %(item)s) and {{of_the_tenant}}
        order by k.item, k.seq limit %(limit)s
    ) p
) r
where r.bytes_before < %(bytes)s
order by r.item, r.seq;
