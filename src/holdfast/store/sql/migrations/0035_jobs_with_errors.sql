-- What asks for a person: jobs that ended with an error. An error is written at the end of a job, so that updates while
-- it runs stay in their page.
create index jobs_that_ended_with_an_error on jobs (tenant, finished_at desc)
    where error is not null and finished_at is not null;
