-- Lists for people: which jobs there are, how many, and what waits in the queues. Nothing here writes.

-- name: newest_jobs
-- The next ids of jobs of all tenants, newest first, and whether each fits the filters. Ids are made in the order of
-- time, so the primary key is walked backwards; filters beside the walk would make the planner sort all jobs.
with j as materialized (
    select {{walked_columns}} from jobs j
    where j.job_id < %(before)s::uuid order by j.job_id desc limit %(walk)s
)
select j.job_id::text as job_id, {{job_fits}} as fits from j order by j.job_id desc;

-- name: newest_jobs_of_tenant
-- The same for one tenant. Only the index of tenants has this order: what others have costs nothing, and shows nothing.
with j as materialized (
    select {{walked_columns}} from jobs j
    where (j.tenant, j.job_id) >= (%(tenant)s::text, '00000000-0000-0000-0000-000000000000'::uuid)
        and (j.tenant, j.job_id) < (%(tenant)s::text, %(before)s::uuid)
    order by j.tenant desc, j.job_id desc limit %(walk)s
)
select j.job_id::text as job_id, {{job_fits}} as fits from j order by j.job_id desc;

-- name: walked_columns
-- What the filters look at in a job.
j.job_id, j.tenant, j.status, j.workflow_id, j.created_at, j.generation, j.error, j.labels, j.identity,
    j.correlation_id;

-- name: jobs_with_labels
-- The jobs with these labels that fit the other filters, too: for labels that few jobs have.
with j as materialized (
    select {{walked_columns}} from jobs j
    where j.labels @> %(labels)s::jsonb and j.tenant = coalesce(%(tenant)s, j.tenant) and j.job_id < %(before)s::uuid
)
select j.job_id::text as job_id from j where {{job_fits}} order by j.job_id desc limit %(limit)s;

-- name: jobs_of_identity
-- The same for the jobs that some submissions have made; they are few.
select j.job_id::text as job_id from jobs j
where j.tenant = %(tenant)s and j.identity = any(%(identities)s::text[]) and j.job_id < %(before)s::uuid and {{job_fits}}
order by j.job_id desc limit %(limit)s;

-- name: jobs_of_correlation
-- The same for the jobs of one cause, which an index has in their order.
select j.job_id::text as job_id from jobs j
where j.tenant = %(tenant)s and j.correlation_id = %(correlation_id)s and j.job_id < %(before)s::uuid and {{job_fits}}
order by j.job_id desc limit %(limit)s;

-- name: jobs_of_external_id
-- The jobs for which another system has this id.
select x.job_id::text as job_id from external_ids x
where x.tenant = %(tenant)s and x.namespace = %(namespace)s and x.value = %(value)s and x.job_id < %(before)s::uuid
order by x.job_id desc limit %(limit)s;

-- name: jobs_of_artifact
-- The jobs that have published a file with this content; they are few.
select distinct a.job_id::text as job_id from artifacts a
join jobs j on j.job_id = a.job_id and j.tenant = coalesce(%(tenant)s, j.tenant)
where a.digest = %(digest)s and a.job_id < %(before)s::uuid
order by job_id desc limit %(limit)s;

-- name: job_fits
-- Whether a job `j` fits the filters of a list. Tasks are looked at only if a node of the job has failed ones.
coalesce((%(statuses)s::text[] is null or j.status = any(%(statuses)s::text[]))
    and (%(workflow)s::text is null or j.workflow_id = %(workflow)s)
    and (%(since)s::timestamptz is null or j.created_at >= %(since)s)
    and (%(until)s::timestamptz is null or j.created_at < %(until)s)
    and (%(labels)s::jsonb is null or j.labels @> %(labels)s::jsonb)
    and (not %(unacknowledged)s::boolean or not exists (
        select 1 from acknowledgements k where k.job_id = any(array[j.job_id]) and k.generation = j.generation))
    and (%(text)s::text is null or starts_with(j.job_id::text, lower(%(text)s))
        or right(j.job_id::text, length(%(text)s)) = lower(%(text)s) or starts_with(j.workflow_id, %(text)s)
        or starts_with(j.correlation_id, %(text)s) or j.identity = any(%(text_identities)s::text[]))
    and (%(fingerprint)s::text is null or j.error ->> 'fingerprint' = %(fingerprint)s or exists (
        select 1 from nodes n where n.job_id = any(array[j.job_id]) and (n.error ->> 'fingerprint' = %(fingerprint)s
            or n.failed_count > 0 and exists (
                select 1 from tasks t where t.job_id = any(array[j.job_id]) and t.node = n.node and t.status = 'failed'
                    and t.error ->> 'fingerprint' = %(fingerprint)s))))
    and (%(code)s::text is null or j.error ->> 'code' = %(code)s or exists (
        select 1 from nodes n where n.job_id = any(array[j.job_id]) and (n.error ->> 'code' = %(code)s
            or n.failed_count > 0 and exists (
                select 1 from attempts a
                where a.job_id = any(array[j.job_id]) and a.node = n.node and a.error ->> 'code' = %(code)s
                    and exists (select 1 from tasks t where t.job_id = any(array[j.job_id]) and t.node = n.node
                        and t.item = a.item and t.status = 'failed'))))), false);

-- name: job_lines
-- These jobs with the sums of their counters, newest first.
select j.job_id::text as job_id, j.workflow_id, j.status, j.reason, j.version, j.created_at, j.started_at,
    j.finished_at, j.generation, j.recovered_at, n.began_at, n.total, n.completed, n.failed,
    j.error->>'message' as message, j.labels::text as labels,
    {{pause_of_job}} as pause,
    k.actor as acknowledged_by, k.reason as acknowledged_reason, k.at as acknowledged_at
from jobs j
left join lateral (
    select coalesce(sum(greatest(n.width, n.expanded_count) - coalesce((n.matching ->> 'gone')::int, 0)), 0),
        coalesce(sum(n.completed_count), 0), coalesce(sum(n.failed_count), 0),
        min({{work_began}}) filter (where n.started_at >= coalesce(j.recovered_at, j.started_at))
    from nodes n where n.job_id = j.job_id
) as n (total, completed, failed, began_at) on true
left join acknowledgements k on k.job_id = j.job_id and k.generation = j.generation
where j.job_id = any(%(jobs)s::uuid[]) and j.tenant = coalesce(%(tenant)s, j.tenant)
order by j.job_id desc;

-- name: open_jobs
-- The jobs of a tenant that have not ended, or those of one workflow, oldest first, with what decides whether they can be
-- paused.
select j.job_id::text as job_id, j.workflow_id, j.status, j.generation, j.stop_cause,
    jsonb_path_query_first(j.holds, '$[*] ? (@.by == "pause")') ->> 'name' as paused_by
from jobs j
where j.finished_at is null and j.tenant = coalesce(%(tenant)s, j.tenant)
    and (%(workflow)s::text is null or j.workflow_id = %(workflow)s)
    and (%(jobs)s::uuid[] is null or j.job_id = any(%(jobs)s::uuid[]))
order by j.job_id;

-- name: workflow_ids
-- The ids of all workflows of a tenant. A process of an older version makes no registrations.
select r.workflow_id from registrations r where r.tenant = %(tenant)s
union select c.workflow_id from workflows c where c.tenant = %(tenant)s;

-- name: job_exists
select j.job_id::text as job_id from jobs j
where j.job_id = %(job)s::uuid and j.tenant = coalesce(%(tenant)s, j.tenant);

-- name: jobs_ending_with
-- A few jobs are enough to show that the ending is not unique.
select j.job_id::text as job_id, j.workflow_id, j.status from jobs j
where j.job_id::text like '%%' || %(ending)s and j.tenant = coalesce(%(tenant)s, j.tenant)
order by j.job_id desc limit 6;

-- name: count_jobs
-- Jobs by workflow and status.
select j.workflow_id, j.status, count(*) as jobs from jobs j
where j.tenant = coalesce(%(tenant)s, j.tenant) and (%(since)s::timestamptz is null or j.created_at >= %(since)s)
group by j.workflow_id, j.status order by j.workflow_id, j.status;

-- name: count_queue
-- Tasks in the queue, those that run apart.
select count(*) filter (where q.state <> 'leased') as queued, count(*) filter (where q.state = 'leased') as running
from queue q join lanes l on l.lane_id = q.lane_id
where l.tenant = coalesce(%(tenant)s, l.tenant);

-- name: workflow_lines
-- The definition of each workflow of a tenant that was registered last. A process of an older version makes no
-- registrations.
select distinct on (n.workflow_id) n.workflow_id, n.version, n.registered_at from (
    select r.workflow_id, r.version, r.registered_at from registrations r where r.tenant = %(tenant)s
    union all
    select c.workflow_id, c.version, c.registered_at from workflows c where c.tenant = %(tenant)s
) n
order by n.workflow_id, n.registered_at desc, n.version desc;

-- name: shut_gates
-- The gates that let nothing through now: breakers that are not closed, and limits that are full. `lane` are all lanes
-- with their gates, `counted` has the running tasks of each lane.
select m.gate from (select 'limit:' || n.tenant || ':' || n.name as gate, n.* from limits n) m
left join (
    select g.gate, sum(c.running) as running
    from counted c join lane l on l.lane_id = c.lane_id cross join unnest(l.gates) as g (gate)
    where c.running > 0 group by g.gate
) b on b.gate = m.gate
where m.concurrency <= coalesce(b.running, 0)
    or least(m.burst, m.tokens + case when m.refilled_at = '-infinity' then m.burst
        else m.rate * extract(epoch from now() - m.refilled_at) end) < 1
union all
select 'breaker:' || b.name from breakers b where b.state <> 'closed';

-- name: queue_lines
-- The tasks of a tenant by queue. A task is held if its job is paused, or if its lane is behind a breaker that is not
-- closed or a limit that is full. Limits count the tasks of all tenants.
with lane as materialized (
    select l.lane_id, l.queue, l.tenant, l.breaker, gates_of(l) as gates from lanes l
),
counted as materialized (
    select q.lane_id, count(*) filter (where q.state = 'ready') as ready,
        count(*) filter (where q.state = 'waiting') as waiting, count(*) filter (where q.state = 'paused') as paused,
        count(*) filter (where q.state = 'leased') as running,
        min(q.queued_at) filter (where q.state <> 'leased') as since
    from queue q group by q.lane_id
),
shut as materialized (
    {{shut_gates}}
),
held as materialized (
    select distinct l.lane_id from lane l join counted c on c.lane_id = l.lane_id cross join unnest(l.gates) as g (gate)
    where g.gate in (select s.gate from shut s)
),
judged as (
    select l.queue, c.*, h.lane_id is not null as is_held
    from lane l join counted c on c.lane_id = l.lane_id left join held h on h.lane_id = l.lane_id
    where l.tenant = coalesce(%(tenant)s, l.tenant)
)
select j.queue, sum(j.waiting + case when j.is_held then 0 else j.ready end)::bigint as queued,
    sum(j.paused + case when j.is_held then j.ready else 0 end)::bigint as held, sum(j.running)::bigint as running,
    min(j.since) as since
from judged j group by j.queue order by j.queue;

-- name: ended_by_hour
-- The jobs that ended since a time, by the hour in which they ended.
select date_trunc('hour', j.finished_at) as start, count(*) filter (where j.status = 'completed') as completed,
    count(*) filter (where j.status = 'partial') as partial, count(*) filter (where j.status = 'failed') as failed,
    count(*) filter (where j.status = 'cancelled') as cancelled,
    count(*) filter (where j.status in ('failed', 'partial') and not exists (
        select 1 from acknowledgements k where k.job_id = any(array[j.job_id]) and k.generation = j.generation
    )) as unacknowledged
from jobs j
where j.finished_at >= %(since)s::timestamptz and j.tenant = coalesce(%(tenant)s, j.tenant)
group by 1 order by 1;
