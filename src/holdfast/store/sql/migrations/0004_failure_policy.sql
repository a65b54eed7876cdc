-- How many items of a fan-out failed for good, by fingerprint, while none has completed.
alter table nodes add column spent jsonb;

-- Dependencies that may be down. settings are those of the workflow that declared it last; calls is the window of the
-- latest calls, [told at, failed]. held: a person opened it, and only a person closes it.
create table breakers (
    name text primary key,
    state text not null default 'closed',
    settings jsonb not null,
    calls jsonb not null default '[]',
    successes int not null default 0,
    probes int not null default 1,
    changed_at timestamptz not null default now(),
    until timestamptz,
    held boolean not null default false,
    reason text,
    actor text,
    probing_until timestamptz,
    constraint breaker_state_is_known check (state in ('closed', 'open', 'half_open')),
    constraint only_an_open_breaker_is_held check (not held or state = 'open')
) with (fillfactor = 50);

create table breaker_changes (
    id bigint generated always as identity primary key,
    name text not null,
    state text not null,
    reason text,
    actor text,
    changed_at timestamptz not null default now()
);
create index breaker_changes_by_name on breaker_changes (name, id desc);

-- How many tasks may run at once (concurrency), begin in a time (rate a second, tokens in a bucket of size burst), and
-- how many jobs may be open (backlog). A lane is subject to the limits that its limit_key names, one a line, and to
-- those of its queue (tenant '', name queue:NAME) and its tenant (name tenant).
create table limits (
    tenant text not null,
    name text not null,
    concurrency int,
    rate float8,
    burst int,
    tokens float8 not null default 0,
    refilled_at timestamptz not null default '-infinity',
    backlog int,
    changed_at timestamptz not null default now(),
    actor text,
    primary key (tenant, name),
    constraint limits_are_above_zero check (concurrency > 0 and rate > 0 and burst > 0 and backlog > 0),
    constraint a_rate_has_a_burst check ((rate is null) = (burst is null))
) with (fillfactor = 50);

-- Slots are leases: what runs in a lane is counted, not remembered. Spelt so that no other statement is planned with
-- this index: those that look up single leases would walk through all of them.
create index queue_by_lane_of_lease on queue (lane_id) where state || '' = 'leased';

{{function gates_of}}

{{function pick_gated}}
