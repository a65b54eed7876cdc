-- How many live orchestrators could own a job.
create function orchestrators_for(job uuid) returns bigint language sql stable as $$
    select count(*) from orchestrators o
    where o.ended_at is null and o.lease_until > now() and (o.only_job is null or o.only_job = job)
$$;
