-- People look at the generations of a job: the few events that begin and end them, among all events of a wide job. No
-- other event costs anything.
create index events_of_generations on events (job_id, seq)
    where event in ('job_recovered', 'job_completed', 'job_partial', 'job_failed', 'job_cancelled');

-- People ask for a file by its name.
create index artifacts_by_name on artifacts (job_id, name, node, item);
