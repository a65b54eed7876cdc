-- Where a lane begins: below its floor nothing is ready any more, and a claim need not pass the dead rows there.
-- While somebody holds an old snapshot open, no vacuum can remove them, and they grow with every task.
-- ceiling is the next floor at most; it holds when every transaction that is older than ceiling_xid is over.
alter table lanes
    add column floor bigint not null default 0,
    add column ceiling bigint,
    add column ceiling_xid xid8;
