-- The place in a trace from which a job was submitted, as W3C writes it. Null: none.

alter table jobs add column traceparent text;
