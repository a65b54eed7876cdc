create table stac.collections (
    collection_id text collate "C" primary key,
    content jsonb not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint collection_has_an_id check (collection_id <> ''),
    constraint collection_is_an_object check (jsonb_typeof(content) = 'object')
);

-- An item as it was given, and beside it what it is found by. A box east of 180 degrees goes over the antimeridian; an
-- item without a geometry has none. The digest leaves out which job made the item: the same made again is the same.
create table stac.items (
    collection_id text collate "C" not null,
    item_id text collate "C" not null,
    content jsonb not null,
    item_digest text not null,
    content_hash text,
    box box,
    during tstzrange not null,
    job_id text,
    node text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (collection_id, item_id),
    constraint item_belongs_to_a_collection foreign key (collection_id) references stac.collections,
    constraint item_has_an_id check (item_id <> ''),
    constraint item_is_an_object check (jsonb_typeof(content) = 'object'),
    constraint item_has_a_moment check (not isempty(during)),
    constraint item_digest_is_a_sha256 check (item_digest ~ '^[0-9a-f]{64}$'),
    constraint content_hash_is_a_sha256 check (content_hash ~ '^[0-9a-f]{64}$')
);

create index items_by_box on stac.items using gist (box);
create index items_by_time on stac.items using gist (during);
create index items_by_job on stac.items (job_id);
create index items_by_content_hash on stac.items (content_hash);
create index items_by_id on stac.items (item_id);
create index items_by_property on stac.items using gin ((content -> 'properties') jsonb_path_ops);
