-- Starts no more tasks of a job; running ones may end.
create function pause_job(job uuid, reason text default '', actor text default '')
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'pause', reason, actor);
end
$$;
comment on function pause_job is 'Start no more tasks of a job; running ones may end.';
