-- A cancel that has ended nothing yet is answered when the job is over: this is the signal that waits for it.
alter table jobs add column stop_signal bigint;

-- An orchestrator that drives one job and takes no other.
alter table orchestrators add column only_job uuid;
