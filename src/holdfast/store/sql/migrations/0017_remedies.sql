-- What else can be done, where the owner refuses a person's signal. Null: nothing is known, or it was applied.
alter table answers add column remedy text;
