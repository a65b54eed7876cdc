-- When the lines of an attempt's log were printed: a list of [line, milliseconds since the start].
alter table attempts add column log_times jsonb;

-- What running attempts have printed so far, in parts. The worker deletes the parts when the report is accepted: the log
-- of an ended attempt is in attempts. An attempt whose worker was lost has only its parts.
create table attempt_output (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    epoch int not null,
    part int not null,
    started_at timestamptz not null,
    log text not null,
    log_times jsonb not null,
    saved_at timestamptz not null default now(),
    primary key (job_id, node, item, epoch, part)
);
