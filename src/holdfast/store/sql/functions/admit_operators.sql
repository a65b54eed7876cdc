-- Makes the role of the people who recover jobs with psql, if that is allowed, and lets it use the views and functions
-- for people, and nothing else. False: there is no such role, and this login may not make it. Harmless to repeat.
create function admit_operators(role text default 'holdfast_operator') returns boolean
language plpgsql set search_path = holdfast, pg_temp as $$
begin
    revoke all on function no_such_job, verb_refusal, send_verb, orchestrators_for, remedy_words, one_line, calls_for,
        explain_job, resume_job, retry_node, clear_tasks, skip_node, pause_job, unpause_job, cancel_job, answer,
        admit_operators from public;
    if not exists (select 1 from pg_roles where rolname = role) then
        begin
            execute format('create role %I nologin', role);
        exception
            -- Roles belong to the whole server: another database may make it at this moment.
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then return false;
        end;
    end if;
    execute format('grant usage on schema holdfast to %I', role);
    execute format('grant select on job_overview, node_overview, failed_tasks to %I', role);
    execute format('grant execute on function explain_job, resume_job, retry_node, clear_tasks, skip_node, pause_job,
        unpause_job, cancel_job, answer to %I', role);
    return true;
end
$$;
