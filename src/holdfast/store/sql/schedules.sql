-- Schedules: their ticks, and what people see and change. The clock is that of the database.

-- name: schedule_row
-- A schedule with the state of its last job.
s.tenant, s.name, s.schedule_id::text as schedule_id, s.workflow_id, s.cron, s.every_seconds, s.time_zone, s.anchored_at,
    s.inputs::text as inputs, s.overlap, s.catch_up, s.source, s.next_at, s.waiting, s.last_tick, s.last_answer,
    s.problem, s.last_job::text as last_job, s.paused_at, s.paused_by, s.pause_reason, s.revision, s.created_at,
    s.created_by, s.changed_at, s.changed_by, j.status as last_job_status,
    j.job_id is not null and j.finished_at is null as is_busy, now() as now
from schedules s left join jobs j on j.job_id = any(array[s.last_job]);

-- name: read_schedules
select {{schedule_row}}
where s.tenant = %(tenant)s order by s.name;

-- name: read_schedule
select {{schedule_row}}
where s.tenant = %(tenant)s and s.name = %(name)s;

-- name: due_schedules
-- Schedules with a tick that is due, and those whose next waiting tick can begin: the job before it has ended. In no
-- order: those that cannot tick stay due, and must not stand before all others.
select due.* from (
    select {{schedule_row}}
    where s.next_at <= now()
    union all
    select {{schedule_row}}
    where s.waiting <> '{}' and s.paused_at is null and (s.next_at is null or s.next_at > now())
        and (j.job_id is null or j.finished_at is not null)
) due order by random() limit %(limit)s;

-- name: seconds_to_next_tick
select greatest(0, extract(epoch from min(s.next_at) - now()))::float8 as seconds from schedules s
where s.next_at is not null;

-- name: move_schedule
-- A tick has its effect once: who reads the same row and comes later finds another revision.
update schedules s
set next_at = %(next_at)s, waiting = %(waiting)s::timestamptz[], last_tick = %(last_tick)s,
    last_answer = %(last_answer)s, problem = %(problem)s, last_job = coalesce(%(job)s::uuid, s.last_job),
    revision = s.revision + 1
where s.tenant = %(tenant)s and s.name = %(name)s and s.schedule_id = %(schedule_id)s::uuid
    and s.revision = %(revision)s and s.next_at is not distinct from %(tick)s::timestamptz;

-- name: write_schedule_alert
-- At most one line an hour for each schedule, and an event for the webhooks of its tenant.
with written as (
    insert into janitor_actions (run, duty, action, reason, before)
    select gen_random_uuid(), 'schedules', 'alert', %(reason)s::text,
        jsonb_build_object('tenant', %(tenant)s::text, 'schedule', %(name)s::text)
    where not exists (
        select 1 from janitor_actions a
        where a.at > now() - interval '1 hour' and a.action = 'alert' and a.duty = 'schedules'
            and a.before ->> 'tenant' = %(tenant)s::text and a.before ->> 'schedule' = %(name)s::text)
    returning duty, reason
),
noted as (
    insert into outbox (tenant, event, data)
    select %(tenant)s::text, 'janitor_alert',
        jsonb_build_object('duty', w.duty, 'reason', w.reason, 'schedule', %(name)s::text)
    from written w
    where exists (
        select 1 from webhooks k
        where k.tenant = %(tenant)s::text and k.disabled_at is null and 'janitor_alert' = any(k.events))
)
select duty from written;

-- name: take_schedules_turn
-- Changes of a tenant's schedules by people run one after the other: they are counted.
select pg_advisory_xact_lock(hashtextextended('holdfast schedules ' || %(tenant)s::text, 0));

-- name: lock_schedule
-- No tick comes between the reading of a schedule and its change.
select s.revision from schedules s where s.tenant = %(tenant)s and s.name = %(name)s for update;

-- name: count_schedules
select count(*) as number, now() as now from schedules s where s.tenant = %(tenant)s;

-- name: write_schedule
-- A new schedule, or a changed one.
insert into schedules as s (tenant, name, schedule_id, workflow_id, cron, every_seconds, time_zone, anchored_at, inputs,
    overlap, catch_up, source, next_at, waiting, last_tick, last_answer, problem, last_job, paused_at, paused_by,
    pause_reason, created_at, created_by, changed_at, changed_by)
values (%(tenant)s, %(name)s, %(schedule_id)s::uuid, %(workflow_id)s, %(cron)s, %(every_seconds)s, %(time_zone)s,
    %(anchored_at)s, %(inputs)s::jsonb, %(overlap)s, %(catch_up)s, %(source)s, %(next_at)s, %(waiting)s::timestamptz[],
    %(last_tick)s, %(last_answer)s, %(problem)s, %(last_job)s::uuid, %(paused_at)s, %(paused_by)s, %(pause_reason)s,
    %(created_at)s, %(created_by)s, now(), %(changed_by)s)
on conflict (tenant, name) do update
set workflow_id = excluded.workflow_id, cron = excluded.cron, every_seconds = excluded.every_seconds,
    time_zone = excluded.time_zone, anchored_at = excluded.anchored_at, inputs = excluded.inputs,
    overlap = excluded.overlap, catch_up = excluded.catch_up, source = excluded.source, next_at = excluded.next_at,
    waiting = excluded.waiting, problem = excluded.problem, paused_at = excluded.paused_at,
    paused_by = excluded.paused_by, pause_reason = excluded.pause_reason, changed_at = excluded.changed_at,
    changed_by = excluded.changed_by, revision = s.revision + 1;

-- name: delete_schedule
delete from schedules s where s.tenant = %(tenant)s and s.name = %(name)s;
