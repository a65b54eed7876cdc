-- What is sent to receivers: finding out who gets an event, claiming, and noting how a try has ended.

-- name: expand_outbox
-- Finds the receivers of the oldest events. One process at a time does this, so that the events of a job get their rows
-- in their order: a mail at the end of a job has all that came before.
with turn as materialized (
    select pg_try_advisory_xact_lock(7238901442) as is_mine
),
picked as (
    select o.outbox_id, o.tenant, o.job_id, o.event, o.rules
    from outbox o
    where o.expanded_at is null and (select t.is_mine from turn t)
    order by o.outbox_id limit %(most)s
    for update skip locked
),
expanded as (
    update outbox o set expanded_at = now() from picked p where o.outbox_id = p.outbox_id
),
wanted as (
    select p.outbox_id, 'webhook' as kind, w.name as value
    from picked p join webhooks w on w.tenant = p.tenant
    where w.disabled_at is null and p.event = any(w.events)
    union
    select p.outbox_id, 'hook', h.name from picked p cross join hooks h where p.event = any({{job_ends}})
    union
    select p.outbox_id, coalesce(k.kind, 'rule'),
        coalesce(r.rule ->> k.kind, r.rule ->> 'problem', 'it names no webhook, no callback and no address')
    from picked p
        cross join lateral jsonb_array_elements(coalesce(p.rules, '[]')) as r (rule)
        left join lateral (
            select o.kind from unnest(array['webhook', 'callback', 'email']) as o (kind)
            where jsonb_typeof(r.rule -> o.kind) = 'string' and r.rule ->> 'problem' is null limit 1
        ) k on true
),
receiver as (
    select p.outbox_id, p.tenant, p.job_id, w.kind, w.kind || ':' || w.value as receiver,
        case w.kind when 'webhook' then 'webhook:' || w.value
            when 'callback' then 'callback:' || coalesce(lower(substring(w.value from '^[A-Za-z]+://([^/?#]*)')), '')
            when 'hook' then 'hook:' || w.value
            else w.kind end as destination,
        case w.kind when 'email' then 'gathering' else 'waiting' end as status
    from wanted w join picked p on p.outbox_id = w.outbox_id
),
threads as (
    insert into mail_threads (tenant, thread, receiver)
    select distinct r.tenant, coalesce(r.job_id::text, ''), r.receiver from receiver r where r.kind = 'email'
    on conflict do nothing
)
insert into deliveries (outbox_id, tenant, job_id, kind, receiver, destination, status)
select r.outbox_id, r.tenant, r.job_id, r.kind, r.receiver, r.destination, r.status
from receiver r order by r.outbox_id, r.receiver
on conflict do nothing;

-- name: gather_mails
-- Puts the events that wait for a mail into one: at the first event of a job, at its end, and else when the last mail to
-- the recipient is long enough ago. The row of the latest event stands for the mail.
with ready as (
    select d.tenant, coalesce(d.job_id::text, '') as thread, d.receiver,
        bool_or(o.event = any({{job_ends}})) as has_end
    from deliveries d join outbox o on o.outbox_id = d.outbox_id
    where d.status = 'gathering'
    group by d.tenant, d.job_id, d.receiver
),
thread as (
    select t.tenant, t.thread, t.receiver
    from ready r join mail_threads t on t.tenant = r.tenant and t.thread = r.thread and t.receiver = r.receiver
    where r.has_end or coalesce(t.mailed_at <= now() - make_interval(secs => %(seconds)s::float8), true)
    limit 100
    for update of t skip locked
),
gathered as (
    select d.delivery_id, t.tenant, t.thread, t.receiver,
        first_value(d.delivery_id) over (
            partition by t.tenant, t.thread, t.receiver order by d.outbox_id desc) as head_id
    from thread t join deliveries d on d.status = 'gathering' and d.tenant = t.tenant and d.receiver = t.receiver
        and coalesce(d.job_id::text, '') = t.thread
),
counted as (
    update mail_threads t set mailed_at = now(), first_id = coalesce(t.first_id, g.head_id)
    from (select distinct tenant, thread, receiver, head_id from gathered) g
    where t.tenant = g.tenant and t.thread = g.thread and t.receiver = g.receiver
)
update deliveries d set status = 'waiting', head_id = g.head_id, next_at = now(), due_since = now()
from gathered g where d.delivery_id = g.delivery_id and d.status = 'gathering';

-- name: claim_deliveries
-- Takes deliveries that are due, for as long as one try may last: some of each destination, those that work first, and of
-- one that fails a single one. A later one of a job and a receiver waits for an earlier one: for three tries of that, or
-- for five minutes. What is for a hook is left to the processes that have the hook.
with recursive destination as (
    (select d.tenant, d.destination from deliveries d where d.status = 'waiting'
    order by d.tenant, d.destination limit 1)
    union all
    select n.tenant, n.destination from destination p cross join lateral (
        select d.tenant, d.destination from deliveries d
        where d.status = 'waiting' and (d.tenant, d.destination) > (p.tenant, p.destination)
        order by d.tenant, d.destination limit 1) n
),
room as (
    select g.tenant, g.destination, f.failing_since is not null as is_failing,
        case when f.failing_since is null then %(at_once)s::int else 1 end - (
            select count(*) from deliveries h
            where h.tenant = g.tenant and h.destination = g.destination and h.holder is not null and h.next_at > now()
        ) as free
    from destination g
        left join failing_destinations f on f.tenant = g.tenant and f.destination = g.destination
    where coalesce(f.held_until <= now(), true)
),
candidate as (
    select c.delivery_id
    from room r cross join lateral (
        select d.delivery_id, d.next_at, d.outbox_id
        from deliveries d
        where d.status = 'waiting' and d.tenant = r.tenant and d.destination = r.destination and d.next_at <= now()
            and (case d.kind when 'hook' then d.receiver else d.kind end) = any(%(ways)s::text[])
            and (d.head_id is null or d.head_id = d.delivery_id)
            and not exists (
                select from deliveries e
                where e.status = 'waiting' and e.job_id = d.job_id and e.receiver = d.receiver
                    and e.outbox_id < d.outbox_id and (e.head_id is null or e.head_id = e.delivery_id)
                    and (e.tries < 3 or (e.tries = 3 and e.holder is not null and e.next_at > now()))
                    and d.due_since > now() - interval '5 minutes')
        order by d.next_at, d.outbox_id limit greatest(r.free, 0)
    ) c
    order by r.is_failing, c.next_at, c.outbox_id limit %(most)s
),
mine as (
    select d.delivery_id from deliveries d
    where d.delivery_id in (select c.delivery_id from candidate c) and d.status = 'waiting' and d.next_at <= now()
    for update skip locked
),
d as (
    update deliveries d
    set holder = %(me)s::uuid, tries = d.tries + 1, next_at = now() + make_interval(secs => %(lease)s::float8)
    from mine m where d.delivery_id = m.delivery_id
    returning d.*
)
select d.delivery_id::text as delivery_id, d.tenant, d.job_id::text as job_id, d.kind, d.receiver, d.tries,
    extract(epoch from now() - d.due_since)::float8 as waited_seconds, coalesce(f.failures, 0) as failures, w.url,
    case when d.kind = 'callback' then s.secret else w.secret end as secret,
    case when d.kind = 'callback' then (case when s.former_secret_until > now() then s.former_secret end)
        else (case when w.former_secret_until > now() then w.former_secret end) end as former_secret,
    w.disabled_reason, array_to_json(s.mail_domains)::text as mail_domains, t.first_id::text as first_id
from d
    left join webhooks w on d.kind = 'webhook' and w.tenant = d.tenant and d.receiver = 'webhook:' || w.name
    left join notify_settings s on s.tenant = d.tenant
    left join failing_destinations f on f.tenant = d.tenant and f.destination = d.destination
    left join mail_threads t
        on d.kind = 'email' and t.tenant = d.tenant and t.thread = coalesce(d.job_id::text, '')
        and t.receiver = d.receiver
order by d.outbox_id, d.receiver;

-- name: delivered_events
-- The events of some deliveries, of a mail all of it, in their order.
select coalesce(d.head_id, d.delivery_id)::text as delivery_id, o.event, o.job_id::text as job_id, o.workflow_id, o.node,
    o.generation, o.seq, o.count as times, array_to_json(o.items)::text as items, o.data::text as data, o.created_at
from deliveries d join outbox o on o.outbox_id = d.outbox_id
where d.delivery_id = any(%(deliveries)s::uuid[]) or d.head_id = any(%(deliveries)s::uuid[])
order by o.outbox_id;

-- name: make_callback_secret
-- The secret of a tenant that has none yet; the one that it has if another process was first.
insert into notify_settings as s (tenant, secret) values (%(tenant)s, %(secret)s)
on conflict (tenant) do update set secret = coalesce(s.secret, excluded.secret)
returning s.secret;

-- name: mark_delivery
-- Notes how a try has ended, unless another process has taken the delivery since. A destination that works has no row
-- among those that fail; the answer says since when it has failed.
with marked as (
    update deliveries d
    set status = %(status)s, holder = null, answer = %(answer)s::int, error = %(error)s::text,
        next_at = now() + make_interval(secs => %(pause)s::float8),
        ended_at = case when %(status)s::text <> 'waiting' then now() end
    where d.delivery_id = %(delivery_id)s::uuid and d.holder = %(me)s::uuid and d.tries = %(tries)s::int
        and d.status = 'waiting'
    returning d.*
),
others as (
    update deliveries d
    set status = m.status, answer = m.answer, error = m.error, tries = m.tries, next_at = m.next_at,
        ended_at = m.ended_at
    from marked m where d.head_id = m.delivery_id and d.delivery_id <> m.delivery_id
),
works as (
    delete from failing_destinations f using marked m
    where m.status = 'sent' and f.tenant = m.tenant and f.destination = m.destination
),
fails as (
    insert into failing_destinations as f (tenant, destination, held_until)
    select m.tenant, m.destination, now() + make_interval(secs => %(held)s::float8)
    from marked m where %(held)s::float8 is not null
    on conflict (tenant, destination) do update
    set failures = f.failures + 1, held_until = greatest(f.held_until, excluded.held_until)
    returning f.failing_since
)
select extract(epoch from now() - coalesce((select f.failing_since from fails f), now()))::float8 as failing_seconds
from marked m;

-- name: disable_webhook
-- Sends nothing to a webhook any more until a person enables it. What waits for it is dead, and can be sent again. The
-- other webhooks of its tenant get an event.
with disabled as (
    update webhooks w set disabled_at = now(), disabled_reason = %(reason)s
    where w.tenant = %(tenant)s and w.name = %(name)s and w.disabled_at is null
    returning w.tenant, w.name
),
dead as (
    update deliveries d set status = 'dead', ended_at = now(), error = 'the webhook was disabled: ' || %(reason)s::text
    from disabled w
    where d.status = 'waiting' and d.tenant = w.tenant and d.destination = 'webhook:' || w.name and d.holder is null
),
noted as (
    insert into audit ({{audit_names}})
    select w.tenant, {{audit_signature}}, 'webhook.disable', w.name, null, null, %(reason)s from disabled w
),
alerted as (
    insert into outbox (tenant, event, data)
    select w.tenant, 'janitor_alert', jsonb_build_object('duty', 'webhooks', 'webhook', w.name,
        'reason', 'webhook ' || w.name || ' was disabled: ' || %(reason)s::text)
    from disabled w
    where exists (
        select from webhooks k where k.tenant = w.tenant and k.name <> w.name and k.disabled_at is null
            and 'janitor_alert' = any(k.events))
)
select w.name from disabled w;

-- name: end_unsent
-- What no process could send, because none has the library or the mail server for it, ends like everything else.
update deliveries d
set status = 'dead', ended_at = now(), holder = null,
    error = coalesce(d.error, case d.kind
        when 'hook' then 'no process that delivers has the hook ' || substring(d.receiver from 6)
        else 'no process that delivers can send ' || d.kind end)
where d.status = 'waiting' and d.next_at < now() - interval '1 hour'
    and d.due_since < now() - make_interval(secs => %(seconds)s::float8);

-- name: announce_hooks
-- Makes the hooks of this process known; writes at most once an hour, and waits for no other process.
with stale as (
    select h.name from hooks h
    where h.name = any(%(hooks)s::text[]) and h.seen_at < now() - interval '1 hour'
    for update skip locked
),
seen as (
    update hooks h set seen_at = now() from stale s where h.name = s.name
)
insert into hooks (name)
select n.name from unnest(%(hooks)s::text[]) as n (name) where not exists (select from hooks h where h.name = n.name)
on conflict do nothing;

-- name: forget_hooks
-- Forgets hooks that no process has had for so long: their app was removed.
delete from hooks h where h.seen_at < now() - make_interval(secs => %(seconds)s::float8);

-- name: forget_deliveries
-- Deletes what was sent or died long ago, with its events.
with old as (
    select d.delivery_id from deliveries d
    where d.created_at < now() - make_interval(secs => %(seconds)s::float8) and d.status in ('sent', 'dead')
    limit %(most)s for update skip locked
)
delete from deliveries d using old o where d.delivery_id = o.delivery_id;

-- name: forget_events
-- Deletes events that all receivers have, and threads of mails that have ended.
with threads as (
    delete from mail_threads t where t.created_at < now() - make_interval(secs => %(seconds)s::float8)
        and coalesce(t.mailed_at < now() - make_interval(secs => %(seconds)s::float8), true)
        and not exists (select from deliveries d where d.status = 'gathering' and d.tenant = t.tenant
            and d.receiver = t.receiver and coalesce(d.job_id::text, '') = t.thread)
),
old as (
    select o.outbox_id from outbox o
    where o.expanded_at is not null and o.created_at < now() - make_interval(secs => %(seconds)s::float8)
        and not exists (select from deliveries d where d.outbox_id = o.outbox_id)
    limit %(most)s for update skip locked
)
delete from outbox o using old g where o.outbox_id = g.outbox_id;
