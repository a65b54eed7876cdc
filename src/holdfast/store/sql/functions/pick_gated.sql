-- Ready tasks of these lanes in claim order, locked, as many as breakers and limits let through. A gate that another
-- claim is using at this moment is left to it: its lanes are passed over.
create function pick_gated(lane_ids int[], at_most int, everything boolean)
returns table (job_id uuid, node text, item int, handler text, priority smallint, rank int, id bigint)
language plpgsql as $$
#variable_conflict use_column
declare
    gate record;
    found record;
    wanted text[];
    names text[] := '{}';
    free int[] := '{}';
    used int[] := '{}';
    shut text[] := '{}';
    place int;
    key text;
    taken int := 0;
begin
    select coalesce(array_agg(distinct one), '{}') into wanted
    from lanes l, unnest(gates_of(l)) as one where l.lane_id = any(lane_ids);
    -- Those that exist and let only some through; the rest is open, or shut altogether.
    for gate in
        select 'breaker:' || b.name as name, b.state, b.probes + b.successes as permits
        from breakers b where 'breaker:' || b.name = any(wanted) and b.state <> 'closed'
    loop
        shut := shut || gate.name;
    end loop;
    for gate in
        select 'limit:' || m.tenant || ':' || m.name as name from limits m
        where 'limit:' || m.tenant || ':' || m.name = any(wanted)
    loop
        shut := shut || gate.name;
    end loop;
    for gate in
        select 'breaker:' || b.name as name, b.probes + b.successes - (
            select count(*) from queue q join lanes l on l.lane_id = q.lane_id
            where q.state || '' = 'leased' and l.breaker = b.name) as room
        from breakers b where 'breaker:' || b.name = any(wanted) and b.state = 'half_open'
        order by b.name
        for update skip locked
    loop
        names := names || gate.name;
        free := free || gate.room::int;
    end loop;
    for gate in
        select 'limit:' || m.tenant || ':' || m.name as name,
            least(m.concurrency - (
                select count(*) from queue q join lanes l on l.lane_id = q.lane_id
                where q.state || '' = 'leased' and 'limit:' || m.tenant || ':' || m.name = any(gates_of(l))),
            floor(least(m.burst, m.tokens + case when m.refilled_at = '-infinity' then m.burst
                else m.rate * extract(epoch from now() - m.refilled_at) end))) as room
        from limits m where 'limit:' || m.tenant || ':' || m.name = any(wanted)
        order by m.tenant, m.name
        for update skip locked
    loop
        names := names || gate.name;
        -- A row that only bounds the backlog bounds nothing here.
        free := free || least(coalesce(gate.room, at_most), at_most)::int;
    end loop;
    used := array_fill(0, array[cardinality(names)]);
    for place in 1 .. cardinality(names) loop
        if free[place] > 0 then
            shut := array_remove(shut, names[place]);
        end if;
    end loop;
    for found in
        select c.job_id, c.node, c.item, l.handler, c.priority, c.rank, c.id, l.gates
        from (
            select n.lane_id, n.handler, case when everything then 0 else n.floor end as floor, gates_of(n) as gates
            from lanes n where n.lane_id = any(lane_ids)
        ) l
        cross join lateral (
            select q.job_id, q.node, q.item, q.priority, q.rank, q.id
            from queue q
            where q.lane_id = l.lane_id and q.state = 'ready' and q.id >= l.floor
            order by q.priority desc, q.rank, q.id
            limit at_most
            for update skip locked
        ) c
        where not l.gates && shut
        order by c.priority desc, c.rank, c.id
    loop
        place := null;
        foreach key in array found.gates loop
            place := array_position(names, key);
            exit when place is not null and free[place] <= used[place];
            place := null;
        end loop;
        continue when place is not null;
        foreach key in array found.gates loop
            place := array_position(names, key);
            if place is not null then
                used[place] := used[place] + 1;
            end if;
        end loop;
        job_id := found.job_id; node := found.node; item := found.item; handler := found.handler;
        priority := found.priority; rank := found.rank; id := found.id;
        return next;
        taken := taken + 1;
        exit when taken >= at_most;
    end loop;
    update limits m
    set tokens = least(m.burst, m.tokens + case when m.refilled_at = '-infinity' then m.burst
            else m.rate * extract(epoch from now() - m.refilled_at) end) - used[u.place],
        refilled_at = now()
    from unnest(names) with ordinality as u (name, place)
    where m.rate is not null and u.name = 'limit:' || m.tenant || ':' || m.name and used[u.place] > 0;
end
$$;
