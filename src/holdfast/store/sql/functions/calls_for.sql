-- What a person can do with a job as it is, each with the call to type. The owner may still refuse it, and says why.
create function calls_for(seen job_overview) returns setof text language plpgsql stable as $$
declare
    shown constant int := 5;
    is_resumable constant boolean := seen.status in ('failed', 'partial', 'cancelled');
    failing record;
begin
    if is_resumable then
        return next format('run what is missing, and what follows it: select holdfast.resume_job(%L);', seen.job_id);
    elsif seen.stopping is not null then
        return next format('it is stopping; look again with: select * from holdfast.explain_job(%L);', seen.job_id);
    elsif seen.finished_at is null then
        return next format(case when seen.paused_by is null
            then 'start no more tasks for a while: select holdfast.pause_job(%L);'
            else 'let it continue: select holdfast.unpause_job(%L);' end, seen.job_id);
        return next format('stop it; what it has finished is kept: select holdfast.cancel_job(%L);', seen.job_id);
    end if;
    for failing in
        select o.node, o.status, (
            select array_agg(f.item order by f.item) from (
                select t.item from failed_tasks t
                where t.job_id = o.job_id and t.node = o.node and t.item is not null order by t.item limit shown
            ) f) as items
        from node_overview o
        where o.job_id = seen.job_id and (o.status = 'failed' or o.failed_count > 0) order by o.place limit shown
    loop
        if seen.finished_at is not null then
            return next format('run %s again: select holdfast.retry_node(%L, %L);',
                failing.node, seen.job_id, failing.node);
        elsif failing.items is not null then
            return next format('run failed items of %s again: select holdfast.clear_tasks(%L, %L, %L);',
                failing.node, seen.job_id, failing.node, failing.items);
        end if;
        if is_resumable and failing.status = 'failed' then
            return next format('continue without %s: select holdfast.skip_node(%L, %L);',
                failing.node, seen.job_id, failing.node);
        end if;
    end loop;
    if seen.failed_count > 0 then
        return next format('see what failed: select * from holdfast.failed_tasks where job_id = %L;', seen.job_id);
    end if;
end
$$;
