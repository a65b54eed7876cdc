-- Each tenant has breakers of its own. The name of a breaker is NAME for the default tenant, and NAME@TENANT for others;
-- the settings have the name that workflows give it.
alter table breakers add column tenant text not null default 'default';
