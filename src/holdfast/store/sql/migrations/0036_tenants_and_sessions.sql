-- Tenants that an administrator has made. A tenant needs no row: it exists by its jobs, too. queues: those that its
-- workflows may name; null: any.
create table tenants (
    name text not null,
    created_at timestamptz not null default now(),
    created_by text not null,
    queues text[],
    primary key (name),
    constraint tenants_have_a_name check (name not in ('', '*')),
    constraint bound_tenants_have_a_queue check (cardinality(queues) > 0)
);

-- Browsers that are signed in. token_hash: SHA-256 of the cookie, which is stored nowhere. A session of a key ends with
-- the key.
create table sessions (
    token_hash text not null,
    name text not null,
    tenant text not null,
    roles text[] not null,
    key_prefix text,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    primary key (token_hash),
    constraint sessions_have_a_role check (cardinality(roles) > 0)
);
create index sessions_by_end on sessions (expires_at);

-- Codes with which a browser signs in once, for the holder of a key. A used one is gone.
create table sign_in_codes (
    code_hash text not null,
    key_prefix text not null,
    expires_at timestamptz not null,
    primary key (code_hash)
);
