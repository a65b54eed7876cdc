-- The statements of an owner's cycle, in the order in which they run. Lock order: the owner's own row, then jobs,
-- then inbox rows, then queue rows. Rows come in as columns: one array per column.
--
-- Rows are joined by `job_id = any(array[x.job_id])`, here and in the other files. Postgres makes a plan once per
-- connection, often while the tables are almost empty. With a plain `=` the plan may walk a whole index for each row
-- that comes in, and still does so when the table has a million rows. This spelling leaves only the look-up by key.

-- Lists of columns come from record types, and stand in double braces: see store/columns.py.

-- name: fence
-- Locks the orchestrator's own row, so that no other process can end the orchestrator during the cycle. No row: another
-- orchestrator has ended this one. Also says whether this database has the owner's last commit. Only the owner writes
-- the rows of its jobs: if the commit is there, the rows are what the owner remembers.
select extract(epoch from now())::float8 as now,
    exists (select 1 from last_commits c where c.orchestrator_id = %(me)s and c.mark = %(mark)s) as knows_last_commit
from orchestrators
where orchestrator_id = %(me)s and ended_at is null
for share;

-- name: signal_columns
-- A signal as its owner reads it, with the fence and the budgets of its task.
i.id, i.job_id::text as job_id, i.kind, i.node, i.item, i.epoch, i.attempt, i.outcome, i.worker, i.alone,
    extract(epoch from i.started_at)::float8 as started_at, case when i.item < 0 then i.output::text end as output,
    i.data::text as data, i.actor, i.reason, t.status as task_status, t.epoch as task_epoch, t.attempt as task_attempt,
    t.retry_count as task_retries, t.lost_count as task_lost, t.crash_count as task_crashes;

-- name: asked_kinds
-- What people and the janitor ask of a job.
array['cancel', 'pause', 'unpause', 'recover', 'recheck'];

-- name: signals_with_free_jobs
-- Signals without an owner, and their jobs, which it locks. The first orchestrator to lock a job claims it; jobs that
-- another one has claimed or locked are skipped. An orchestrator for one job claims no other.
select {{signal_columns}}, {{JobRow from j as job_}},
    case when j.epoch = 0 then 1 else (select max(e.seq) from events e where e.job_id = j.job_id) end as job_last_seq
from inbox i
cross join lateral (
    select * from jobs where job_id = i.job_id and owner is null for update skip locked
) j
left join tasks t on t.job_id = any(array[i.job_id]) and t.node = i.node and t.item = i.item
where coalesce(i.job_id = (select o.only_job from orchestrators o where o.orchestrator_id = %(me)s), true);

-- name: claim_jobs
-- Claims jobs, oldest signal first, but for those that were set aside. A signal is locked after its job: an
-- orchestrator that does not get the job must not keep its signals from the one that does. What people ask is left to
-- claim_asked; while more is asked than that reads at once, a job of which something is asked waits for its turn there.
{{signals_with_free_jobs}}
    and i.owner = 0 and i.id > %(floor)s and i.kind <> all({{asked_kinds}}) and i.job_id <> all(%(aside)s::uuid[])
    and (
        (
            select count(*) from (
                select 1 from inbox a where a.owner + 0 = 0 and a.kind = any({{asked_kinds}}) limit %(limit)s
            ) asked
        ) < %(limit)s
        or i.job_id <> all(array(
            select a.job_id from inbox a where a.owner + 0 = 0 and a.kind = any({{asked_kinds}})))
    )
order by i.id
limit %(limit)s
for update of i skip locked;

-- name: claim_asked
-- Claims jobs of which people or the janitor ask something, and reads what they ask of jobs that were just claimed. It
-- runs after claim_jobs: nothing can be sent to a locked job, so nothing is passed over. A job that was cancelled or
-- paused before its start does not start, however many jobs wait; unless so much is asked of one job that a cycle reads
-- only a part of it. `+ 0` keeps the planner from the primary key, which leads through all signals without an owner.
{{signals_with_free_jobs}}
    and i.owner + 0 = 0 and i.kind = any({{asked_kinds}})
order by i.id
limit %(limit)s
for update of i skip locked;

-- name: drain
-- The owner's waiting signals, oldest first, with the fence and the budgets of their tasks. The signals of a wide job
-- come last and not all at once, so that other jobs need not wait for them. For jobs that were set aside, only signals
-- of people and of the janitor are read. The output of an item is not read: no decision needs it, and finish_tasks
-- copies it.
with waiting as (
    (
        select i.* from inbox i
        where i.owner = %(me)s and i.id > %(floor)s
            and (i.job_id <> all(%(aside)s::uuid[]) or i.kind = any({{asked_kinds}}))
            and (%(wide)s::uuid is null or i.job_id <> %(wide)s::uuid)
        order by i.id
        limit %(limit)s
    )
    union all
    (
        select i.* from inbox i
        where %(wide)s::uuid is not null and i.owner = %(me)s and i.id > %(floor)s
            and (i.job_id <> all(%(aside)s::uuid[]) or i.kind = any({{asked_kinds}}))
            and i.job_id = %(wide)s::uuid
        order by i.id
        limit %(wide_limit)s
    )
)
select {{signal_columns}}
from waiting i
left join tasks t on t.job_id = any(array[i.job_id]) and t.node = i.node and t.item = i.item
order by i.job_id is not distinct from %(wide)s::uuid, i.id;

-- name: owned_jobs
-- The next open jobs of this owner, for an owner that has forgotten its jobs.
select j.job_id::text as job_id from jobs j
where j.finished_at is null and j.owner = %(me)s and j.job_id > %(after)s::uuid
order by j.job_id
limit %(limit)s;

-- name: load_jobs
-- The last committed state of jobs of this owner; without an owner, of any jobs, for a reader.
select {{JobRow from j}}, (select max(e.seq) from events e where e.job_id = j.job_id) as last_seq
from jobs j
where j.job_id = any(%(jobs)s::uuid[]) and (j.owner = %(me)s or %(me)s::bigint is null);

-- name: load_nodes
-- The nodes of these jobs that have begun.
select {{NodeRow from n}}
from nodes n
where n.job_id = any(%(jobs)s::uuid[]);

-- name: count_tasks
-- The statuses of the tasks of these jobs, counted by node, and the last item that is queued or has an unread report.
select t.job_id::text as job_id, t.node, count(*)::int as rows, max(t.item) as last,
    count(*) filter (where t.status = 'completed')::int as completed,
    count(*) filter (where t.status = 'failed')::int as failed,
    count(*) filter (where t.status = 'skipped')::int as skipped,
    count(*) filter (where t.status = 'cancelled')::int as cancelled,
    greatest(-1,
        (select max(q.item) from queue q where q.job_id = any(array[t.job_id]) and q.node = t.node),
        (select max(i.item) from inbox i where i.kind = 'report' and i.job_id = t.job_id and i.node = t.node)) as last_queued,
    count(*) filter (where t.waits)::int as waiting
from tasks t
where t.job_id = any(%(jobs)s::uuid[])
group by t.job_id, t.node;

-- name: unqueued_tasks
-- Tasks that were queued and have not ended, but have neither a queue row nor an unread report. A report deletes the
-- queue row in its own statement, so that one read sees the row or the report. A task with neither of them is lost.
with unread as materialized (
    select i.job_id, i.node, i.item, i.epoch from inbox i
    where i.kind = 'report' and i.job_id = any(%(jobs)s::uuid[])
)
select t.job_id::text as job_id, t.node, t.item, t.status, t.epoch, t.attempt, t.retry_count as retries,
    t.lost_count as lost, t.crash_count as crashes, t.requeue_count as requeues, t.error::text as error
from nodes n
join tasks t on t.job_id = any(array[n.job_id]) and t.node = n.node and t.item < n.enqueued_count
where n.job_id = any(%(jobs)s::uuid[]) and n.status in ('ready', 'dispatched', 'running') and t.status = 'ready'
    and not t.waits and not exists (
        select 1 from queue q where q.job_id = any(array[t.job_id]) and q.node = t.node and q.item = t.item)
    and not exists (
        select 1 from unread u where u.job_id = t.job_id and u.node = t.node and u.item = t.item and u.epoch = t.epoch)
order by t.job_id, t.node, t.item
limit 5000;

-- name: ended_own_tasks
-- A node's own tasks that have ended, of nodes that have not ended.
select t.job_id::text as job_id, t.node, t.status, t.attempt, t.output::text as output, t.error::text as error,
    t.output_ref
from nodes n
join tasks t on t.job_id = any(array[n.job_id]) and t.node = n.node and t.item = -1
where n.job_id = any(%(jobs)s::uuid[]) and n.status in ('ready', 'dispatched', 'running') and t.status <> 'ready';

-- name: item_results
-- The outputs that a fan-in gathers, in item order, and the items that it leaves out. A page ends when it gets large,
-- but has at least one row if there is one; an output in the object store fills a page.
select r.item, r.status, r.output, r.bytes as size_bytes, r.output_ref
from (
    select t.*, sum(t.bytes) over (order by t.item) - t.bytes as bytes_before
    from (
        select t.item, t.status, t.output::text as output, t.output_ref,
            case when t.output_ref is null then coalesce(octet_length(t.output::text), 0) else %(bytes)s end as bytes
        from tasks t
        where t.job_id = %(job)s and t.node = %(node)s and t.item > %(after)s
            and t.status = any(%(statuses)s::text[]) and t.gone is null
        order by t.item limit %(limit)s
    ) t
) r
where r.bytes_before < %(bytes)s
order by r.item;

-- name: delete_signals
-- Deletes handled signals in the same commit as their effects, after finish_tasks has copied their outputs. Each id
-- comes with its owner: with one owner and a list of ids, the planner may look up the owner alone and read all waiting
-- signals.
delete from inbox i
using unnest(%(owner)s::bigint[], %(id)s::bigint[]) as w (owner, id)
where i.owner = any(array[w.owner]) and i.id = w.id;

-- name: delete_dense_signals
-- The same for signals that are close together: a list of ids costs half as much.
delete from inbox
where owner = %(owner)s and id between %(first)s and %(last)s and id = any(%(id)s::bigint[]);

-- name: write_jobs
-- Writes only jobs of this owner, and unowned jobs that this cycle has locked.
update jobs j
set {{JobUpdate changes}},
    owned_since = case when j.owner = w.owner then j.owned_since when w.owner is not null then now() end
from {{JobUpdate}}
where j.job_id = any(array[w.job_id]) and (j.owner is null or j.owner = %(me)s);

-- name: create_nodes
-- Nodes that begin. A node is created once, so that a conflict is a bug and not a race.
insert into nodes ({{NodeRow names}})
select {{NodeRow values}} from {{NodeRow}};

-- name: write_nodes
update nodes n
set {{NodeRow changes}}
from {{NodeRow}}
where n.job_id = any(array[w.job_id]) and n.node = w.node;

-- name: create_tasks
insert into tasks ({{CreateTasks names}})
select {{CreateTasks values}} from {{CreateTasks}};

-- name: create_failed_tasks
insert into tasks (job_id, node, item, status, error, epoch, attempt, finished_at, item_key)
select w.job_id, w.node, w.item, 'failed', w.error, w.epoch, w.attempt, now(), w.item_key
from {{FailTask}};

-- name: pin_jobs
-- Another definition or other inputs, from this generation on. What the job had before stays readable; what it was
-- submitted with is kept with the first correction.
with submitted as (
    insert into pins (job_id, generation, definition_hash, version, inputs)
    select j.job_id, 1, j.definition_hash, j.version, j.inputs
    from {{PinJob}} join jobs j on j.job_id = any(array[w.job_id])
    on conflict (job_id, generation) do nothing
),
corrected as (
    insert into pins (job_id, generation, definition_hash, version, inputs)
    select w.job_id, w.generation, w.definition_hash, w.version, w.inputs from {{PinJob}}
)
update jobs j
set definition_hash = w.definition_hash, version = w.version, inputs = w.inputs
from {{PinJob}}
where j.job_id = any(array[w.job_id]) and (j.owner is null or j.owner = %(me)s);

-- name: plan_of_correction
select p.plan_id, p.job_id::text as job_id, p.generation, p.last_seq, p.definition_hash, p.inputs::text as inputs,
    p.content::text as content
from plans p where p.job_id = %(job)s::uuid and p.plan_id = %(plan)s;

-- name: item_keys
-- What the items of a fan-out are known by.
select t.item, replace(t.item_key::text, '-', '') as item_key
from tasks t
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.item >= 0 and t.item_key is not null;

-- name: own_params
-- The params of the own tasks of nodes, without those that a person gave.
select t.node, t.params::text as params, t.params_ref
from tasks t where t.job_id = %(job)s::uuid and t.item < 0 and not t.params_given;

-- name: completed_outputs
select t.item, t.output::text as output, t.output_ref
from tasks t
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.item > %(after)s and t.status = 'completed'
order by t.item limit %(limit)s;

-- name: matched_tasks
select t.item, t.status, t.params::text as params, t.params_ref, t.gone, t.params_given
from tasks t
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.item = any(%(items)s::int[]);

-- name: correct_tasks
-- Makes tasks ready again with other params, with a new epoch and full budgets. Completed attempts stay in the history;
-- a task that had completed starts without its checkpoints. What a person gave a task is among the params, and stays.
with given as materialized (
    select t.job_id, t.node, t.item, t.status, t.epoch, t.attempt, t.worker, t.started_at, t.finished_at,
        w.params as new_params, w.params_ref as new_params_ref
    from unnest(%(item)s::int[], %(params)s::jsonb[], %(params_ref)s::text[]) as w (item, params, params_ref)
    join tasks t on t.job_id = any(array[%(job)s::uuid]) and t.node = %(node)s and t.item = w.item
),
history as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at, finished_at)
    select g.job_id, g.node, g.item, g.attempt, g.epoch, 'done', g.worker, g.started_at, g.finished_at
    from given g where g.status = 'completed'
    on conflict (job_id, node, item, attempt) do nothing
),
forgotten as (
    delete from checkpoints k using given g
    where g.status = 'completed' and k.job_id = any(array[g.job_id]) and k.node = g.node and k.item = g.item
)
update tasks t
set status = 'ready', waits = true, gone = null, epoch = t.epoch + 1, retry_count = 0, lost_count = 0, crash_count = 0,
    requeue_count = 0, output = null, output_ref = null, error = null, undo = null, worker = null, started_at = null,
    finished_at = null, params = g.new_params, params_ref = g.new_params_ref,
    has_contract = nullif(%(has_contract)s::boolean, false)
from given g
where t.job_id = any(array[g.job_id]) and t.node = g.node and t.item = g.item;

-- name: give_params
-- What a person gives to tasks. A reset follows.
update tasks t
set params = w.params, params_ref = w.params_ref, params_given = true, has_contract = nullif(w.has_contract, false)
from {{GiveParams}}
where t.job_id = any(array[w.job_id]) and t.node = w.node and t.item = w.item;

-- name: refuse_tasks
-- The new params of these tasks were refused.
with history as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at, finished_at)
    select t.job_id, t.node, t.item, t.attempt, t.epoch, 'done', t.worker, t.started_at, t.finished_at
    from {{RefuseTask}} join tasks t on t.job_id = any(array[w.job_id]) and t.node = w.node and t.item = w.item
    where t.status = 'completed'
    on conflict (job_id, node, item, attempt) do nothing
)
update tasks t
set status = 'failed', waits = false, gone = null, epoch = t.epoch + 1, error = w.error, params = null,
    params_ref = null, output = null, output_ref = null, undo = null, finished_at = now()
from {{RefuseTask}}
where t.job_id = any(array[w.job_id]) and t.node = w.node and t.item = w.item;

-- name: drop_tasks
-- Tasks whose items are gone keep what they have come to: the items may come back.
update tasks t
set gone = t.status, status = 'skipped'
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.item = any(%(items)s::int[]);

-- name: revive_tasks
-- The items are there again.
update tasks t
set status = t.gone, gone = null
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.item = any(%(items)s::int[]) and t.gone is not null;

-- name: enqueue_tasks
-- Queues the first attempts of a range of items, without refused items.
insert into queue (job_id, node, item, epoch, attempt, lane_id, priority, rank, owner, timeout_seconds,
    queue_timeout_seconds)
select t.job_id, t.node, t.item, t.epoch, t.attempt + 1, w.lane_id, w.priority,
    least(w.rank + t.item - w.first, %(rank_limit)s), %(me)s, w.timeout_seconds, w.queue_timeout_seconds
from {{EnqueueTasks}}
join tasks t on t.job_id = any(array[w.job_id]) and t.node = w.node and t.item between w.first and w.last
where t.status = 'ready';

-- name: finish_tasks
-- The epoch of the report guards the write: a task that was reset meanwhile stays as it is. The output comes from the
-- report.
update tasks t
set status = w.status, attempt = w.attempt, error = w.error, worker = w.worker,
    (output, output_ref) = (
        select i.output, i.data->>'output_ref' from inbox i
        where w.status = 'completed' and i.owner in (0, %(me)s::bigint) and i.id = w.signal_id),
    started_at = to_timestamp(w.started_at), finished_at = now(),
    retry_count = w.retries, lost_count = w.lost, crash_count = w.crashes
from {{FinishTask}}
where t.job_id = any(array[w.job_id]) and t.node = w.node and t.item = w.item and t.epoch = w.epoch
    and t.status = 'ready';

-- name: retry_tasks
-- Gives each task a new epoch, in its row and in a new queue row.
with wanted as (
    select * from {{RetryTask}}
),
moved as (
    update tasks t
    set epoch = w.epoch, attempt = w.attempt, error = w.error, retry_count = w.retries, lost_count = w.lost,
        crash_count = w.crashes, requeue_count = t.requeue_count + w.requeued::int
    from wanted w
    where t.job_id = any(array[w.job_id]) and t.node = w.node and t.item = w.item and t.epoch < w.epoch
        and t.status = 'ready'
    returning w.*
)
insert into queue (job_id, node, item, epoch, attempt, lane_id, state, due_at, priority, rank, suspect, owner,
    timeout_seconds, queue_timeout_seconds)
select w.job_id, w.node, w.item, w.epoch, w.attempt + 1, w.lane_id,
    case when w.due_at is null then 'ready' else 'waiting' end, to_timestamp(w.due_at), w.priority,
    least(w.rank, %(rank_limit)s), w.suspect, %(me)s, w.timeout_seconds, w.queue_timeout_seconds
from moved w;

-- name: release_tasks
-- Tasks that a pause held back get a new id, because their lane's floor may have passed the old one. The time of the
-- pause does not count as time in the queue.
update queue q
set state = case when q.due_at > now() then 'waiting' else 'ready' end, id = default,
    queued_at = q.queued_at + make_interval(secs => w.seconds)
from {{ReleaseTasks}}
where q.job_id = any(array[w.job_id]) and q.state = 'paused';

-- name: pause_tasks
update queue q set state = 'paused'
where q.job_id = any(%(jobs)s::uuid[]) and q.state in ('ready', 'waiting');

-- name: mark_jobs
-- Writes an error to a job that has ended and has neither an owner nor an error.
update jobs j set error = w.error
from {{MarkJob}}
where j.job_id = any(array[w.job_id]) and j.finished_at is not null and j.owner is null and j.error is null;

-- name: write_attempts
insert into attempts ({{RecordAttempt names}})
select {{RecordAttempt values}} from {{RecordAttempt}}
on conflict (job_id, node, item, attempt) do nothing;

-- name: write_events
insert into events ({{Emit names}})
select {{Emit values}} from {{Emit}};

-- name: write_outbox
-- The events of this cycle that have a receiver.
insert into outbox ({{Notice names}})
select {{Notice values}} from {{Notice}};

-- name: subscriptions
-- The events that the webhooks of each tenant subscribe to; and of all tenants the ends of jobs, if an app has a hook.
select w.tenant, array_agg(distinct e.event) as events
from webhooks w cross join lateral unnest(w.events) as e (event)
where w.disabled_at is null
group by w.tenant
union all
select '*', {{job_ends}} where exists (select from hooks);

-- name: job_ends
array['job_completed', 'job_partial', 'job_failed', 'job_cancelled'];

-- name: write_answers
insert into answers ({{AnswerSignal names}})
select {{AnswerSignal values}} from {{AnswerSignal}}
on conflict (signal_id) do nothing;

-- name: write_payloads
-- Objects that rows of this commit refer to. They were stored before.
insert into payloads (job_id, digest, bytes)
select * from unnest(%(job_id)s::uuid[], %(digest)s::text[], %(bytes)s::bigint[])
on conflict (job_id, digest) do nothing;

-- name: write_artifacts
-- A file becomes visible with the report that names it; a later run of the task replaces it.
insert into artifacts (job_id, node, item, name, digest, bytes, attempt)
select * from unnest(%(job_id)s::uuid[], %(node)s::text[], %(item)s::int[], %(name)s::text[], %(digest)s::text[],
    %(bytes)s::bigint[], %(attempt)s::int[])
on conflict (job_id, node, item, name) do update
set digest = excluded.digest, bytes = excluded.bytes, attempt = excluded.attempt, published_at = now();

-- name: withdraw_queued
-- A task whose report is unread is not in the queue, so its result still counts. Attempts that end here stay in the
-- history. A task that waits to be undone stays completed.
with gone as (
    delete from queue q
    using unnest(%(job_id)s::uuid[], %(leases_too)s::boolean[], %(status)s::text[], %(error)s::jsonb[], %(node)s::text[])
        as w (job_id, leases_too, status, error, node)
    where q.job_id = any(array[w.job_id]) and (q.state <> 'leased' or w.leases_too)
        and (w.node is null or q.node = w.node)
    returning q.job_id, q.node, q.item, q.epoch, q.state, q.attempt, q.holder, q.claimed_at, w.status, w.error
),
cut_short as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at)
    select g.job_id, g.node, g.item, g.attempt, g.epoch, 'withdrawn', w.name, g.claimed_at
    from gone g left join workers w on w.worker_id = g.holder where g.state = 'leased'
    on conflict (job_id, node, item, attempt) do nothing
)
update tasks t
set status = case when t.undo is null then g.status else 'completed' end,
    error = case when t.undo is null then g.error end,
    finished_at = case when t.undo is null then now() else {{completed_at}} end,
    undo = case when t.undo is not null then jsonb_build_object('error', g.error) end, attempt = t.attempt + (g.state = 'leased')::int
from gone g
where t.job_id = any(array[g.job_id]) and t.node = g.node and t.item = g.item and t.epoch = g.epoch
    and t.status = 'ready'
returning t.job_id::text as job_id, t.node, t.item;

-- name: withdraw_unqueued
-- Ends tasks outside the window, which were never in the queue.
update tasks t
set status = w.status, error = w.error, finished_at = now()
from unnest(%(job_id)s::uuid[], %(node)s::text[], %(first)s::int[], %(last)s::int[], %(status)s::text[],
    %(error)s::jsonb[])
    as w (job_id, node, first, last, status, error)
where t.job_id = any(array[w.job_id]) and t.node = w.node and t.item between w.first and w.last and t.status = 'ready'
returning t.job_id::text as job_id, t.node, t.item;

-- name: withdraw_waiting
-- Ends tasks that were reset and are not queued again yet.
update tasks t
set status = case when t.undo is null then w.status else 'completed' end,
    error = case when t.undo is null then w.error end,
    finished_at = case when t.undo is null then now() else {{completed_at}} end,
    undo = case when t.undo is not null then jsonb_build_object('error', w.error) end,
    waits = false
from unnest(%(job_id)s::uuid[], %(node)s::text[], %(status)s::text[], %(error)s::jsonb[])
    as w (job_id, node, status, error)
where t.job_id = any(array[w.job_id]) and t.node = w.node and t.waits
returning t.job_id::text as job_id, t.node, t.item;

-- name: select_tasks
-- The tasks that a verb selects, counted by node and status. Some tasks cannot be reset: a task without params was
-- refused before it could be queued, and would be refused again; a task that waits after a reset runs anyway; and a
-- task that was never queued needs no reset. The attempt of a queued task counts: a worker may lease the task before
-- the verb is committed.
select t.node, t.status, count(*) filter (where c.is_named and c.can_run)::int as chosen,
    count(*) filter (where c.is_named and t.status <> 'ready' and not c.can_run and t.gone is null)::int as refused, max(t.epoch) as last_epoch,
    max(t.attempt + (q.state is not null)::int) as last_attempt,
    extract(epoch from min(t.finished_at) filter (where c.is_named and c.can_run))::float8 as completed_since,
    extract(epoch from min(t.finished_at))::float8 as node_completed_since
from tasks t
left join queue q on q.job_id = any(array[t.job_id]) and q.node = t.node and q.item = t.item
cross join lateral (
    select (%(node)s::text is null or t.node = %(node)s)
            and (%(items)s::int[] is null or t.item = any(%(items)s::int[]))
            and (%(code)s::text is null or t.error->>'code' = %(code)s)
            and (%(fingerprint)s::text is null or t.error->>'fingerprint' = %(fingerprint)s),
        (t.params is not null or t.params_ref is not null or %(gives_params)s) and not t.waits and t.gone is null
            and (t.status <> 'ready' or t.item < %(enqueued)s)
) as c (is_named, can_run)
where t.job_id = %(job)s::uuid
group by t.node, t.status;

-- name: select_batches
-- The batches of a fan-in that a verb resets: those that it selects, and those whose page contains an item that the
-- verb resets. The last task of the fan-in counts only for the epochs and for the time of the results.
with touched as materialized (
    select distinct f.item / %(page_size)s::int as batch
    from tasks f
    where f.job_id = %(job)s::uuid and f.node = %(fan_out)s and not f.waits and f.gone is null
        and (f.params is not null or f.params_ref is not null)
        and (f.status <> 'ready' or f.item < %(fan_out_enqueued)s) and f.status = any(%(of_statuses)s::text[])
        and (%(of_items)s::int[] is null or f.item = any(%(of_items)s::int[]))
        and (%(of_code)s::text is null or f.error->>'code' = %(of_code)s)
        and (%(of_fingerprint)s::text is null or f.error->>'fingerprint' = %(of_fingerprint)s)
)
select t.status, count(*) filter (where c.is_meant and c.can_run)::int as chosen,
    count(*) filter (where c.is_meant and t.status <> 'ready' and not c.can_run and t.gone is null)::int as refused, max(t.epoch) as last_epoch,
    max(t.attempt + (q.state is not null)::int) as last_attempt,
    array_agg(t.item) filter (where k.batch is not null) as touched,
    extract(epoch from min(t.finished_at) filter (where c.is_meant and c.can_run or t.item < 0))::float8 as completed_since,
    extract(epoch from min(t.finished_at))::float8 as node_completed_since
from tasks t
left join touched k on k.batch = t.item
left join queue q on q.job_id = any(array[t.job_id]) and q.node = t.node and q.item = t.item
cross join lateral (
    select t.item >= 0 and (
            k.batch is not null or t.status = any(%(statuses)s::text[])
            and (%(items)s::int[] is null or t.item = any(%(items)s::int[]))
            and (%(code)s::text is null or t.error->>'code' = %(code)s)
            and (%(fingerprint)s::text is null or t.error->>'fingerprint' = %(fingerprint)s)),
        (t.params is not null or t.params_ref is not null) and not t.waits
            and (t.status <> 'ready' or t.item < %(enqueued)s)
) as c (is_meant, can_run)
where t.job_id = %(job)s::uuid and t.node = %(node)s
group by t.status;

-- name: reset_tasks
-- Makes tasks ready again, with a new epoch and full budgets. Live leases end with their queue rows. Ended attempts and
-- completed ones stay in the history; a task that had completed starts without its checkpoints.
with chosen as materialized (
    select t.* from tasks t
    where t.job_id = %(job)s::uuid and t.node = %(node)s and not t.waits and t.gone is null
        and (t.params is not null or t.params_ref is not null) and (t.status <> 'ready' or t.item < %(enqueued)s)
        and (t.item >= 0 or not %(items_only)s) and (
            t.item = any(%(also)s::int[]) or t.status = any(%(statuses)s::text[])
            and (%(items)s::int[] is null or t.item = any(%(items)s::int[]))
            and (%(code)s::text is null or t.error->>'code' = %(code)s)
            and (%(fingerprint)s::text is null or t.error->>'fingerprint' = %(fingerprint)s))
),
history as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at, finished_at)
    select c.job_id, c.node, c.item, c.attempt, c.epoch, 'done', c.worker, c.started_at, c.finished_at
    from chosen c where c.status = 'completed'
    on conflict (job_id, node, item, attempt) do nothing
),
forgotten as (
    delete from checkpoints k using chosen c
    where c.status = 'completed' and k.job_id = any(array[c.job_id]) and k.node = c.node and k.item = c.item
),
gone as (
    delete from queue q using chosen c
    where q.job_id = any(array[c.job_id]) and q.node = c.node and q.item = c.item
    returning q.*
),
cut_short as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at)
    select g.job_id, g.node, g.item, g.attempt, g.epoch, 'withdrawn', w.name, g.claimed_at
    from gone g left join workers w on w.worker_id = g.holder where g.state = 'leased'
    on conflict (job_id, node, item, attempt) do nothing
)
update tasks t
set status = 'ready', waits = true, epoch = t.epoch + 1,
    attempt = t.attempt + (g.state is not distinct from 'leased')::int,
    retry_count = 0, lost_count = 0, crash_count = 0, requeue_count = 0, output = null, output_ref = null, error = null,
    undo = null, worker = null, started_at = null, finished_at = null,
    has_contract = nullif(%(has_contract)s::boolean, false)
from chosen c left join gone g on g.item = c.item
where t.job_id = any(array[c.job_id]) and t.node = c.node and t.item = c.item;

-- name: restart_node
-- Deletes all tasks of a node, or only its own task, with their queue rows and leases. Completed and running attempts
-- stay in the history.
with history as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at, finished_at)
    select t.job_id, t.node, t.item, t.attempt, t.epoch, 'done', t.worker, t.started_at, t.finished_at
    from tasks t
    where t.job_id = %(job)s::uuid and t.node = %(node)s and t.status = 'completed'
        and (t.item < 0 or not %(own_only)s)
    on conflict (job_id, node, item, attempt) do nothing
),
forgotten as (
    delete from checkpoints k
    where k.job_id = %(job)s::uuid and k.node = %(node)s and (k.item < 0 or not %(own_only)s)
),
withdrawn as (
    delete from artifacts a
    where a.job_id = %(job)s::uuid and a.node = %(node)s and (a.item < 0 or not %(own_only)s)
),
gone as (
    delete from queue q where q.job_id = %(job)s::uuid and q.node = %(node)s and (q.item < 0 or not %(own_only)s)
    returning q.*
),
cut_short as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at)
    select g.job_id, g.node, g.item, g.attempt, g.epoch, 'withdrawn', w.name, g.claimed_at
    from gone g left join workers w on w.worker_id = g.holder where g.state = 'leased'
    on conflict (job_id, node, item, attempt) do nothing
)
delete from tasks t where t.job_id = %(job)s::uuid and t.node = %(node)s and (t.item < 0 or not %(own_only)s);

-- name: undo_tasks
-- Makes the completed tasks of a node ready again, for the handler that undoes them. They keep what they have given. It
-- stays in the history with the attempt that gave it.
with chosen as materialized (
    select t.* from tasks t
    where t.job_id = %(job)s::uuid and t.node = %(node)s and t.status = 'completed' and (t.item < 0) = %(own_only)s
),
history as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at, finished_at, extra)
    select c.job_id, c.node, c.item, c.attempt, c.epoch, 'done', c.worker, c.started_at, c.finished_at,
        jsonb_strip_nulls(jsonb_build_object('output', c.output, 'output_ref', c.output_ref))
    from chosen c where c.undo is null
    on conflict (job_id, node, item, attempt) do update
    set extra = coalesce(attempts.extra, '{}') || excluded.extra
),
forgotten as (
    delete from checkpoints k using chosen c
    where k.job_id = any(array[c.job_id]) and k.node = c.node and k.item = c.item
)
update tasks t
set status = 'ready', waits = true, epoch = t.epoch + 1, retry_count = 0, lost_count = 0, crash_count = 0,
    requeue_count = 0, error = null, finished_at = null,
    undo = jsonb_build_object('completed_at', extract(epoch from t.finished_at))
from chosen c
where t.job_id = any(array[c.job_id]) and t.node = c.node and t.item = c.item;

-- name: finish_undos
-- The epoch guards the write, as in finish_tasks. A task that could not be undone is completed as before.
with wanted as (
    select * from {{FinishUndo}}
),
forgotten as (
    delete from checkpoints k using wanted w
    where k.job_id = any(array[w.job_id]) and k.node = w.node and k.item = w.item
)
update tasks t
set status = case when w.is_undone then 'cancelled' else 'completed' end, attempt = w.attempt,
    output = case when w.is_undone then null else t.output end,
    output_ref = case when w.is_undone then null else t.output_ref end,
    error = case when w.is_undone then w.error end,
    undo = case when not w.is_undone then jsonb_build_object('error', w.error) end,
    worker = case when w.is_undone then w.worker else t.worker end,
    started_at = case when w.is_undone then to_timestamp(w.started_at) else t.started_at end,
    finished_at = case when w.is_undone then now() else {{completed_at}} end
from wanted w
where t.job_id = any(array[w.job_id]) and t.node = w.node and t.item = w.item and t.epoch = w.epoch
    and t.status = 'ready' and t.undo is not null;

-- name: completed_at
-- When a task had completed that is being undone.
to_timestamp((t.undo->>'completed_at')::float8);

-- name: accept_undo
-- Tasks that could not be undone count as undone.
update tasks t
set status = 'cancelled', output = null, output_ref = null, error = %(error)s::jsonb, undo = null, finished_at = now()
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.status = 'completed' and t.undo is not null;

-- name: skip_tasks
-- Ends all tasks that have not completed. Live leases end with their queue rows, and their attempts stay in the
-- history.
with gone as (
    delete from queue q where q.job_id = %(job)s::uuid and q.node = %(node)s
    returning q.*
),
cut_short as (
    insert into attempts (job_id, node, item, attempt, epoch, outcome, worker, started_at)
    select g.job_id, g.node, g.item, g.attempt, g.epoch, 'withdrawn', w.name, g.claimed_at
    from gone g left join workers w on w.worker_id = g.holder where g.state = 'leased'
    on conflict (job_id, node, item, attempt) do nothing
)
update tasks t
set status = 'skipped', waits = false, finished_at = coalesce(t.finished_at, now()),
    attempt = t.attempt + (select count(*) from gone g where g.item = t.item and g.state = 'leased')
where t.job_id = %(job)s::uuid and t.node = %(node)s and t.status <> 'completed';

-- name: enqueue_waiting
-- Queues the next reset tasks, in item order.
with wanted as (
    select * from {{EnqueueWaiting}}
),
chosen as (
    select w.*, t.item, t.epoch, t.attempt, t.place
    from wanted w
    cross join lateral (
        select k.item, k.epoch, k.attempt, row_number() over (order by k.item) - 1 as place
        from (
            select * from tasks k where k.job_id = any(array[w.job_id]) and k.node = w.node and k.waits
            order by k.item limit w.number
        ) k
    ) t
),
moved as (
    update tasks t set waits = false
    from chosen c where t.job_id = any(array[c.job_id]) and t.node = c.node and t.item = c.item
)
insert into queue (job_id, node, item, epoch, attempt, lane_id, priority, rank, owner, timeout_seconds,
    queue_timeout_seconds)
select c.job_id, c.node, c.item, c.epoch, c.attempt + 1, c.lane_id, c.priority,
    least(c.rank + c.place, %(rank_limit)s), %(me)s, c.timeout_seconds, c.queue_timeout_seconds
from chosen c;

-- name: breaker_columns
b.name as key, b.tenant, b.state, b.settings::text as settings, b.calls::text as calls, b.successes,
    extract(epoch from b.changed_at)::float8 as changed_at, extract(epoch from b.until)::float8 as until, b.held, b.reason;

-- name: load_breakers
-- Locks breakers until the commit, in one order everywhere, so that calls that two owners report at once are both
-- counted.
select {{breaker_columns}}
from breakers b
where b.name = any(%(keys)s::text[])
order by b.name
for update;

-- name: load_free_breakers
-- The same, but for those that another session has locked: they wait for the next look.
select {{breaker_columns}}
from breakers b
where b.name = any(%(keys)s::text[])
order by b.name
for update skip locked;

-- name: write_breakers
-- Every change of state, and every action of a person, adds a line to the history.
with wanted as (
    select * from unnest(%(key)s::text[], %(state)s::text[], %(calls)s::jsonb[], %(successes)s::int[],
        %(changed_at)s::float8[], %(until)s::float8[], %(held)s::boolean[], %(reason)s::text[], %(actor)s::text[])
        as w (name, state, calls, successes, changed_at, until, held, reason, actor)
),
changed as (
    insert into breaker_changes (name, state, reason, actor)
    select w.name, w.state, w.reason, w.actor from wanted w join breakers b on b.name = w.name
    where b.state <> w.state or w.actor is not null
)
update breakers b
set state = w.state, calls = w.calls, successes = w.successes, changed_at = to_timestamp(w.changed_at),
    until = to_timestamp(w.until), held = w.held, reason = w.reason,
    actor = case when b.state <> w.state or w.actor is not null then w.actor else b.actor end
from wanted w where b.name = w.name;

-- name: survived
-- This orchestrator advanced the job alone and did not die.
update jobs set deaths = 0, died_at = null where job_id = any(%(jobs)s::uuid[]) and deaths > 0;

-- name: forget_commits
-- Deletes marks that this orchestrator no longer remembers.
delete from last_commits where orchestrator_id = %(me)s;

-- name: note_commit
-- Replaces the mark of the previous commit by the mark of this one.
with former as (
    delete from last_commits c where c.orchestrator_id = %(me)s and c.mark = %(former)s
)
insert into last_commits (orchestrator_id, mark) values (%(me)s, %(mark)s);
