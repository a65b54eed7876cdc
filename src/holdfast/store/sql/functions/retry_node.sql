-- Runs a failed node again, with what follows it and what its failure stopped; with only_this, just the node.
create function retry_node(
    job uuid, node text, reason text default '', actor text default '', only_this boolean default false
)
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'retry', reason, actor, node, only_this => only_this);
end
$$;
comment on function retry_node is 'Run a failed node again, and what follows it.';
