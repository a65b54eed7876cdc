-- Stops a job; what it has finished is kept.
create function cancel_job(job uuid, reason text default '', actor text default '')
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'cancel', reason, actor);
end
$$;
comment on function cancel_job is 'Stop a job; what it has finished is kept.';
