-- A fan-in that takes the items of its fan-out in batches: how many make one, fixed when it begins. Its width counts the
-- batches; the task behind them has a row of its own.
alter table nodes
    add column batch_size int,
    drop constraint a_node_has_no_more_rows_than_its_width,
    add constraint a_node_has_no_more_rows_than_its_width
        check (expanded_count <= width + (batch_size is not null)::int);
