-- Streams of events. A reader asks which events one snapshot sees and an earlier one does not: the order of commits,
-- which no column has. Nothing here writes.

-- name: place
-- What is committed now, and in which history of the database. The snapshot ends behind the youngest transaction that
-- has written a visible event. Whatever is younger counts as running: its number may go to another one after a crash.
with present as materialized (
    select pg_current_snapshot() as snapshot, c.system_identifier,
        (select g.xid from pruned_events g where g.system_identifier = c.system_identifier) as pruned
    from pg_control_system() c
),
youngest as materialized (
    select coalesce(greatest(p.pruned, (
        select e.xid from events e where e.xid < pg_snapshot_xmax(p.snapshot) order by e.xid desc limit 1
    ))::text::bigint, 2) as xid from present p
),
running as (
    select x.xid::text::bigint as xid from present p cross join lateral pg_snapshot_xip(p.snapshot) as x (xid)
    cross join youngest y where x.xid::text::bigint <= y.xid
)
select concat_ws('-', p.system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid, 'events'::regclass::oid)
        as history,
    coalesce((select min(r.xid) from running r), y.xid + 1) || ':' || y.xid + 1 || ':'
        || coalesce((select string_agg(r.xid::text, ',' order by r.xid) from running r), '') as snapshot,
    p.pruned::text::bigint as pruned
from present p cross join youngest y
join pg_database d on d.datname = current_database();

-- name: newly_visible
-- Events that the snapshot `new` sees and `old` does not, by job and number, behind a place. A dump restores the numbers
-- of transactions of another server: such a row was written by a transaction that is older than its number.
with fresh as materialized (
    select e.job_id, e.seq, e.event, e.node, e.item, e.attempt, e.at, e.data, e.xid, e.xmin as writer
    from events e where e.xid = any(%(running)s::text[]::xid8[])
    union all
    select e.job_id, e.seq, e.event, e.node, e.item, e.attempt, e.at, e.data, e.xid, e.xmin
    from events e
    where e.xid >= pg_snapshot_xmax(%(old)s::pg_snapshot) and e.xid < pg_snapshot_xmax(%(new)s::pg_snapshot)
)
select f.seq, f.job_id::text as job_id, f.event, f.node, f.item, f.attempt, f.at, f.data::text as data, j.tenant,
    j.workflow_id
from fresh f
join jobs j on j.job_id = any(array[f.job_id])
where pg_visible_in_snapshot(f.xid, %(new)s::pg_snapshot) and age(f.writer) <= age(f.xid::xid)
    and (f.job_id, f.seq) > (%(after_job)s::uuid, %(after_seq)s::int)
    and (%(tenants)s::text[] is null or j.tenant = any(%(tenants)s::text[]))
order by f.job_id, f.seq limit %(limit)s;

-- name: has_many_new
-- Whether `new` sees more events than `limit` that `old` does not, of all tenants.
select count(*) > %(limit)s as has_many from (
    select 1 from events e
    where e.xid >= pg_snapshot_xmin(%(old)s::pg_snapshot) and e.xid < pg_snapshot_xmax(%(new)s::pg_snapshot)
        and not pg_visible_in_snapshot(e.xid, %(old)s::pg_snapshot) limit %(limit)s + 1) as f;

-- name: stream_job
-- One page of the events of a job, and whether the job has ended and with which number, all of one moment.
with known as materialized (
    select j.job_id, j.tenant, j.workflow_id, (j.finished_at is not null) as is_over,
        (select l.seq from events l where l.job_id = %(job)s::uuid order by l.seq desc limit 1) as last_seq
    from jobs j where j.job_id = %(job)s::uuid and j.tenant = coalesce(%(tenant)s, j.tenant)
)
select k.is_over, coalesce(k.last_seq, 0) as last_seq, e.seq, k.job_id::text as job_id, e.event, e.node, e.item,
    e.attempt, e.at, e.data::text as data, k.tenant, k.workflow_id
from known k
left join lateral (
    select v.seq, v.event, v.node, v.item, v.attempt, v.at, v.data from events v
    where v.job_id = %(job)s::uuid and v.seq > %(after)s::int order by v.seq limit %(limit)s
) e on true
order by e.seq;
