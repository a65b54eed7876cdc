-- How many items of a fan-out failed for good, by fingerprint, while none has completed.
alter table nodes add column spent jsonb;
