-- Requests of people with a key, their signals, and the answers to signals.

-- name: take_request
-- Takes a key for a request, unless an earlier request to the job has it. If that one is being sent, this waits until it
-- is. The job cannot be pruned meanwhile.
insert into requests (job_id, key, digest, verb, tasks)
select j.job_id, %(key)s, %(digest)s, %(verb)s, %(tasks)s::int
from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant)
for key share
on conflict (job_id, key) do nothing;

-- name: send_request
-- The signal of a request, if this transaction has taken its key.
with sent as (
    insert into inbox (owner, job_id, kind, actor, reason, data)
    select coalesce(j.owner, 0), j.job_id, %(kind)s, %(actor)s, %(reason)s, %(data)s::jsonb
    from requests r join jobs j on j.job_id = r.job_id
    where r.job_id = %(job)s and r.key = %(key)s and r.signal_id is null
    returning id, owner, job_id
),
noted as (
    insert into audit ({{audit_names}})
    select {{audit_of_signal}} from sent s join jobs j on j.job_id = any(array[s.job_id])
)
update requests r set signal_id = s.id from sent s
where r.job_id = %(job)s and r.key = %(key)s
returning s.owner;

-- name: read_request
-- The request to a job that has a key.
select r.digest, r.verb, r.tasks, r.signal_id from requests r
where r.job_id = %(job)s and r.key = %(key)s
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant));

-- name: read_signal
-- A person's signal to a job: the answer of its owner, or that it waits for one.
select a.signal_id, a.applied, a.reason, a.remedy, a.answered_at, null::timestamptz as sent_at
from answers a
where a.signal_id = %(signal_id)s and a.job_id = %(job)s
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant))
union all
select i.id, null, null, null, null, i.sent_at
from inbox i
where i.id = %(signal_id)s and i.job_id = %(job)s and i.kind in ('cancel', 'pause', 'unpause', 'recover')
    and exists (select 1 from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant));

-- name: read_submitter
-- Who submitted a job, if it came with an identity.
select j.submitter from jobs j where j.job_id = %(job)s and j.tenant = coalesce(%(tenant)s, j.tenant);
