-- The hooks of apps: what is called when a job has ended. A process that has the app makes its hooks known, so that all
-- owners note the ends of jobs for them, also those in processes without the app.

create table hooks (
    name text not null,
    seen_at timestamptz not null default now(),
    primary key (name)
);
