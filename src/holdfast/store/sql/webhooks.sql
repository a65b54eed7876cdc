-- What people do with what is sent: webhooks, the deliveries, and sending again.

-- name: webhook_columns
w.name, w.url, w.events, w.created_at, w.created_by, w.disabled_at, w.disabled_reason,
    (case when w.former_secret_until > now() then w.former_secret_until end) as former_secret_until,
    (select f.failing_since from failing_destinations f
    where f.tenant = w.tenant and f.destination = 'webhook:' || w.name) as failing_since;

-- name: read_webhooks
-- The webhooks of a tenant, or the one with a name.
select {{webhook_columns}}
from webhooks w where w.tenant = %(tenant)s and coalesce(w.name = %(name)s, true)
order by w.name;

-- name: keep_webhook
-- A new webhook with a secret of its own; or another address and other events of one that is there. Another address has
-- not failed yet. The last column says whether the webhook is new.
with b as (
    select o.url, o.events from webhooks o where o.tenant = %(tenant)s and o.name = %(name)s
),
w as (
    insert into webhooks as w (tenant, name, url, events, secret, created_by)
    values (%(tenant)s, %(name)s, %(url)s, %(events)s::text[], %(secret)s, %(actor)s)
    on conflict (tenant, name) do update set url = excluded.url, events = excluded.events
    returning w.*, (w.xmax = 0) as is_new
),
healed as (
    delete from failing_destinations f using w, b
    where b.url <> w.url and f.tenant = w.tenant and f.destination = 'webhook:' || w.name
),
noted as (
    insert into audit ({{audit_names}})
    select w.tenant, {{audit_signature}}, 'webhook.' || case when w.is_new then 'add' else 'change' end, w.name,
        (select jsonb_build_object('url', split_part(b.url, '?', 1), 'events', b.events) from b),
        jsonb_build_object('url', split_part(w.url, '?', 1), 'events', w.events), null
    from w
)
select {{webhook_columns}}, w.is_new from w;

-- name: drop_webhook
-- Removes a webhook. What waits for it is dead.
with w as (
    delete from webhooks w where w.tenant = %(tenant)s and w.name = %(name)s returning w.*
),
healed as (
    delete from failing_destinations f using w where f.tenant = w.tenant and f.destination = 'webhook:' || w.name
),
dead as (
    update deliveries d
    set status = 'dead', ended_at = now(), holder = null, error = 'the webhook was removed'
    from w where d.status = 'waiting' and d.tenant = w.tenant and d.destination = 'webhook:' || w.name
),
noted as (
    insert into audit ({{audit_names}})
    select w.tenant, {{audit_signature}}, 'webhook.remove', w.name,
        jsonb_build_object('url', split_part(w.url, '?', 1), 'events', w.events), null, null
    from w
)
select {{webhook_columns}} from w;

-- name: enable_webhook
-- Sends to a disabled webhook again; nothing if it is not disabled.
with w as (
    update webhooks w set disabled_at = null, disabled_reason = null
    where w.tenant = %(tenant)s and w.name = %(name)s and w.disabled_at is not null
    returning w.*
),
healed as (
    delete from failing_destinations f using w where f.tenant = w.tenant and f.destination = 'webhook:' || w.name
),
noted as (
    insert into audit ({{audit_names}})
    select w.tenant, {{audit_signature}}, 'webhook.enable', w.name, null, null, null from w
)
select {{webhook_columns}} from w;

-- name: rotate_webhook
-- Another secret for a webhook. The former one signs too for a while.
with w as (
    update webhooks w
    set former_secret = w.secret, secret = %(secret)s,
        former_secret_until = now() + make_interval(secs => %(seconds)s::float8)
    where w.tenant = %(tenant)s and w.name = %(name)s
    returning w.*
),
noted as (
    insert into audit ({{audit_names}})
    select w.tenant, {{audit_signature}}, 'webhook.rotate', w.name, null,
        jsonb_build_object('former_secret_until', w.former_secret_until), null from w
)
select {{webhook_columns}} from w;

-- name: rotate_callback_secret
-- Another secret for the callbacks of a tenant. The former one signs too for a while.
with s as (
    insert into notify_settings as s (tenant, secret) values (%(tenant)s, %(secret)s)
    on conflict (tenant) do update
    set former_secret = s.secret, secret = excluded.secret,
        former_secret_until = now() + make_interval(secs => %(seconds)s::float8)
    returning s.tenant, (case when s.former_secret is not null then s.former_secret_until end) as former_secret_until
),
noted as (
    insert into audit ({{audit_names}})
    select s.tenant, {{audit_signature}}, 'callbacks.rotate', null, null,
        jsonb_build_object('former_secret_until', s.former_secret_until), null from s
)
select s.former_secret_until from s;

-- name: read_mail_domains
select s.mail_domains from notify_settings s where s.tenant = %(tenant)s;

-- name: keep_mail_domains
-- The domains to which a tenant may send mails, instead of those from before.
with b as (
    select o.mail_domains from notify_settings o where o.tenant = %(tenant)s
),
s as (
    insert into notify_settings as s (tenant, mail_domains) values (%(tenant)s, %(domains)s::text[])
    on conflict (tenant) do update set mail_domains = excluded.mail_domains
    returning s.tenant, s.mail_domains
),
noted as (
    insert into audit ({{audit_names}})
    select s.tenant, {{audit_signature}}, 'mail_domains.set', null,
        (select jsonb_build_object('domains', b.mail_domains) from b),
        jsonb_build_object('domains', s.mail_domains), null
    from s
)
select s.mail_domains from s;

-- name: delivery_columns
d.delivery_id::text as delivery_id, d.number, d.kind, d.receiver, d.status, d.tries, d.created_at, o.event,
    d.job_id::text as job_id, o.workflow_id, o.node, o.seq, d.head_id::text as head_id,
    (case when d.status = 'waiting' then d.next_at end) as next_at, d.ended_at, d.answer, d.error as problem;

-- name: read_deliveries
-- One page of the deliveries of a tenant, newest first.
select {{delivery_columns}}
from deliveries d left join outbox o on o.outbox_id = d.outbox_id
where d.tenant = %(tenant)s and d.number < %(before)s and coalesce(d.status = %(status)s, true)
    and coalesce(d.job_id = %(job_id)s::uuid, %(job_id)s::uuid is null) and coalesce(d.receiver = %(receiver)s, true)
order by d.number desc limit %(limit)s;

-- name: read_delivery
select {{delivery_columns}}
from deliveries d left join outbox o on o.outbox_id = d.outbox_id
where d.tenant = %(tenant)s and d.delivery_id = %(delivery_id)s::uuid;

-- name: find_delivery
-- The deliveries whose id ends so: more than one if that is not enough.
select d.delivery_id::text as delivery_id
from deliveries d where d.tenant = %(tenant)s and right(d.delivery_id::text, length(%(ending)s)) = %(ending)s limit 2;

-- name: redrive_delivery
-- Sends a dead delivery again, a mail with all its events; nothing if it is not dead.
with d as (
    update deliveries d
    set status = 'waiting', tries = 0, next_at = now(), due_since = now(), ended_at = null, answer = null, error = null,
        holder = null
    from deliveries p
    where p.tenant = %(tenant)s and p.delivery_id = %(delivery_id)s::uuid and d.tenant = p.tenant and d.status = 'dead'
        and (d.delivery_id = p.delivery_id or d.head_id = p.head_id)
    returning d.*
),
noted as (
    insert into audit ({{audit_names}})
    select d.tenant, {{audit_signature}}, 'delivery.redrive', d.delivery_id::text, null,
        jsonb_build_object('receiver', split_part(d.receiver, '?', 1)), null
    from d where d.delivery_id = %(delivery_id)s::uuid
)
select {{delivery_columns}}
from d left join outbox o on o.outbox_id = d.outbox_id where d.delivery_id = %(delivery_id)s::uuid;

-- name: send_test
-- An event for one receiver alone, who sees whether it arrives.
with o as (
    insert into outbox (tenant, event, data, expanded_at) values (%(tenant)s, 'test', %(data)s::jsonb, now())
    returning *
),
n as (
    select gen_random_uuid() as id
),
d as (
    insert into deliveries (delivery_id, outbox_id, tenant, kind, receiver, destination, status, head_id)
    select n.id, o.outbox_id, o.tenant, %(kind)s, %(receiver)s, %(destination)s, 'waiting',
        case when %(kind)s::text = 'email' then n.id end
    from o cross join n
    returning *
),
noted as (
    insert into audit ({{audit_names}})
    select d.tenant, {{audit_signature}}, 'delivery.test', d.delivery_id::text, null,
        jsonb_build_object('receiver', d.receiver), null
    from d
)
select {{delivery_columns}} from d join o on o.outbox_id = d.outbox_id;
