-- A list of the jobs of a tenant walks over them from the newest on, and passes none of other tenants. Both columns never
-- change, so that updates of a job stay in their page.
create index jobs_by_tenant on jobs (tenant, job_id);
