-- The definitions of each tenant. The table of workflows has the content of each definition once, with the tenant that
-- submitted it first: a tenant that submitted an equal one later did not find it by its id.
create table registrations (
    tenant text not null,
    definition_hash text not null,
    workflow_id text not null,
    version text not null,
    registered_at timestamptz not null default now(),
    primary key (tenant, definition_hash)
);
create index registrations_by_id on registrations (tenant, workflow_id, registered_at desc);

insert into registrations (tenant, definition_hash, workflow_id, version, registered_at)
select tenant, definition_hash, workflow_id, version, registered_at from workflows
union all
select j.tenant, j.definition_hash, w.workflow_id, w.version, min(j.created_at)
from jobs j join workflows w on w.definition_hash = j.definition_hash and w.tenant <> j.tenant
group by j.tenant, j.definition_hash, w.workflow_id, w.version;
