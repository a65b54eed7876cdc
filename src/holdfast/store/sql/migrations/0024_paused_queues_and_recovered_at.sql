-- A paused queue: its limit lets nothing begin until a person unpauses it. kept_concurrency is what it allowed before.
alter table limits
    add column paused_at timestamptz,
    add column paused_by text,
    add column pause_reason text,
    add column kept_concurrency int,
    drop constraint limits_are_above_zero,
    add constraint limits_are_above_zero check (
        (concurrency > 0 or concurrency = 0 and paused_at is not null)
        and rate > 0 and burst > 0 and backlog > 0 and kept_concurrency > 0
    );

-- When the present generation of a job began; null for the first one.
alter table jobs add column recovered_at timestamptz;
