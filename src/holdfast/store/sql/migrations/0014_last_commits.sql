-- The mark of each orchestrator's last commit, by which it notices that the database has another history than the one
-- that it remembers: a standby that lacks its last commits was promoted, or a copy was restored. A commit inserts its
-- mark and deletes the one before. The marks are looked up by their whole key: the dead rows that an open snapshot
-- keeps from vacuum cost nothing.
create table last_commits (
    orchestrator_id bigint not null,
    mark bigint not null,
    primary key (orchestrator_id, mark)
);
