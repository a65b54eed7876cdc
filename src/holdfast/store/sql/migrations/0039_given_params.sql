-- Few tasks have params that a person gave: a status counts them without reading the others.
create index tasks_with_given_params on tasks (job_id, node) where params_given and gone is null;
