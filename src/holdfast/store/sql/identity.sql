-- Who may use the service: API keys.

-- name: key_columns
k.prefix, k.secret_hash, k.name, k.tenant, k.roles, k.created_by, k.expires_at, k.created_at, k.revoked_at, k.revoked_by,
    k.last_used_at, (k.revoked_at is not null or coalesce(k.expires_at <= clock_timestamp(), false)) as is_over;

-- name: add_key
-- A new key. Only the hash of it is stored.
with k as (
    insert into api_keys (prefix, secret_hash, name, tenant, roles, created_by, expires_at)
    values (%(prefix)s, %(secret_hash)s, %(name)s, %(tenant)s, %(roles)s, %(actor)s, %(expires_at)s)
    returning *
),
noted as (
    insert into audit ({{audit_names}})
    select k.tenant, {{audit_signature}}, 'key.add', 'hf_' || k.prefix, null,
        jsonb_build_object('name', k.name, 'roles', k.roles, 'expires_at', k.expires_at), null
    from k
)
select {{key_columns}} from k;

-- name: read_keys
-- The keys of a tenant, or of all, newest first.
select {{key_columns}}
from api_keys k where %(tenant)s::text is null or k.tenant = %(tenant)s
order by k.created_at desc, k.prefix;

-- name: use_key
-- The key with a prefix. Its last use is kept to the minute, so that a busy key is not written all the time.
with used as (
    update api_keys k set last_used_at = date_trunc('minute', clock_timestamp())
    where k.prefix = %(prefix)s and k.revoked_at is null
        and coalesce(k.last_used_at < date_trunc('minute', clock_timestamp()), true)
)
select {{key_columns}}
from api_keys k where k.prefix = %(prefix)s;

-- name: revoke_key
-- End a key now.
with k as (
    update api_keys k set revoked_at = clock_timestamp(), revoked_by = %(actor)s
    where k.prefix = %(prefix)s
    returning k.*
),
noted as (
    insert into audit ({{audit_names}})
    select k.tenant, {{audit_signature}}, 'key.revoke', 'hf_' || k.prefix,
        jsonb_build_object('name', k.name, 'roles', k.roles), null, null
    from k
)
select {{key_columns}} from k;
