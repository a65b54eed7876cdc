-- What a person can do with a job as it is, each with the call to type. The owner may still refuse it, and says why.
-- After an undo a single node cannot run again: what comes before it was taken back, too.
create or replace function calls_for(seen job_overview) returns setof text language plpgsql stable as $$
declare
    shown constant int := 5;
    is_resumable constant boolean := seen.status in ('failed', 'partial', 'cancelled');
    taken_back jsonb;
    failing record;
begin
    select j.undo into taken_back from jobs j where j.job_id = seen.job_id;
    if seen.stopping is not null then
        return next format('it is stopping; look again with: select * from holdfast.explain_job(%L);', seen.job_id);
    elsif seen.finished_at is null then
        return next format(case when seen.paused_by is null
            then 'start no more tasks for a while: select holdfast.pause_job(%L);'
            else 'let it continue: select holdfast.unpause_job(%L);' end, seen.job_id);
        return next format(case when taken_back is null
            then 'stop it; what it has finished is kept: select holdfast.cancel_job(%L);'
            else 'stop the undo; what is not undone yet is kept: select holdfast.cancel_job(%L);' end, seen.job_id);
    elsif is_resumable then
        return next format(case when taken_back is null
            then 'run what is missing, and what follows it: select holdfast.resume_job(%L);'
            else 'run again what was undone, and what is missing: select holdfast.resume_job(%L);' end, seen.job_id);
    end if;
    if is_resumable and not coalesce((taken_back ->> 'is_whole')::boolean, true) then
        return next format('undo the rest of it: holdfast undo %s%s', seen.job_id, ' --from ' || (taken_back ->> 'first'));
        return query select format('count what could not be undone of %s as undone: select holdfast.skip_node(%L, %L);',
            n.node, seen.job_id, n.node)
        from nodes n join node_overview o on o.job_id = n.job_id and o.node = n.node
        where n.job_id = seen.job_id and (n.undo ->> 'failed')::int > 0 order by o.place limit shown;
    end if;
    for failing in
        select o.node, o.status, (
            select array_agg(f.item order by f.item) from (
                select t.item from failed_tasks t
                where t.job_id = o.job_id and t.node = o.node and t.item is not null order by t.item limit shown
            ) f) as items
        from node_overview o
        where o.job_id = seen.job_id and (o.status = 'failed' or o.failed_count > 0) and seen.stopping is null
            and taken_back is null
        order by o.place limit shown
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
