-- Recovery: tasks that were reset and wait to be queued, and where the epochs and attempts of a node's earlier run ended.
alter table tasks add column waits boolean not null default false;
create index tasks_that_wait_after_a_reset on tasks (job_id, node, item) where waits;

alter table nodes
    add column waiting_count int not null default 0,
    add column base_epoch int not null default 0,
    add column base_attempt int not null default 0;

alter table inbox
    drop constraint signal_kind_is_known,
    add constraint signal_kind_is_known
        check (kind in ('submitted', 'report', 'rejected', 'cancel', 'recheck', 'recover'));
