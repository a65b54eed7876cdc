-- The statements of workers: register, renew, claim, report, save checkpoints. The lease fences every write.

-- name: register_worker
-- The id is random: a sequence goes back with a restored database, and could give one id to two processes.
insert into workers (worker_id, name, version, queues, handlers, concurrency, lease_until) overriding system value
values (%(id)s, %(name)s, %(version)s, %(queues)s::text[], %(handlers)s::text[], %(concurrency)s,
    now() + make_interval(secs => %(lease)s));

-- name: renew_worker
-- Zero rows: the worker was declared dead and holds no leases any more. Without `changed`, the changed files stay.
update workers
set lease_until = now() + make_interval(secs => %(lease)s), renewed_at = now(),
    changed_files = coalesce(%(changed)s::text[], changed_files)
where worker_id = %(me)s and ended_at is null and lease_until > now();

-- name: still_held
-- Which of these leases this worker still holds.
select h.job_id::text as job_id, h.node, h.item, h.epoch
from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[]) as h (job_id, node, item, epoch)
join queue q on q.job_id = any(array[h.job_id]) and q.node = h.node and q.item = h.item and q.epoch = h.epoch
where q.state = 'leased' and q.holder = %(me)s;

-- name: cancelled_among
-- Which of these leases belong to jobs that a person has cancelled.
select h.job_id::text as job_id, h.node, h.item, h.epoch
from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[]) as h (job_id, node, item, epoch)
join jobs j on j.job_id = any(array[h.job_id])
where j.stop_cause = 'cancelled';

-- name: save_progress
-- Rows that another session has locked are skipped: no heartbeat waits for them.
with free as materialized (
    select q.job_id, q.node, q.item, p.progress
    from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[], %(progress)s::jsonb[])
        as p (job_id, node, item, epoch, progress)
    join queue q on q.job_id = any(array[p.job_id]) and q.node = p.node and q.item = p.item and q.epoch = p.epoch
    where q.holder = %(me)s
    for update of q skip locked
)
update queue q set progress = f.progress
from free f where q.job_id = any(array[f.job_id]) and q.node = f.node and q.item = f.item;

-- name: end_worker
update workers set ended_at = now(), lease_until = now() where worker_id = %(me)s and ended_at is null;

-- name: claim
-- Picks lanes first, then tasks in them by priority, rank and age. Rows below a lane's floor are dead. Lanes behind a
-- breaker or a limit are read separately, and only for tasks that can begin at once. A handover does not read them,
-- because it would keep the gates locked until its commit.
with me as (
    select w.worker_id from workers w
    where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now()
),
{{claim_steps}}
{{claimed_tasks}};

-- name: claim_steps
-- The steps of a claim of the worker `me`, if it may claim now, up to the leased tasks.
served_lane as materialized (
    select l.lane_id, l.handler, case when %(everything)s then 0 else l.floor end as floor,
        l.breaker <> '' or l.limit_key <> '' or exists (
            select 1 from limits m where m.tenant = '' and m.name = 'queue:' || l.queue
        ) or exists (
            select 1 from limits m where m.tenant = l.tenant and m.name = 'tenant'
        ) as is_gated
    from lanes l
    where l.handler = any(%(handlers)s::text[]) and (%(queues)s::text[] is null or l.queue = any(%(queues)s::text[]))
        and (%(tenant)s::text is null or l.tenant = %(tenant)s)
        and exists (select 1 from me)
),
candidate as materialized (
    select c.job_id, c.node, c.item, l.handler, c.priority, c.rank, c.id
    from served_lane l
    cross join lateral (
        select q.job_id, q.node, q.item, q.priority, q.rank, q.id
        from queue q
        where q.lane_id = l.lane_id and q.state = 'ready' and q.id >= l.floor
        order by q.priority desc, q.rank, q.id
        limit %(limit)s
        for update skip locked
    ) c
    where not l.is_gated
    union all
    select p.job_id, p.node, p.item, p.handler, p.priority, p.rank, p.id
    from (
        select array_agg(l.lane_id) as lanes from served_lane l
        where l.is_gated and %(gated)s and %(slots)s > 0 having count(*) > 0
    ) g
    cross join lateral pick_gated(g.lanes, %(slots)s::int, %(everything)s) p
    order by priority desc, rank, id
    limit %(limit)s
),
claimed as (
    update queue q
    set state = 'leased', holder = %(me)s, claimed_at = now(),
        deadline_at = now() + make_interval(secs => q.timeout_seconds + %(slack)s), progress = null
    from candidate c
    where q.job_id = any(array[c.job_id]) and q.node = c.node and q.item = c.item
    returning q.job_id, q.node, q.item, q.epoch, q.attempt, c.handler, q.timeout_seconds, q.suspect, c.priority, c.rank,
        c.id, q.owner
);

-- name: claimed_tasks
-- What a worker needs of the tasks in `claimed`.
select c.job_id::text as job_id, c.node, c.item, c.epoch, c.attempt, c.handler, c.timeout_seconds, c.suspect,
    case when t.undo is null then t.params else jsonb_build_object('params', t.params, 'output', t.output) end::text
        as params, p.resume_point::text as resume_point, coalesce(p.seq, 0) as checkpoint_seq, c.owner,
    t.params_ref, coalesce(t.has_contract, false) and t.undo is null as has_contract, t.undo is not null as is_undo,
    case when t.undo is not null then t.output_ref end as output_ref
from claimed c
join tasks t on t.job_id = any(array[c.job_id]) and t.node = c.node and t.item = c.item
left join lateral (
    select jsonb_build_array(k.name, k.data) as resume_point, k.seq from checkpoints k
    where c.attempt > 1 and k.job_id = c.job_id and k.node = c.node and k.item = c.item
    order by k.seq desc limit 1
) p on true
order by c.priority desc, c.rank, c.id;

-- name: job_facts
-- The facts of a job that handlers can ask for, and the definition with its contracts; read once per job, not per task.
select j.job_id::text as job_id, j.generation, j.inputs::text as inputs, j.definition_hash, j.tenant, j.correlation_id,
    {{external_ids_of_job}} as external_ids, j.traceparent
from jobs j where j.job_id = any(%(jobs)s::uuid[]);

-- name: results_page
-- The outputs of a node's completed items, in item order. A page ends when it gets large, but has at least one row if
-- there is one. Each row says whether the node has ended; without further results there is one row with only that. A
-- fan-in whose batches have all completed gives out their results, also to its own last task.
select n.status in ('completed', 'failed', 'skipped', 'cancelled')
        or (n.batch_size is not null and n.status in ('ready', 'dispatched')) as has_ended,
    r.item, r.output, r.output_ref
from nodes n
left join lateral (
    select t.*, sum(octet_length(t.output)) over (order by t.item) - octet_length(t.output) as bytes_before
    from (
        select t.item, t.output::text as output, t.output_ref
        from tasks t
        where t.job_id = %(job)s and t.node = %(node)s and t.item > %(after)s and t.item < %(until)s
            and t.status = 'completed' and (t.item >= 0 or n.batch_size is null)
        order by t.item limit %(limit)s
    ) t
) r on coalesce(r.bytes_before, 0) < %(bytes)s
where n.job_id = %(job)s and n.node = %(node)s
order by r.item;

-- name: begin_late
-- A task that waited in its worker for a while begins, if it still may. Its timeout starts now.
update queue q
set claimed_at = now(), deadline_at = now() + make_interval(secs => q.timeout_seconds + %(slack)s)
from jobs j
where q.job_id = %(job)s and q.node = %(node)s and q.item = %(item)s and q.epoch = %(epoch)s
    and q.state = 'leased' and q.holder = %(me)s
    and j.job_id = q.job_id and j.stop_cause is null and not j.holds @> '[{"by": "pause"}]'
    and not exists (
        select 1 from lanes l join limits m on m.tenant = '' and m.name = 'queue:' || l.queue
        where l.lane_id = q.lane_id and {{limit_is_paused}})
    and exists (select 1 from workers w where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now());

-- name: release_strays
-- Gives leases back that this worker has in the database but does not hold. The answer to their claim was lost, they
-- did not begin in time, or the database went back to an earlier state. Claims after `until`, in microseconds since 1970,
-- are left alone: a worker over HTTP may not know of them yet.
with known as (
    select * from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[])
        as k (job_id, node, item, epoch)
),
stray as (
    select q.job_id, q.node, q.item
    from queue q
    where q.state || '' = 'leased' and q.holder = %(me)s
        and (%(until)s::bigint is null
            or q.claimed_at <= timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond')
        and not exists (
            select 1 from known k
            where k.job_id = q.job_id and k.node = q.node and k.item = q.item and k.epoch = q.epoch)
    -- Reads all leases by the index of leases, because an index of holders would make every claim slower. The order
    -- enforces that: without it, a plan that was made while the queue was empty walks the whole of another index.
    order by q.lane_id
    for update skip locked
),
gone as (
    delete from queue q
    using stray s
    where q.job_id = any(array[s.job_id]) and q.node = s.node and q.item = s.item
    returning q.job_id, q.node, q.item, q.epoch, q.attempt, q.owner, q.claimed_at
)
insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome, worker, started_at)
select g.owner, g.job_id, 'report', g.node, g.item, g.epoch, g.attempt, 'given_back', %(worker)s, g.claimed_at
from gone g;

-- name: report
-- Ends leases and sends the reports to the owners in one fenced statement. Returns which reports were accepted. Reports
-- whose lease another session has locked are not accepted, and do not delay the others: `reject` finds out which they
-- are. The reports come in the order of the key, in which a withdrawal locks its rows, too.
with reported as (
    select * from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[], %(attempt)s::int[],
        %(outcome)s::text[], %(alone)s::boolean[], %(started_at)s::float8[], %(output)s::jsonb[], %(data)s::jsonb[])
        with ordinality
        as r (job_id, node, item, epoch, attempt, outcome, alone, started_at, output, data, number)
),
held as materialized (
    select r.*, q.ctid as place from reported r join queue q
        on q.job_id = any(array[r.job_id]) and q.node = r.node and q.item = r.item and q.epoch = r.epoch
    where q.state = 'leased' and q.holder = %(me)s and q.deadline_at > now()
        and exists (select 1 from workers w where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now())
    for update of q skip locked
),
taken as (
    delete from queue q
    using held r
    where q.ctid = r.place
    returning q.owner, r.*
),
accepted as (
    insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome, worker, alone, started_at, output,
        data)
    select t.owner, t.job_id, 'report', t.node, t.item, t.epoch, t.attempt, t.outcome, %(worker)s, t.alone,
        to_timestamp(t.started_at), t.output, t.data
    from taken t
)
select array_agg(number::int - 1) as accepted from taken;

-- name: reject
-- Late reports change nothing; the owner only gets a signal about them. A worker may send an accepted report again
-- because its answer was lost. Such a report is not late: it is unread, or its task or its attempt ended by it. The
-- start time distinguishes it from a report that a sweep wrote for the same attempt. Returns the reports whose lease is
-- held but locked by another session, and those that are rejected.
with reported as (
    select r.*, to_timestamp(r.began) as started_at
    from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(epoch)s::int[], %(attempt)s::int[],
        %(outcome)s::text[], %(started_at)s::float8[]) with ordinality
        as r (job_id, node, item, epoch, attempt, outcome, began, number)
),
kept as materialized (
    select r.number from reported r join queue q
        on q.job_id = any(array[r.job_id]) and q.node = r.node and q.item = r.item and q.epoch = r.epoch
    where q.state = 'leased' and q.holder = %(me)s and q.deadline_at > now()
        and exists (select 1 from workers w where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now())
),
unread as materialized (
    select i.job_id, i.node, i.item, i.epoch, i.outcome, i.started_at from inbox i
    where i.kind = 'report' and i.worker = %(worker)s and i.job_id = any(%(job_id)s::uuid[])
),
late as materialized (
    select coalesce(j.owner, 0) as owner, r.*
    from reported r
    join jobs j on j.job_id = any(array[r.job_id])
    where not exists (select 1 from kept k where k.number = r.number)
        and not exists (
            select 1 from unread u
            where u.job_id = r.job_id and u.node = r.node and u.item = r.item and u.epoch = r.epoch
                and u.outcome = r.outcome and u.started_at = r.started_at)
        and not exists (
            select 1 from tasks t
            where t.job_id = any(array[r.job_id]) and t.node = r.node and t.item = r.item and t.epoch = r.epoch
                and t.status = 'completed' and r.outcome = 'done' and t.worker = %(worker)s
                and t.started_at = r.started_at)
        and not exists (
            select 1 from attempts a
            where a.job_id = any(array[r.job_id]) and a.node = r.node and a.item = r.item and a.attempt = r.attempt
                and a.epoch = r.epoch and a.outcome = r.outcome and a.worker = %(worker)s
                and a.started_at = r.started_at)
),
noted as (
    insert into inbox (owner, job_id, kind, node, item, epoch, attempt, outcome, worker)
    select l.owner, l.job_id, 'rejected', l.node, l.item, l.epoch, l.attempt, l.outcome, %(worker)s from late l
)
select (select array_agg(k.number::int - 1) from kept k) as locked,
    (select array_agg(l.number::int - 1) from late l) as rejected;

-- name: save_checkpoint
-- A checkpoint can be saved again if its answer was lost. It replaces one that an older attempt saved while its lease
-- ended.
insert into checkpoints (job_id, node, item, seq, name, data, epoch)
select q.job_id, q.node, q.item, %(seq)s, %(name)s, %(data)s::jsonb, q.epoch
from queue q
where q.job_id = %(job)s and q.node = %(node)s and q.item = %(item)s and q.epoch = %(epoch)s
    and q.state = 'leased' and q.holder = %(me)s
    and exists (select 1 from workers w where w.worker_id = %(me)s and w.ended_at is null and w.lease_until > now())
on conflict (job_id, node, item, seq) do update
set name = excluded.name, data = excluded.data, epoch = excluded.epoch, saved_at = now()
where checkpoints.epoch <= excluded.epoch;

-- name: read_breaker
select {{breaker_columns}}
from breakers b where b.name = %(key)s;

-- name: claim_probe
-- One breaker whose cooldown is over and whose probe this worker can run. If the worker dies, it blocks the probe only
-- for a while.
with due as (
    select b.name from breakers b
    where b.state = 'open' and not b.held and b.until <= now() and b.tenant = coalesce(%(tenant)s, b.tenant)
        and (b.probing_until is null or b.probing_until < now())
        and (b.settings ->> 'probe_url' is not null or b.settings ->> 'probe_handler' = any(%(handlers)s::text[]))
    order by b.until
    limit 1
    for update skip locked
)
update breakers b set probing_until = now() + make_interval(secs => %(seconds)s)
from due d where b.name = d.name
returning b.name as key, b.settings::text as settings;

-- name: end_probe
-- The next probe of the breaker need not wait for the end of this worker's reservation.
update breakers b set probing_until = null where b.name = %(key)s;
