-- What holds a lane back, if anything does.
create function gates_of(lane lanes) returns text[] language sql immutable as $$
    select case when lane.breaker <> '' then array['breaker:' || lane.breaker] else '{}' end
        || array['limit::queue:' || lane.queue, 'limit:' || lane.tenant || ':tenant']
        || (select coalesce(array_agg('limit:' || lane.tenant || ':' || one), '{}')
            from unnest(string_to_array(nullif(lane.limit_key, ''), e'\n')) as one)
$$;
