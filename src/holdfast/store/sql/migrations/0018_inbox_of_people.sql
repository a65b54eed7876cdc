-- What people and the janitor ask: orchestrators read it first.
create index inbox_of_people on inbox (id)
    where kind in ('cancel', 'pause', 'unpause', 'recover', 'recheck');
