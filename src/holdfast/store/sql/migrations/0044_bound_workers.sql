-- Workers that reach the installation over HTTP. bound_to: the credential that registered the worker, and that alone may
-- speak for it; null: it is at the database. tenant: whose tasks it gets; null: those of all. claim_id, last_claim_at:
-- its last claim that got tasks, so that the same claim again is answered with the same tasks.
alter table workers
    add column bound_to text,
    add column tenant text,
    add column claim_id text,
    add column last_claim_at timestamptz;

-- What only the processes of the installation know. lease_secret: 32 random bytes in hexadecimal, with
-- which the leases of workers over HTTP are signed.
create table installation_secrets (
    only_one boolean not null default true,
    lease_secret text not null,
    primary key (only_one),
    constraint installation_has_one_row check (only_one)
);
insert into installation_secrets (lease_secret)
values (encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')),
    'hex'));
