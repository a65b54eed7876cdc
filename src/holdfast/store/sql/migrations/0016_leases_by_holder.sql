-- A worker looks at each heartbeat which leases the rows give to it: there are few of them, and many rows beside them.
-- Of an expression, so that only the statement that asks by it uses the index: a report, which knows its rows, would else
-- read all leases of its worker.
create index queue_by_holder on queue ((holder + 0)) where holder + 0 is not null;
