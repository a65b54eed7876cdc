-- Tasks whose outputs must keep a schema of their definition; null: this one need not. The claim tells the worker.
alter table tasks add column has_contract boolean;
