-- Reads for people: a job, its nodes, its events, and the state of the installation. Nothing here writes.

-- name: read_job
-- One job with its owner. Large columns are read only on request: a progress display reads five times a second.
select j.job_id::text as job_id, j.workflow_id, j.status, j.reason, j.version, j.run, j.generation, j.tenant,
    j.definition_hash, case when %(whole)s then j.inputs::text end as inputs,
    case when %(whole)s then j.result::text end as result, j.error::text as error,
    j.created_at, j.started_at, j.finished_at, j.recovered_at, j.owner as owner_id, o.name as owner, j.owned_since,
    coalesce(o.ended_at is null and o.lease_until > now(), false) as owner_is_alive,
    {{pause_of_job}} as pause,
    case when %(whole)s then j.result_ref end as result_ref, j.labels::text as labels,
    j.correlation_id, {{external_ids_of_job}} as external_ids, j.callback_url, j.notify::text as notify,
    j.undo ->> 'by_hand' as look_by_hand, k.actor as acknowledged_by, k.reason as acknowledged_reason, k.at as acknowledged_at
from jobs j left join orchestrators o on o.orchestrator_id = j.owner
left join acknowledgements k on k.job_id = j.job_id and k.generation = j.generation
where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant);

-- name: external_ids_of_job
-- The ids that other systems have for a job `j`.
(select jsonb_object_agg(x.namespace, x.value) from external_ids x where x.job_id = any(array[j.job_id]))::text;

-- name: pause_of_job
-- The pause of a job `j`, with the reason that its event has. A paused job has few events after that one.
case when j.holds @> '[{"by": "pause"}]' then (
    jsonb_path_query_first(j.holds, '$[*] ? (@.by == "pause")') || jsonb_build_object('reason', (
        select e.data ->> 'reason' from events e
        where e.job_id = j.job_id and e.event = 'job_held' and e.data ->> 'by' = 'pause'
        order by e.seq desc limit 1
    ))
)::text end;

-- name: read_nodes
-- The nodes that have begun, without their outputs: the output of a fan-in can be as large as all its items. Tasks whose
-- items are gone do not count. Only a recovery gives params to tasks: the tasks of other jobs are not read.
select n.node, n.status, n.reason, n.attempt, n.width - g.gone as width, n.completed_count as completed,
    n.failed_count as failed, n.skipped_count - g.gone as skipped, n.cancelled_count as cancelled, n.retry_at,
    n.error::text as error, n.started_at, n.finished_at, n.expanded_count - g.gone as expanded, n.batch_size,
    {{work_began}} as began_at, n.width as numbers, g.gone, n.undo::text as undo, (
        select count(*)::int from tasks t
        where t.job_id = any(array[n.job_id]) and t.node = n.node and t.params_given and t.gone is null
            and %(whole)s and (select j.generation > 1 from jobs j where j.job_id = %(job)s)
    ) as corrected
from nodes n
cross join lateral (select coalesce((n.matching ->> 'gone')::int, 0) as gone) g
where n.job_id = %(job)s;

-- name: work_began
-- When the first attempt at a node `n` began since the node was queued last. Of many items only the first one is looked
-- at: it is claimed first. A handover is as old as the commit that queues the task.
(select min(s.at) from (
    select t.started_at as at from tasks t
    where t.job_id = any(array[n.job_id]) and t.node = n.node and t.item in (-1, 0)
    union all
    select a.started_at from attempts a
    where a.job_id = any(array[n.job_id]) and a.node = n.node and a.item in (-1, 0)
    union all
    select q.claimed_at from queue q
    where q.job_id = any(array[n.job_id]) and q.node = n.node and q.item in (-1, 0) and q.state = 'leased'
) s where s.at >= n.started_at);

-- name: read_by_hand
-- Who decided how nodes ended, when and why.
select n.node, n.reason as verb, e.data ->> 'by' as by, e.at, nullif(r.data ->> 'reason', '') as reason
from nodes n
cross join lateral (
    select e.seq, e.at, e.data from events e
    where e.job_id = n.job_id and e.node = n.node and e.event in ('node_completed', 'node_skipped') and e.data ? 'by'
    order by e.seq desc limit 1
) e
left join lateral (
    select r.data from events r
    where r.job_id = n.job_id and r.event = 'job_recovered' and r.seq < e.seq order by r.seq desc limit 1
) r on true
where %(whole)s and n.job_id = %(job)s and n.reason in ('set_by_person', 'by_person');

-- name: event_of_pin
-- The event that began the generation of `p`. A submission has none: its event names no person.
left join lateral (
    select e.at, e.data from events e
    where e.job_id = %(job)s and e.event = 'job_recovered' and (e.data ->> 'generation')::int = p.generation
    order by e.seq desc limit 1
) e on true;

-- name: read_corrected
-- The last correction of a job: when, by whom and why. Few jobs have one; its event is looked for from the last on.
select p.generation, coalesce(e.at, p.pinned_at) as at, e.data::text as data
from (
    select p.generation, p.pinned_at from pins p
    where %(whole)s and p.job_id = %(job)s and p.generation > 1 order by p.generation desc limit 1
) p
{{event_of_pin}};

-- name: read_pins
-- What a job follows from each generation on at which that changed, with the event of the change. A job that was never
-- corrected has no pins: it follows what it was submitted with.
select j.workflow_id, j.generation as present, p.generation, p.definition_hash, p.version, p.inputs::text as inputs,
    case when p.generation = 1 then j.created_at else coalesce(e.at, p.pinned_at) end as at, e.data::text as data
from jobs j
cross join lateral (
    select p.generation, p.definition_hash, p.version, p.inputs, p.pinned_at from pins p where p.job_id = j.job_id
    union all
    select 1, j.definition_hash, j.version, j.inputs, j.created_at
    where not exists (select 1 from pins p where p.job_id = j.job_id)
) p
{{event_of_pin}}
where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant)
order by p.generation;

-- name: node_statuses
-- The statuses of the nodes of these jobs, and the definition of each job.
select j.job_id::text as job_id, j.definition_hash, (
    select coalesce(jsonb_object_agg(n.node, n.status), '{}') from nodes n where n.job_id = any(array[j.job_id])
)::text as statuses
from jobs j where j.job_id = any(%(jobs)s::uuid[]) and j.tenant = coalesce(%(tenant)s, j.tenant);

-- name: read_queue
-- The queued tasks of a job, by node. They are never more than the windows of its fan-outs.
select q.node, count(*) filter (where q.state = 'leased') as running,
    count(*) filter (where q.state in ('ready', 'paused')) as ready,
    count(*) filter (where q.state = 'waiting') as waiting, min(q.due_at) filter (where q.state = 'waiting') as due_at,
    (array_agg(q.progress::text) filter (where q.item = -1))[1] as progress, min(q.claimed_at) as claimed_at,
    max(q.attempt) as attempt
from queue q where q.job_id = %(job)s group by q.node;

-- name: read_deliverables
-- The deliverables of completed tasks, by name: their number, and the first and the last place.
select d.key as name, count(*)::int as number, min(d.value collate "C") as first, max(d.value collate "C") as last
from attempts a
join tasks t on t.job_id = any(array[a.job_id]) and t.node = a.node and t.item = a.item and t.attempt = a.attempt
cross join lateral jsonb_each_text(a.extra -> 'deliverables') as d
where %(whole)s and a.job_id = %(job)s and jsonb_typeof(a.extra -> 'deliverables') = 'object' and t.status = 'completed'
group by d.key order by d.key;

-- name: load_job
-- The last committed state of one job, for a person of its tenant.
select {{JobRow from j}}, (select max(e.seq) from events e where e.job_id = j.job_id) as last_seq
from jobs j
where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant);

-- name: read_events
-- One page of a job's events, in order.
select e.seq, e.job_id::text as job_id, e.event, e.node, e.item, e.attempt, e.at, e.data::text as data
from events e
where e.job_id = %(job)s and e.seq > %(after)s and (%(node)s::text is null or e.node = %(node)s)
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant))
order by e.seq limit %(limit)s;

-- name: count_retries
-- Failed and lost attempts that another attempt followed, and how many of them lost their worker.
select count(*) as retries, count(*) filter (where a.outcome = 'lost') as lost from attempts a
join tasks t on t.job_id = a.job_id and t.node = a.node and t.item = a.item
where a.job_id = %(job)s and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant))
    and a.outcome in ('failed', 'lost') and (t.attempt > a.attempt or t.status = 'ready');

-- name: read_attempts
-- Attempts that failed or printed something, in the order in which they ended.
select {{attempt_columns}}
from attempts a
where a.job_id = %(job)s and (%(node)s::text is null or a.node = %(node)s)
    and (%(item)s::int is null or a.item = %(item)s)
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant))
order by a.finished_at, a.node, a.item, a.attempt
limit %(limit)s;

-- name: node_outputs
-- The outputs of all nodes, for tests of workflows; or those of a few nodes, to show where an output is stored.
select n.node, n.output::text as output, n.output_ref from nodes n
where n.job_id = %(job)s and (%(nodes)s::text[] is null or n.node = any(%(nodes)s::text[]))
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant));

-- name: live_orchestrators
-- Only open jobs have an owner, and an index finds them, so that ended jobs are never read. Without `everyone`,
-- orchestrators for another job are left out, because they cannot advance this one. Of other tenants' jobs nothing is
-- said.
with owned as materialized (
    select j.owner, count(*) as jobs, min(j.job_id::text) as oldest, min(j.created_at) as created_at
    from jobs j where j.finished_at is null and j.tenant = coalesce(%(tenant)s, j.tenant) group by j.owner
)
select o.orchestrator_id, o.name, o.version, o.started_at,
    extract(epoch from o.lease_until - now())::float8 as lease_seconds, coalesce(h.jobs, 0) as jobs,
    h.oldest as oldest_job, h.created_at as oldest_created_at, case when %(tenant)s::text is null or exists (
        select 1 from jobs j where j.job_id = o.only_job and j.tenant = %(tenant)s) then o.only_job::text end as only_job
from orchestrators o left join owned h on h.owner = o.orchestrator_id
where o.ended_at is null and o.lease_until > now()
    and (%(everyone)s or o.only_job is null or o.only_job = %(job)s::uuid)
order by o.orchestrator_id;

-- name: live_workers
-- The live workers that may get tasks of the tenant, with the numbers of tasks of the tenant that they hold.
with held as materialized (
    select q.holder, count(*) as tasks from queue q join lanes l on l.lane_id = q.lane_id
    where q.state = 'leased' and l.tenant = coalesce(%(tenant)s, l.tenant) group by q.holder
)
select w.worker_id, w.name, w.version, w.queues, w.handlers, w.concurrency, coalesce(h.tasks, 0) as tasks,
    extract(epoch from w.lease_until - now())::float8 as lease_seconds, w.started_at, w.changed_files
from workers w left join held h on h.holder = w.worker_id
where w.ended_at is null and w.lease_until > now()
    and (w.tenant is null or w.tenant = coalesce(%(tenant)s, w.tenant)) order by w.worker_id;

-- name: jobs_without_owner
-- Open jobs that no orchestrator has claimed, and jobs of owners that are dead. An owner that left in good order has no
-- finite lease.
select j.owner as owner_id, o.name as owner,
    case when o.orchestrator_id is null then min(j.created_at)
        when isfinite(o.lease_until) then o.lease_until else o.ended_at end as since,
    count(*) as jobs, min(j.job_id::text) as oldest_job
from jobs j left join orchestrators o on o.orchestrator_id = j.owner
where j.finished_at is null and j.tenant = coalesce(%(tenant)s, j.tenant)
    and (o.orchestrator_id is null or o.ended_at is not null or o.lease_until <= now())
group by j.owner, o.orchestrator_id, o.name, o.lease_until, o.ended_at order by since;

-- name: unserved_columns
-- Tasks `q` of a lane `l`, counted, and whether a live worker serves their queue.
l.queue, l.handler, count(*) as tasks, min(q.queued_at) as since,
    exists (select 1 from workers w where w.ended_at is null and w.lease_until > now()
        and (w.queues is null or l.queue = any(w.queues))
        and (w.tenant is null or w.tenant = any(array_agg(distinct l.tenant)))) as queue_is_served;

-- name: unserved_lanes
-- Queued tasks that no live worker can claim: no worker serves their queue, or none has their handler.
select {{unserved_columns}}
from queue q join lanes l on l.lane_id = q.lane_id
where q.state <> 'leased' and l.tenant = coalesce(%(tenant)s, l.tenant) and not exists (
    select 1 from workers w
    where w.ended_at is null and w.lease_until > now() and l.handler = any(w.handlers)
        and (w.queues is null or l.queue = any(w.queues)) and (w.tenant is null or w.tenant = l.tenant))
group by l.queue, l.handler order by count(*) desc limit 20;

-- name: unserved_nodes
-- The same for one job, by node.
select q.node, {{unserved_columns}}
from queue q join lanes l on l.lane_id = q.lane_id
where q.job_id = %(job)s and q.state <> 'leased' and not exists (
    select 1 from workers w
    where w.ended_at is null and w.lease_until > now() and l.handler = any(w.handlers)
        and (w.queues is null or l.queue = any(w.queues)) and (w.tenant is null or w.tenant = l.tenant))
group by q.node, l.queue, l.handler;

-- name: unread_signals
-- Signals that no owner has handled for a while.
select count(*) as number, min(i.sent_at) as since from inbox i
where i.sent_at < now() - make_interval(secs => %(seconds)s);

-- name: long_transactions
-- Long transactions, which keep vacuum from removing dead rows of the queue.
select a.pid, coalesce(a.application_name, '') as application, a.state,
    extract(epoch from now() - a.xact_start)::float8 as seconds
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid()
    and a.xact_start < now() - make_interval(secs => %(seconds)s)
order by a.xact_start limit 5;

-- name: session_columns
-- A session `a` that keeps rows locked.
a.pid, coalesce(a.application_name, '') as application, coalesce(a.usename, '') as "user", a.state,
    a.xact_start as since, coalesce(a.query, '') as query;

-- name: lock_holders
-- Sessions that hold locks on our tables for longer than our own transactions do. Locks of readers block nothing.
select {{session_columns}}, array_agg(distinct c.relname::text) as tables
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
join pg_class c on c.oid = l.relation and c.relkind = 'r'
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'holdfast'
where l.locktype = 'relation' and l.granted and l.mode <> 'AccessShareLock'
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
    and coalesce(a.xact_start < now() - make_interval(secs => %(held_seconds)s), true)
group by a.pid, a.application_name, a.usename, a.state, a.xact_start, a.query
order by a.xact_start, a.pid
limit 20;

-- name: server_facts
select current_setting('server_version_num')::int as version_number, current_setting('server_version') as version,
    extract(epoch from clock_timestamp())::float8 as now, current_setting('fsync') as fsync,
    current_setting('synchronous_commit') as synchronous_commit,
    current_setting('max_connections')::int as max_connections,
    (select count(*) from pg_stat_activity) as connections, current_database() as database,
    pg_database_size(current_database()) as size_bytes;
