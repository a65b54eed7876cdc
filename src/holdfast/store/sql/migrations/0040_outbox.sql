-- What somebody is to be told of. The owner of a job writes a row in the commit that writes the events; nothing is
-- written where nobody wants to know. Whoever delivers finds out later who gets it.

create table holdfast.outbox (
    outbox_id bigint not null generated always as identity,
    tenant text not null,
    job_id uuid,
    workflow_id text,
    node text collate "C",
    event text not null,
    generation int,
    seq int,
    count int not null default 1,
    items int[] not null default '{}',
    data jsonb not null default '{}',
    rules jsonb not null default '[]',
    created_at timestamptz not null default now(),
    expanded_at timestamptz,
    primary key (outbox_id)
);
create index outbox_to_expand on holdfast.outbox (outbox_id) where expanded_at is null;
create index outbox_by_time on holdfast.outbox using brin (created_at);

alter table holdfast.jobs add column notify jsonb;
