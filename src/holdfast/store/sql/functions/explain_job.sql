-- Says in lines how a job is, node by node, and what can be done next.
create function explain_job(job uuid) returns table (line text)
language plpgsql stable security definer set search_path = holdfast, pg_temp as $$
declare
    moment constant text := 'YYYY-MM-DD HH24:MI:SSOF';
    seen job_overview;
    widest int;
begin
    select * into seen from job_overview j where j.job_id = job;
    if seen.job_id is null then
        perform no_such_job(job);
    end if;
    select greatest(max(length(o.node)), 4) into widest from node_overview o where o.job_id = job;
    return query
    select format('Job %s of workflow %s, version %s, tenant %s', job, seen.workflow_id, seen.version, seen.tenant)
    union all select format('Status: %s since %s, generation %s', seen.status, to_char(seen.since, moment),
        seen.generation)
    union all select one_line(seen.error_code, seen.error_message)
        where seen.error_code is not null and not exists (
            select 1 from node_overview o where o.job_id = job and o.error_message = seen.error_message)
    union all select 'It is paused by ' || seen.paused_by where seen.paused_by is not null
    union all select format('It is stopping (%s)', seen.stopping) where seen.stopping is not null
    union all select 'Its orchestrator cannot advance it: ' || one_line(null, seen.reason)
        where seen.reason like 'orchestrator_error%';
    return query
    select format('Signal %s, %s by %s at %s, has no answer yet', i.id, coalesce(i.data ->> 'verb', i.kind), i.actor,
        to_char(i.sent_at, moment))
    from inbox i where i.job_id = job and i.kind in ('cancel', 'pause', 'unpause', 'recover') order by i.id;
    return query
    select 'No orchestrator is alive, so nothing moves. Start one with: holdfast up'
    where orchestrators_for(job) = 0
        and (seen.finished_at is null or exists (select 1 from inbox i where i.job_id = job));
    return query values (''), (rpad('node', widest) || '  status     completed  failed  running       of');
    return query
    select trim(trailing from format('%s  %s%s%s%s%s  %s', rpad(o.node, widest), rpad(o.status, 11),
        lpad(o.completed_count::text, 9), lpad(o.failed_count::text, 8), lpad(o.running_count::text, 9),
        lpad(o.task_count::text, 9), coalesce(
            one_line(concat_ws(' in item ', o.error_code, o.error_item), o.error_message),
            replace(o.reason, '_', ' '))))
    from node_overview o where o.job_id = job order by o.place;
    return query
    select c.call from (
        select a.place, '  ' || a.call from calls_for(seen) with ordinality as a (call, place)
        union all select -1, '' union all select 0, 'What you can do next:'
    ) as c (place, call) where exists (select 1 from calls_for(seen)) order by c.place;
end
$$;
comment on function explain_job is 'Say how a job is, node by node, and what can be done next.';
