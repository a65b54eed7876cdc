-- Who changed what. A change and its line commit together wherever the change is a statement of ours.

-- name: audit_names
-- The columns of a line, in the order of the values that the statements below and in other files give.
tenant, actor, key_prefix, address, request_id, action, instance, before, after, reason;

-- name: audit_signature
-- Who, and from where.
%(actor)s::text, %(key_prefix)s::text, %(address)s::text, %(request_id)s::text;

-- name: write_audit
insert into audit ({{audit_names}})
values (%(tenant)s, {{audit_signature}}, %(action)s, %(instance)s, %(before)s::jsonb, %(after)s::jsonb,
    nullif(%(reason)s::text, ''))
returning audit_id;

-- name: extend_audit
-- The outcome so far of a change that takes many transactions.
update audit a set after = a.after || %(after)s::jsonb where a.audit_id = %(audit_id)s;

-- name: read_audit
-- A page of the lines of a tenant, newest first: an index has them in this order.
select {{audit_line}}
where a.tenant = %(tenant)s and a.audit_id < %(before)s and {{audit_fits}}
order by a.audit_id desc limit %(limit)s;

-- name: read_audit_of_all
-- The same for all tenants.
select {{audit_line}}
where a.audit_id < %(before)s and {{audit_fits}}
order by a.audit_id desc limit %(limit)s;

-- name: audit_line
-- A line, as people see it.
a.audit_id, a.at, a.tenant, a.actor, a.key_prefix, a.address, a.request_id, a.action, a.instance,
    a.before::text as before, a.after::text as after, a.reason
from audit a;

-- name: audit_fits
-- Whether a line `a` fits the filters of a list.
(%(since)s::timestamptz is null or a.at >= %(since)s)
    and (%(actor)s::text is null or a.actor = %(actor)s or a.key_prefix = %(actor)s)
    and (%(action)s::text is null or a.action = %(action)s or starts_with(a.action, %(action)s || '.'))
    and (%(instance)s::text is null or a.instance = %(instance)s);
