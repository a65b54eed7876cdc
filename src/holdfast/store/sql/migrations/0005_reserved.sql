-- Nothing: this number belongs to a change that is under way.
select 1;
