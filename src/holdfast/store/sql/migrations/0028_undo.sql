-- While the effects of a task are taken back, undo says when it had completed; if that failed, undo has the error.
alter table tasks add column undo jsonb;

-- How far a node has been undone, and how it had ended before.
alter table nodes add column undo jsonb;

-- The undoing of a job: who wanted it, and which nodes it concerns.
alter table jobs add column undo jsonb;
