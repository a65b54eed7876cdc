-- The defaults that people have set for the workflows of a tenant: what holds where a workflow says nothing. A submission
-- fills them into the definition that its job pins. A process of an older version fills in the built-in values.
create table defaults (
    tenant text not null,
    name text not null,
    value jsonb,
    actor text not null,
    reason text not null default '',
    set_at timestamptz not null default now(),
    primary key (tenant, name)
);

-- How often a task was queued again because it had vanished from the queue. A process of an older version does not count.
alter table tasks add column requeue_count smallint not null default 0;
