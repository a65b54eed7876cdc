-- The files of a worker's handlers that have changed on disk since the worker imported them: it runs older code.
alter table workers add column changed_files text[] not null default '{}';
