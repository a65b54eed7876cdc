-- Collections and items. Lock order: items of one collection by their id; a statement that takes several sorts them.

-- name: upsert_collection
-- Make a collection, or change one that differs; no row says that it was there as it is.
insert into stac.collections as c (collection_id, content)
values (%(collection_id)s, %(content)s::jsonb)
on conflict (collection_id) do update set content = excluded.content, updated_at = now()
where c.content <> excluded.content
returning c.xmax = 0 as created;

-- name: upsert_items
-- Any number of items at once. Those that are there with the same digest stay untouched. Of a row that was inserted
-- xmax is 0; of one that was changed it is the transaction that locked it.
with given as (
    select r.*
    from json_to_recordset(%(rows)s::json) as r (
        item_id text, content jsonb, item_digest text, content_hash text, box box, during tstzrange, job_id text, node text
    )
),
written as (
    insert into stac.items as i
        (collection_id, item_id, content, item_digest, content_hash, box, during, job_id, node)
    select %(collection_id)s, g.item_id, g.content, g.item_digest, g.content_hash, g.box, g.during, g.job_id, g.node
    from given g
    order by g.item_id
    on conflict (collection_id, item_id) do update
    set content = excluded.content, item_digest = excluded.item_digest, content_hash = excluded.content_hash,
        box = excluded.box, during = excluded.during, job_id = excluded.job_id, node = excluded.node, updated_at = now()
    where i.item_digest <> excluded.item_digest
    returning i.xmax = 0 as created
)
select count(*) filter (where w.created) as created, count(*) filter (where not w.created) as updated from written w;

-- name: item_digests
-- What is there of these items.
select i.item_id, i.item_digest from stac.items i
where i.collection_id = %(collection_id)s and i.item_id = any(%(item_ids)s::text[]);

-- name: find_items
-- One page of what fits, in the order of ids; what is null does not matter. Of a box that goes over the antimeridian
-- the part beyond it is looked for a whole turn to the west and to the east as well.
select i.content, i.created_at, i.updated_at from stac.items i
where (%(collections)s::text[] is null or i.collection_id = any(%(collections)s::text[]))
    and (%(ids)s::text[] is null or i.item_id = any(%(ids)s::text[]))
    and (%(box)s::box is null or i.box && %(box)s::box or i.box && (%(box)s::box + point(360, 0))
        or i.box && (%(box)s::box - point(360, 0)))
    and (%(during)s::tstzrange is null or i.during && %(during)s::tstzrange)
    and (%(job_id)s::text is null or i.job_id = %(job_id)s::text)
    and (%(content_hash)s::text is null or i.content_hash = %(content_hash)s::text)
    and (%(properties)s::jsonb is null or (i.content -> 'properties') @> %(properties)s::jsonb)
    and (%(after_collection)s::text is null
        or (i.collection_id, i.item_id) > (%(after_collection)s::text, %(after_item)s::text))
order by i.collection_id, i.item_id
limit %(limit)s;

-- name: delete_items
-- Delete those of these items that are there.
with doomed as (
    select i.collection_id, i.item_id from stac.items i
    where i.collection_id = %(collection_id)s and i.item_id = any(%(item_ids)s::text[])
    order by i.item_id
    for update
)
delete from stac.items i using doomed d where i.collection_id = d.collection_id and i.item_id = d.item_id;

-- name: summaries
-- Every collection with what its items say of it now. The longitudes are counted twice, from -180 and from 0: if an item
-- goes over the antimeridian, the narrower of the two is the extent.
select c.collection_id, c.content, c.created_at, c.updated_at, count(i.item_id) as items,
    min((i.box[1])[0]) as west, max((i.box[0])[0]) as east, min((i.box[1])[1]) as south, max((i.box[0])[1]) as north,
    min((i.box[1])[0] + case when (i.box[1])[0] < 0 then 360 else 0 end) as west_of_zero,
    max((i.box[0])[0] + case when (i.box[1])[0] < 0 then 360 else 0 end) as east_of_zero,
    coalesce(bool_or((i.box[0])[0] > 180), false) as crosses,
    min(lower(i.during)) as begins, max(upper(i.during)) as ends
from stac.collections c
left join stac.items i on i.collection_id = c.collection_id
where %(collections)s::text[] is null or c.collection_id = any(%(collections)s::text[])
group by c.collection_id
order by c.collection_id;

-- name: jobs_ending
-- The jobs that made something and whose id ends so.
select distinct i.job_id from stac.items i
where right(i.job_id, length(%(ending)s::text)) = %(ending)s::text order by i.job_id limit 10;
