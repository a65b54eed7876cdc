-- Why a verb is not sent to the owner of a job, as far as the rows say it; a null reason: it is sent. The owner checks
-- again, and more. Only a node that was reached knows its items.
create function verb_refusal(
    known jobs, verb text, node text, items int[], out reason text, out next_step text, out code text
)
language plpgsql stable as $$
declare
    look constant text := format('select * from holdfast.explain_job(%L);', known.job_id);
    shown constant int := 20;
    names text[];
    reached record;
    wrong int;
begin
    code := 'object_not_in_prerequisite_state';
    if verb in ('pause', 'unpause', 'cancel') and known.finished_at is not null then
        reason := case when verb = 'cancel' then 'too late, ' else '' end || 'it is already ' || known.status;
        next_step := case when verb = 'unpause' and known.status <> 'completed'
            then format('Continue it with: select holdfast.resume_job(%L);', known.job_id)
            else 'See how it ended with: ' || look end;
    elsif verb = 'resume' and known.status not in ('failed', 'partial', 'cancelled') then
        reason := 'it is ' || known.status;
        next_step := case when known.finished_at is null then 'It goes on by itself; see how it is with: '
            else 'See how it ended with: ' end || look;
    end if;
    if reason is not null or verb in ('pause', 'unpause', 'cancel', 'resume') then
        return;
    end if;
    select array_agg(o.node order by o.place) into names from node_overview o where o.job_id = known.job_id;
    if node is null or node <> all(names) then
        code := 'no_data_found';
        reason := format('it has no node %L', node);
        next_step := format('Its nodes are: %s%s', array_to_string(names[:shown], ', '),
            case when cardinality(names) > shown then format(' and %s more', cardinality(names) - shown) end);
        return;
    end if;
    if verb <> 'clear' then
        return;
    end if;
    select o.type = 'fan_out' or n.batch_size is not null as has_items, n.width into reached
    from node_overview o join nodes n on n.job_id = o.job_id and n.node = o.node
    where o.job_id = known.job_id and o.node = verb_refusal.node
        and (n.expanded_count > 0 or n.status not in ('pending', 'skipped', 'cancelled'));
    select i.item into wrong from unnest(items) as i (item)
    where i.item < 0 or i.item >= reached.width limit 1;
    code := 'invalid_parameter_value';
    if not reached.has_items then
        reason := node || ' has one task and no items';
        next_step := format('If it failed, run it again with: select holdfast.retry_node(%L, %L);', known.job_id,
            node);
    elsif coalesce(cardinality(items), 0) = 0 or array_position(items, null) is not null then
        reason := 'it names no items';
        next_step := format('Name them by number: select holdfast.clear_tasks(%L, %L, array[0, 3]);', known.job_id,
            node);
    elsif wrong is not null then
        reason := format('there is no item %s; %s has %s, numbered from 0', wrong, node,
            case when reached.width = 1 then '1 item' else concat_ws(' ', reached.width, 'items') end);
        next_step := format('See what failed with: select * from holdfast.failed_tasks where job_id = %L;',
            known.job_id);
    end if;
end
$$;
