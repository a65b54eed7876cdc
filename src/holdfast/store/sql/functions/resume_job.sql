-- Continues a failed, partial or cancelled job; what completed stays. With tolerated, what failed within the tolerance
-- of a completed node runs again, too.
create function resume_job(job uuid, reason text default '', actor text default '', tolerated boolean default false)
returns bigint language plpgsql security definer set search_path = holdfast, pg_temp as $$
begin
    return send_verb(job, 'resume', reason, actor, tolerated => tolerated);
end
$$;
comment on function resume_job is 'Continue a failed, partial or cancelled job; what completed stays.';
