-- Recovery with nothing but psql: views for people, functions that send the signals of the verbs, and the role
-- holdfast_operator, which may use these and nothing else.
create view job_overview as
select j.job_id, j.tenant, j.workflow_id, j.version, j.run, j.labels, j.status, j.reason,
    jsonb_path_query_first(j.holds, '$[*] ? (@.by == "pause")') ->> 'name' as paused_by,
    case when j.finished_at is null then j.stop_cause end as stopping, j.generation,
    coalesce(j.finished_at, j.recovered_at, j.started_at, j.created_at) as since,
    j.created_at, j.started_at, j.finished_at, n.task_count, n.completed_count, n.failed_count,
    case when o.ended_at is null and o.lease_until > now() then o.name end as owner,
    j.error ->> 'code' as error_code, j.error ->> 'message' as error_message
from jobs j
left join orchestrators o on o.orchestrator_id = j.owner
cross join lateral (
    select coalesce(sum(greatest(n.width, n.expanded_count) - coalesce((n.matching ->> 'gone')::int, 0)), 0) as task_count,
        coalesce(sum(n.completed_count), 0) as completed_count, coalesce(sum(n.failed_count), 0) as failed_count
    from nodes n where n.job_id = j.job_id
) n;

create view node_overview as
select j.job_id, j.tenant, j.workflow_id, d.place::int as place, d.value ->> 'name' as node, d.value ->> 'type' as type,
    d.value ->> 'importance' as importance, coalesce(n.status, 'pending') as status, n.reason,
    greatest(n.width, n.expanded_count, 0) - coalesce((n.matching ->> 'gone')::int, 0) as task_count,
    coalesce(n.completed_count, 0) as completed_count, coalesce(n.failed_count, 0) as failed_count,
    coalesce(n.skipped_count, 0) - coalesce((n.matching ->> 'gone')::int, 0) as skipped_count,
    coalesce(n.cancelled_count, 0) as cancelled_count, (
        select count(*) from queue q where q.job_id = n.job_id and q.node = n.node and q.state = 'leased'
    ) as running_count,
    n.started_at, n.finished_at, (e.error ->> 'index')::int as error_item, e.error ->> 'code' as error_code,
    e.error ->> 'message' as error_message
from jobs j
join workflows w on w.definition_hash = j.definition_hash
cross join lateral json_array_elements(
    case when json_typeof(w.definition -> 'nodes') = 'array' then w.definition -> 'nodes' else '[]' end
) with ordinality as d (value, place)
left join nodes n on n.job_id = j.job_id and n.node = d.value ->> 'name'
-- A node that has completed, or that runs, has no error of its own: the first failed task has it, or the first one that
-- waits for its next attempt.
left join lateral (
    select coalesce(n.error, case when n.failed_count > 0 then (
        select t.error from tasks t
        where t.job_id = n.job_id and t.node = n.node and t.status = 'failed' order by t.item limit 1
    ) end, (
        select t.error from queue q join tasks t on t.job_id = q.job_id and t.node = q.node and t.item = q.item
        where q.job_id = n.job_id and q.node = n.node and q.state = 'waiting' order by q.item limit 1
    )) as error
) e on true
where d.value ->> 'type' not in ('start', 'end');

create view failed_tasks as
select t.job_id, j.tenant, j.workflow_id, t.node, nullif(t.item, -1) as item, t.attempt, t.worker, t.started_at,
    t.finished_at, t.error ->> 'code' as error_code, t.error ->> 'class' as error_class,
    t.error ->> 'message' as error_message, t.error ->> 'fingerprint' as fingerprint, t.error ->> 'hint' as hint
from jobs j
join nodes n on n.job_id = j.job_id and n.failed_count > 0
join tasks t on t.job_id = n.job_id and t.node = n.node and t.status = 'failed';

comment on view job_overview is 'All jobs of all tenants: how each is, since when, and its first error.';
comment on view node_overview is 'The nodes of all jobs: how each is, the counts of its tasks, and its first error.';
comment on view failed_tasks is 'All failed tasks, each with its error. Name a job: where job_id = ...';

{{function no_such_job}}

{{function verb_refusal}}

{{function send_verb}}

{{function resume_job}}

{{function retry_node}}

{{function clear_tasks}}

{{function skip_node}}

{{function pause_job}}

{{function unpause_job}}

{{function cancel_job}}

{{function orchestrators_for}}

{{function remedy_words}}

{{function answer}}

{{function one_line}}

{{function calls_for}}

{{function explain_job}}

{{function admit_operators}}

select admit_operators();
