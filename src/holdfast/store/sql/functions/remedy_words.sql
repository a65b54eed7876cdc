-- A remedy as an owner wrote it, for a person who has only psql: with the function that does what it says, if there is
-- one, else with the command. A remedy of an older version is a sentence.
create function remedy_words(stored text) returns text language plpgsql immutable as $$
declare
    remedy jsonb;
    verb text;
    job text;
    call text;
begin
    if stored is null or stored not like '{%' then
        return stored;
    end if;
    remedy := stored::jsonb;
    verb := remedy ->> 'verb';
    job := remedy ->> 'job';
    call := case
        when verb in ('status', 'why', 'watch') and job is not null then
            format('select * from holdfast.explain_job(%L);', job)
        when verb in ('resume', 'pause', 'unpause', 'cancel') then format('select holdfast.%s_job(%L);', verb, job)
        when verb in ('retry', 'skip') then format('select holdfast.%s_node(%L, %L%s);', verb, job, remedy ->> 'node',
            case when remedy -> 'flags' ? '--only' then ', only_this => true' else '' end)
        else concat_ws(' ', 'holdfast', verb, job, remedy ->> 'node', (
            select string_agg(flag, ' ') from jsonb_array_elements_text(remedy -> 'flags') as flag))
    end;
    return remedy ->> 'text' || case when verb is null then '' else ': ' || call end;
end
$$;
