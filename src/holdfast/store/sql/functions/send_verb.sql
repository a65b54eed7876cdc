-- Puts a verb into the inbox of a job, as the command line does, and wakes the owner when the transaction commits.
-- Returns the id by which the person finds the answer. The history names the login that sent it.
create function send_verb(
    job uuid, verb text, reason text, actor text, node text default null, items int[] default null,
    only_this boolean default false, tolerated boolean default false
)
returns bigint language plpgsql as $$
declare
    known jobs;
    refusal record;
    signal_id bigint;
    -- An array may have several dimensions; a signal has a list.
    list constant int[] := case when items is not null then array(select unnest(items)) end;
    is_steering constant boolean := verb in ('pause', 'unpause', 'cancel');
begin
    -- The job cannot be pruned meanwhile.
    select * into known from jobs j where j.job_id = job for key share;
    if known.job_id is null then
        perform no_such_job(job);
    end if;
    select * into refusal from verb_refusal(known, verb, node, list);
    if refusal.reason is not null then
        raise exception 'Job % was not changed by %: %.', job, verb, refusal.reason
        using hint = refusal.next_step, errcode = refusal.code;
    end if;
    insert into inbox (owner, job_id, kind, actor, reason, data)
    values (coalesce(known.owner, 0), job, case when is_steering then verb else 'recover' end,
        case when trim(actor) <> '' then format('%s (%s)', trim(actor), session_user) else session_user end,
        coalesce(send_verb.reason, ''), case when not is_steering then jsonb_strip_nulls(jsonb_build_object(
            'verb', verb, 'node', node, 'items', list, 'only', nullif(only_this, false),
            'tolerated', nullif(tolerated, false))) end)
    returning id into signal_id;
    perform pg_notify('holdfast_signal', coalesce(known.owner, 0)::text);
    raise notice 'The % of job % is recorded. See the answer with: select * from holdfast.answer(%);',
        verb, job, signal_id;
    return signal_id;
end
$$;
