-- Since when a job's owner has it: people ask, and its events are too many to look for the answer there.
alter table jobs add column owned_since timestamptz;
