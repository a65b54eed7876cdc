-- The jobs of a cycle that is not committed yet, noted by orchestrators that come after one that died: if one dies
-- again, these jobs are advanced alone, and the one in whose cycle orchestrators keep dying is left alone.
create table open_cycles (
    orchestrator_id bigint primary key,
    jobs uuid[] not null
);
-- 1: was in the cycle in which an orchestrator died; and one more for each that died while it advanced this job alone.
alter table jobs add column deaths int not null default 0;
alter table jobs add column died_at timestamptz;
create index jobs_in_whose_cycles_orchestrators_died on jobs (job_id) where deaths > 0;
