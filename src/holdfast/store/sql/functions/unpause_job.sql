-- Lets a paused job continue.
create function unpause_job(job uuid, reason text default '', actor text default '')
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'unpause', reason, actor);
end
$$;
comment on function unpause_job is 'Let a paused job continue.';
