-- Runs some items of a node again, whatever their status, and what depends on them; with only_this, just the items.
create function clear_tasks(
    job uuid, node text, items int[], reason text default '', actor text default '', only_this boolean default false
)
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'clear', reason, actor, node, items, only_this);
end
$$;
comment on function clear_tasks is 'Run some items of a node again, and what depends on them; also while the job runs.';
