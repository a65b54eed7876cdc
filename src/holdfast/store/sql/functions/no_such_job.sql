-- Refuses a job that is not there.
create function no_such_job(job uuid) returns void language plpgsql as $$
begin
    raise exception 'There is no job %.', coalesce(job::text, 'without an id') using errcode = 'no_data_found',
        hint = 'List the newest jobs with: select * from holdfast.job_overview order by job_id desc limit 20;';
end
$$;
