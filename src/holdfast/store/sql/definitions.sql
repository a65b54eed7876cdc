-- The definitions of a tenant as people see them: their versions, their texts, and how their jobs go. Nothing here writes.

-- name: registered_versions
-- One page of the definitions that an id stood for, the last one first, each with where its text came from. A process of
-- an older version makes no registrations.
select n.definition_hash, n.version, n.registered_at, s.kind, s.name
from (
    select r.definition_hash, r.version, r.registered_at from registrations r
    where r.tenant = %(tenant)s and r.workflow_id = %(workflow_id)s
    union all
    select c.definition_hash, c.version, c.registered_at from workflows c
    where c.tenant = %(tenant)s and c.workflow_id = %(workflow_id)s and not exists (
        select 1 from registrations r where r.tenant = c.tenant and r.definition_hash = c.definition_hash)
) n
left join sources s on s.tenant = %(tenant)s and s.definition_hash = n.definition_hash
where %(hash)s::text is null or n.definition_hash = %(hash)s
order by n.registered_at desc, n.version desc, n.definition_hash desc
offset %(offset)s limit %(limit)s;

-- name: definition_source
-- The text from which a definition of the tenant was read.
select s.kind, s.name, s.content as text, s.stored_at from sources s
where s.tenant = %(tenant)s and s.definition_hash = %(hash)s;

-- name: statistics_of_jobs
-- How long these jobs took, and how many have which status.
select count(*) as jobs, min(j.created_at) as since, (
        select jsonb_object_agg(s.status, s.jobs) from (
            select k.status, count(*) as jobs from jobs k where k.job_id = any(%(jobs)s::uuid[]) group by k.status
        ) s
    )::text as statuses,
    percentile_cont(0.5) within group (order by extract(epoch from j.finished_at - j.started_at))
        filter (where j.status = 'completed') as p50,
    percentile_cont(0.95) within group (order by extract(epoch from j.finished_at - j.started_at))
        filter (where j.status = 'completed') as p95
from jobs j where j.job_id = any(%(jobs)s::uuid[]) and j.tenant = coalesce(%(tenant)s, j.tenant);

-- name: statistics_of_nodes
-- The same for their nodes: how many of those that ended have failed, and how long completed ones took.
select n.node, count(*) filter (where n.status = 'completed') as completed,
    count(*) filter (where n.status = 'failed') as failed,
    percentile_cont(0.5) within group (order by extract(epoch from n.finished_at - n.started_at))
        filter (where n.status = 'completed') as p50,
    percentile_cont(0.95) within group (order by extract(epoch from n.finished_at - n.started_at))
        filter (where n.status = 'completed') as p95
from nodes n where n.job_id = any(%(jobs)s::uuid[]) group by n.node order by n.node;
