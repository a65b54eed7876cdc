-- What holds tasks back, for people to see and to change: breakers and limits.

-- name: read_breakers
-- All breakers, with what waits behind each and what runs in spite of it.
with behind as (
    select l.breaker, count(*) filter (where q.state <> 'leased') as waiting,
        count(*) filter (where q.state = 'leased') as running
    from lanes l join queue q on q.lane_id = l.lane_id
    where l.breaker <> '' group by l.breaker
)
select b.name, b.state, b.held, b.changed_at, b.until,
    b.settings ->> 'probe_url' is not null or b.settings ->> 'probe_handler' is not null,
    (select count(*) from jsonb_array_elements(b.calls) c)::int,
    (select count(*) from jsonb_array_elements(b.calls) c where (c ->> 1)::boolean)::int,
    (b.settings ->> 'window_calls')::int, b.successes, coalesce(w.waiting, 0)::int, coalesce(w.running, 0)::int,
    b.reason, b.actor
from breakers b left join behind w on w.breaker = b.name
order by b.name;

-- name: clock
-- What time it is now, and not when the transaction began: it may have waited for a lock.
select extract(epoch from clock_timestamp())::float8;
