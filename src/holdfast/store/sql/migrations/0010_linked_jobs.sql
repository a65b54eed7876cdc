-- A job that was made although the same submission had made one before knows which: the one that was the newest then.
alter table jobs add column previous uuid;

-- Few jobs were forced: whether one of an identity was is answered by next to nothing.
create index jobs_of_later_runs on jobs (tenant, identity) where run > 1;
