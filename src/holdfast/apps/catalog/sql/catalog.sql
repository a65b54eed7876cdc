-- Collections and items. Lock order: the items of one collection by id. A statement that locks several sorts them.

-- name: upsert_collection
-- Create a collection, or update one that differs. No row in the answer: it exists and is unchanged.
insert into stac.collections as c (collection_id, content)
values (%(collection_id)s, %(content)s::jsonb)
on conflict (collection_id) do update set content = excluded.content, updated_at = now()
where c.content <> excluded.content
returning c.xmax = 0 as created;

-- name: upsert_items
-- Write any number of items at once. Rows with the same digest are not touched. xmax tells inserts from updates: it is 0
-- in an inserted row; in an updated row it is the transaction that locked it.
with new_items as (
    select r.*
    from json_to_recordset(%(rows)s::json) as r (
        item_id text, content jsonb, item_digest text, content_hash text, box box, during tstzrange, job_id text, node text
    )
),
written as (
    insert into stac.items as i
        (collection_id, item_id, content, item_digest, content_hash, box, during, job_id, node)
    select %(collection_id)s, n.item_id, n.content, n.item_digest, n.content_hash, n.box, n.during, n.job_id, n.node
    from new_items n
    order by n.item_id
    on conflict (collection_id, item_id) do update
    set content = excluded.content, item_digest = excluded.item_digest, content_hash = excluded.content_hash,
        box = excluded.box, during = excluded.during, job_id = excluded.job_id, node = excluded.node, updated_at = now()
    where i.item_digest <> excluded.item_digest
    returning i.xmax = 0 as created
)
select count(*) filter (where w.created) as created, count(*) filter (where not w.created) as updated from written w;

-- name: item_digests
-- The digests of those of these items that exist.
select i.item_id, i.item_digest from stac.items i
where i.collection_id = %(collection_id)s and i.item_id = any(%(item_ids)s::text[]);

-- name: find_items
-- One page of the matching items, in the order of ids; a criterion that is null does not apply. Boxes may cross the
-- antimeridian, so the searched box is also compared 360 degrees further east and further west.
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
-- Delete those of these items that exist.
with doomed as (
    select i.collection_id, i.item_id from stac.items i
    where i.collection_id = %(collection_id)s and i.item_id = any(%(item_ids)s::text[])
    order by i.item_id
    for update
)
delete from stac.items i using doomed d where i.collection_id = d.collection_id and i.item_id = d.item_id;

-- name: summaries
-- Every collection with the count and the extents of its current items. Longitudes are counted twice, from -180 and from
-- 0: if an item crosses the antimeridian, the extent is the narrower of the two.
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
-- The jobs that made an item and whose id has this ending.
select distinct i.job_id from stac.items i
where right(i.job_id, length(%(ending)s::text)) = %(ending)s::text order by i.job_id limit 10;
