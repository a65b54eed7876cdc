-- A paused job: what is queued of it is held back until a person lets it go on.
alter table queue
    drop constraint queue_state_is_known,
    add constraint queue_state_is_known check (state in ('ready', 'waiting', 'leased', 'paused'));

alter table inbox
    drop constraint signal_kind_is_known,
    add constraint signal_kind_is_known
        check (kind in ('submitted', 'report', 'rejected', 'cancel', 'recheck', 'recover', 'pause', 'unpause'));
