-- What a database needs so that a test can set its clock and hear of every row that is committed.

create schema backstage;

-- Sessions whose search path has this schema first call this one when they say now(). It stands still while a
-- transaction lasts, because it is set only between transactions.
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
    found record;
begin
    for found in
        select c.relname, a.attname
        from pg_attrdef d
        join pg_class c on c.oid = d.adrelid
        join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
        where c.relnamespace = 'holdfast'::regnamespace and c.relname <> 'migrations'
            and pg_get_expr(d.adbin, d.adrelid) = 'now()'
    loop
        execute format('alter table holdfast.%I alter %I set default backstage.now()', found.relname, found.attname);
    end loop;
    for found in select unnest(array['jobs', 'nodes', 'tasks', 'queue', 'inbox', 'events', 'answers']) as relname
    loop
        execute format('create trigger recorded after insert or update or delete on holdfast.%I'
            ' for each row execute function backstage.record()', found.relname);
    end loop;
end $$;
