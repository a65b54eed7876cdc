-- What the owner answered to a signal, in one row; applied is null while it has not answered. A cancel is answered
-- once its owner knows whether it ends anything early. One statement reads it all: an owner deletes a signal in the
-- commit that answers it.
create function answer(signal_id bigint)
returns table (applied boolean, reason text, next_step text)
language plpgsql security definer set search_path = holdfast, pg_temp as $$
declare
    seen record;
    alive bigint;
begin
    select coalesce(a.job_id, i.job_id, j.job_id) as job_id, a.applied, a.reason, a.remedy, j.job_id as stopping
    into seen
    from (select answer.signal_id as id) s
    left join answers a on a.signal_id = s.id
    left join inbox i on i.id = s.id and i.kind in ('cancel', 'pause', 'unpause', 'recover')
    left join jobs j on j.finished_at is null and j.stop_signal = s.id;
    if seen.job_id is null then
        raise exception 'There is no signal %.', coalesce(signal_id::text, 'without an id')
        using errcode = 'no_data_found',
            hint = 'Answers are kept for a day. See how the job is now with: select * from holdfast.explain_job(JOB);';
    end if;
    applied := seen.applied;
    reason := seen.reason;
    next_step := coalesce(case when not seen.applied then remedy_words(seen.remedy) end,
        format('See how the job is now with: select * from holdfast.explain_job(%L);', seen.job_id));
    if seen.applied is null then
        alive := orchestrators_for(seen.job_id);
        reason := case
            when alive = 0 then 'no orchestrator has answered yet, and none is alive'
            when seen.stopping is not null then 'the job is stopping: its last tasks run, and may finish'
            else format('no orchestrator has answered yet; %s alive',
                case when alive = 1 then '1 is' else alive || ' are' end)
        end;
        next_step := case when alive = 0 then 'Start one with: holdfast up. It answers what waits.'
            else format('Ask again with: select * from holdfast.answer(%s);', signal_id) end;
    end if;
    return next;
end
$$;
comment on function answer is 'What the owner of a job answered to a signal; applied is null while it has not.';
