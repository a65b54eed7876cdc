-- The defaults of an installation, by tenant.

-- name: known_defaults
-- What submissions of these tenants fill in. The mark is the one that submit_jobs compares.
select d.tenant, md5(string_agg(d.name || d.value::text, ',' order by d.name)) as mark,
    jsonb_object_agg(d.name, d.value)::text as values
from defaults d where d.tenant = any(%(tenant)s::text[]) and d.value is not null
group by d.tenant;

-- name: read_defaults
-- What people have set or reset.
select d.name, d.value::text as value, d.actor, d.reason, d.set_at from defaults d where d.tenant = %(tenant)s;

-- name: take_defaults_turn
-- Changes of a tenant's defaults run one after the other: the values are checked together.
select pg_advisory_xact_lock(hashtextextended('holdfast defaults ' || %(tenant)s, 0));

-- name: write_defaults
insert into defaults (tenant, name, value, actor, reason, set_at)
select %(tenant)s, w.name, w.value, %(actor)s, %(reason)s, clock_timestamp()
from unnest(%(name)s::text[], %(value)s::jsonb[]) as w (name, value)
on conflict (tenant, name) do update
set value = excluded.value, actor = excluded.actor, reason = excluded.reason, set_at = excluded.set_at;
