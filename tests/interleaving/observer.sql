-- Lets a test set the clock of a database and read every committed row.

create schema backstage;

-- Sessions whose search path begins with this schema call this function instead of pg_catalog.now(). The time stays
-- the same during a transaction, because a session sets it only between transactions.
create function backstage.now() returns timestamptz language sql stable
    as $$ select to_timestamp(current_setting('backstage.now')::float8) $$;

create table backstage.log (
    seq bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(),
    table_name text not null,
    old jsonb,
    new jsonb
);

create function backstage.record() returns trigger language plpgsql as $$
begin
    insert into backstage.log (table_name, old, new) values (tg_table_name, to_jsonb(old), to_jsonb(new));
    return null;
end $$;

do $$
declare
    target record;
begin
    for target in
        select c.relname, a.attname
        from pg_attrdef d
        join pg_class c on c.oid = d.adrelid
        join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
        where c.relnamespace = 'holdfast'::regnamespace and c.relname <> 'migrations'
            and pg_get_expr(d.adbin, d.adrelid) = 'now()'
    loop
        execute format('alter table holdfast.%I alter %I set default backstage.now()', target.relname, target.attname);
    end loop;
    for target in select unnest(array['jobs', 'nodes', 'tasks', 'queue', 'inbox', 'events', 'outbox', 'answers']) as relname
    loop
        execute format('create trigger recorded after insert or update or delete on holdfast.%I'
            ' for each row execute function backstage.record()', target.relname);
    end loop;
end $$;
