-- Who may use the service: API keys, tenants, and browsers that are signed in.

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
-- The key with a prefix. The last use of one that is whole and valid is kept to the minute, so that a busy key is not
-- written all the time and a guess writes nothing.
with used as (
    update api_keys k set last_used_at = date_trunc('minute', clock_timestamp())
    where k.prefix = %(prefix)s and k.secret_hash = %(secret_hash)s and k.revoked_at is null
        and coalesce(k.expires_at > clock_timestamp(), true)
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

-- name: tenant_columns
t.name, t.created_by, t.queues, t.created_at;

-- name: read_tenants
-- The tenants that an administrator has made.
select {{tenant_columns}} from tenants t order by t.name;

-- name: keep_tenant
-- Make a tenant, or bind one to other queues. The last column says whether it is new.
with b as (
    select o.queues from tenants o where o.name = %(name)s
),
t as (
    insert into tenants as t (name, created_by, queues) values (%(name)s, %(actor)s, %(queues)s::text[])
    on conflict (name) do update set queues = excluded.queues
    returning t.*, (t.xmax = 0) as is_new
),
noted as (
    insert into audit ({{audit_names}})
    select t.name, {{audit_signature}}, 'tenant.' || case when t.is_new then 'add' else 'bind' end, t.name,
        (select jsonb_build_object('queues', b.queues) from b), jsonb_build_object('queues', t.queues), null
    from t
)
select {{tenant_columns}}, t.is_new from t;

-- name: bound_queues
-- Those of these tenants that are bound, each with its queues.
select t.name, t.queues from tenants t where t.name = any(%(tenant)s::text[]) and t.queues is not null;

-- name: add_session
-- A browser signs in. Sessions that have ended are deleted here, and nowhere else.
with gone as (
    delete from sessions o where o.token_hash in (
        select e.token_hash from sessions e where e.expires_at <= clock_timestamp() limit 100 for update skip locked)
)
insert into sessions (token_hash, name, tenant, roles, key_prefix, expires_at)
values (%(token_hash)s, %(name)s, %(tenant)s, %(roles)s, %(key_prefix)s,
    least(clock_timestamp() + make_interval(secs => %(seconds)s), %(until)s::timestamptz))
returning expires_at;

-- name: read_session
-- Whom a cookie stands for; the session of a key ends with the key.
select s.token_hash, coalesce(k.name || ' (hf_' || k.prefix || ')', s.name) as name, s.tenant, s.roles, s.key_prefix,
    least(s.expires_at, k.expires_at) as expires_at,
    (s.expires_at <= clock_timestamp() or k.revoked_at is not null or coalesce(k.expires_at <= clock_timestamp(), false)
        or (s.key_prefix is not null and k.prefix is null)) as is_over
from sessions s left join api_keys k on k.prefix = s.key_prefix
where s.token_hash = %(token_hash)s;

-- name: end_session
-- Sign a browser out.
delete from sessions s where s.token_hash = %(token_hash)s returning s.token_hash;

-- name: add_sign_in_code
-- A code with which a browser signs in once, for the holder of a valid key. Codes that have ended go.
with gone as (
    delete from sign_in_codes o where o.code_hash in (
        select e.code_hash from sign_in_codes e where e.expires_at <= clock_timestamp() limit 100
        for update skip locked)
)
insert into sign_in_codes (code_hash, key_prefix, expires_at)
select %(code_hash)s, k.prefix, clock_timestamp() + make_interval(secs => %(seconds)s)
from api_keys k where k.prefix = %(key_prefix)s
returning key_prefix;

-- name: use_sign_in_code
-- The key that a code stands for; of several requests at once, one gets it.
with used as (
    delete from sign_in_codes c where c.code_hash = %(code_hash)s returning c.key_prefix, c.expires_at
)
select {{key_columns}}
from used u join api_keys k on k.prefix = u.key_prefix where u.expires_at > clock_timestamp();

-- name: living_credentials
-- Those of these keys and sessions that are valid now.
select 'key' as kind, k.prefix as credential from api_keys k
where k.prefix = any(%(keys)s::text[]) and k.revoked_at is null and coalesce(k.expires_at > clock_timestamp(), true)
union all
select 'session', s.token_hash from sessions s left join api_keys k on k.prefix = s.key_prefix
where s.token_hash = any(%(sessions)s::text[]) and s.expires_at > clock_timestamp()
    and (s.key_prefix is null or (k.prefix is not null and k.revoked_at is null
        and coalesce(k.expires_at > clock_timestamp(), true)));
