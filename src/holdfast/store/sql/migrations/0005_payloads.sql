-- Large values lie in an object store, content-hashed, under their job; these rows tell which ones a job refers to.
create table payloads (
    job_id uuid not null,
    digest text not null,
    bytes bigint not null,
    stored_at timestamptz not null default now(),
    primary key (job_id, digest),
    constraint payloads_are_named_by_their_sha256 check (digest ~ '^[0-9a-f]{64}$')
);

-- Files that handlers have published: a row is written in the commit that takes the report, and never before.
create table artifacts (
    job_id uuid not null,
    node text collate "C" not null,
    item int not null,
    name text not null,
    digest text not null,
    bytes bigint not null,
    attempt int not null,
    published_at timestamptz not null default now(),
    primary key (job_id, node, item, name)
);

-- In place of the value, where it is large; tasks have had these columns from the start.
alter table nodes add column output_ref text;
alter table jobs add column result_ref text;
