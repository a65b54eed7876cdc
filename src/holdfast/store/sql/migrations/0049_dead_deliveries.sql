-- How many deliveries have died of late is read by every look of a monitoring system.
create index dead_deliveries on deliveries (ended_at) where status = 'dead';
