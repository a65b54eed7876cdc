-- API keys of the service. secret_hash: SHA-256 of the whole key, which is stored nowhere. tenant *: the installation.
create table api_keys (
    prefix text not null,
    secret_hash text not null,
    name text not null,
    tenant text not null,
    roles text[] not null,
    created_at timestamptz not null default now(),
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    last_used_at timestamptz,
    primary key (prefix),
    constraint keys_have_a_role check (cardinality(roles) > 0)
);
create index api_keys_by_tenant on api_keys (tenant, created_at desc);
