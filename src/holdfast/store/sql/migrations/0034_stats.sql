-- What happened in each minute, by tenant: the events of the minute, counted. The janitor counts each event once.
create table stats (
    tenant text not null,
    minute timestamptz not null,
    jobs_submitted int not null default 0,
    jobs_completed int not null default 0,
    jobs_partial int not null default 0,
    jobs_failed int not null default 0,
    jobs_cancelled int not null default 0,
    tasks_completed int not null default 0,
    tasks_failed int not null default 0,
    tasks_skipped int not null default 0,
    tasks_cancelled int not null default 0,
    attempts_failed int not null default 0,
    primary key (tenant, minute)
);
create index stats_by_time on stats using brin (minute);

-- Which events are counted: those that this snapshot sees. Events from before this migration are not counted.
create table stats_progress (
    is_only_row boolean not null default true,
    snapshot pg_snapshot not null,
    counted_at timestamptz not null default now(),
    primary key (is_only_row),
    constraint there_is_one_row check (is_only_row)
);
insert into stats_progress (snapshot) values (pg_current_snapshot());
