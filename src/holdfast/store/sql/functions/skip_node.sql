-- Continues a job without a node; it ends partial. Of a fan-out, what has completed stays.
create function skip_node(job uuid, node text, reason text default '', actor text default '')
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'skip', reason, actor, node);
end
$$;
comment on function skip_node is 'Continue a job without a node; it ends partial.';
