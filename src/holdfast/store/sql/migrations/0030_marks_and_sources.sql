-- What a caller calls its submission: an id that things of one cause share, the ids that other systems have for it, and
-- where the caller wants to be called back. No part of a job's identity. Most jobs have none: the index has only the
-- others.
alter table jobs add column correlation_id text;
alter table jobs add column callback_url text;
create index jobs_by_correlation on jobs (tenant, correlation_id, job_id) where correlation_id is not null;

create table external_ids (
    tenant text not null,
    namespace text not null,
    value text not null,
    job_id uuid not null,
    primary key (tenant, namespace, value, job_id)
);
create index external_ids_by_job on external_ids (job_id);

-- The texts from which definitions were read, as they came. The last one counts; a job that brought JSON or Python
-- without a text leaves none.
create table sources (
    tenant text not null,
    definition_hash text not null,
    kind text not null,
    name text,
    content text not null,
    stored_at timestamptz not null default now(),
    primary key (tenant, definition_hash),
    constraint source_kind_is_known check (kind in ('yaml', 'json', 'python'))
);
create index artifacts_by_digest on artifacts (digest);
