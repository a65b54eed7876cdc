-- Who changed what, when, from where and why: one row for each change that a person or a program has made. Rows of the
-- whole installation have the tenant *. The rows outlive what they are about.
create table audit (
    audit_id bigint not null generated always as identity,
    at timestamptz not null default now(),
    tenant text not null,
    actor text not null,
    key_prefix text,
    address text,
    request_id text,
    action text not null,
    instance text,
    before jsonb,
    after jsonb,
    reason text,
    primary key (audit_id)
);
create index audit_by_tenant on audit (tenant, audit_id desc);
create index audit_by_time on audit using brin (at);
