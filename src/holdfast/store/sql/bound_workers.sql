-- The statements of workers that reach the installation over HTTP, beside those of every worker in work.sql.

-- name: lease_secret
select s.lease_secret from installation_secrets s;

-- name: register_bound_worker
-- The same registration again is the same worker, for as long as that lives. Zero rows: its lease has ended.
insert into workers (worker_id, name, version, queues, handlers, concurrency, lease_until, bound_to, tenant)
overriding system value
values (%(id)s, %(name)s, %(version)s, %(queues)s::text[], %(handlers)s::text[], %(concurrency)s,
    now() + make_interval(secs => %(lease)s), %(bound_to)s, %(tenant)s)
on conflict (worker_id) do update
set lease_until = now() + make_interval(secs => %(lease)s), renewed_at = now()
where workers.bound_to = excluded.bound_to and workers.ended_at is null and workers.lease_until > now();

-- name: bound_worker
-- A worker as it registered itself over HTTP.
select w.worker_id, w.name, w.bound_to, w.tenant, w.queues, w.handlers,
    extract(epoch from w.lease_until - w.renewed_at)::float8 as lease_seconds
from workers w where w.worker_id = %(me)s and w.bound_to is not null;

-- name: begin_claim
-- Keeps two claims of one worker apart until the commit. Zero rows: another one is under way, or the worker is gone.
select w.claim_id, w.ended_at is null and w.lease_until > now() as is_live,
    (extract(epoch from now()) * 1000000)::bigint as claimed_at,
    (extract(epoch from w.last_claim_at) * 1000000)::bigint as last_claim_at
from workers w where w.worker_id = %(me)s for no key update skip locked;

-- name: claim_once
-- A claim that leases nothing if its id is that of the worker's last claim, and otherwise becomes that one. Nor does it
-- while another claim of the worker is under way, in whatever process. It looks itself: that one may end at any moment.
with me as materialized (
    select w.worker_id from workers w
    where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now()
        and w.claim_id is distinct from %(claim_id)s
    for no key update skip locked
),
{{claim_steps}},
noted as (
    update workers w set claim_id = %(claim_id)s, last_claim_at = now()
    where w.worker_id = %(me)s and exists (select 1 from claimed)
)
{{claimed_tasks}};

-- name: claimed_before
-- What a worker still holds of its last claim. Leases carry the time of their claim.
with claimed as (
    select q.job_id, q.node, q.item, q.epoch, q.attempt, l.handler, q.timeout_seconds, q.suspect, q.priority, q.rank,
        q.id, q.owner
    from workers w
    join queue q on q.state || '' = 'leased' and q.holder = w.worker_id and q.claimed_at = w.last_claim_at
    join lanes l on l.lane_id = q.lane_id
    where w.worker_id = %(me)s and w.claim_id = %(claim_id)s
)
{{claimed_tasks}};
