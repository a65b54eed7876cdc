-- What holds a job back, as its events have told it: by what, its name, since when and until when.
alter table jobs add column holds jsonb not null default '[]';
