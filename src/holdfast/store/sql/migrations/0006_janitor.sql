-- The janitor: who leads, what it did and why, and the signal by which it makes an owner look again.
create table leaders (
    role text primary key,
    holder text not null,
    since timestamptz not null default now(),
    lease_until timestamptz not null
);

create table janitor_actions (
    action_id bigint generated always as identity primary key,
    run uuid not null,
    duty text not null,
    action text not null,
    job_id uuid,
    node text,
    item int,
    reason text not null,
    before jsonb,
    after jsonb,
    at timestamptz not null default now(),
    constraint janitor_action_is_known check (action in ('recheck', 'expire', 'delete', 'alert'))
);
create index janitor_actions_by_time on janitor_actions (at);

alter table inbox
    drop constraint signal_kind_is_known,
    add constraint signal_kind_is_known check (kind in ('submitted', 'report', 'rejected', 'cancel', 'recheck'));

-- Attempts are written in the order of time: which of them are recent is told by a few pages.
create index attempts_by_time on attempts using brin (finished_at);
