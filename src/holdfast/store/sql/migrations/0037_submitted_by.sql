-- Who submitted a job, as histories name them: that person or program may cancel it.
alter table jobs add column submitted_by text;
