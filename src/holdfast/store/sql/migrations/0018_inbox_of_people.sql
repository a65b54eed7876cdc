-- What people and the janitor ask, by job: an orchestrator that claims a job reads it first.
create index inbox_of_people on inbox (job_id)
    where kind in ('cancel', 'pause', 'unpause', 'recover', 'recheck');
