-- The youngest transaction whose events pruning has deleted, by the identifier of the server: a copy on another server
-- counts its transactions from the beginning. A stream that goes on from before cannot know what it has missed.
create table pruned_events (
    system_identifier bigint not null,
    xid xid8 not null,
    primary key (system_identifier)
);
