-- A job that was made although the same submission had made one before knows which: the one that was the newest then.
alter table jobs add column previous uuid;
