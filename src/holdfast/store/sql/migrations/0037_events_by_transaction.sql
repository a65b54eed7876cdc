-- Streams of events follow the transactions that wrote them. The numbers only grow, so that inserts touch one page.
create index events_by_transaction on events (xid);
