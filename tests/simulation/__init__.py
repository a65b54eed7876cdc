"""Tier A: the real core and the real owner under a seeded scheduler, against a model of the store.

The model in reading order: `database` is what it remembers, `store` its calls, `cycle` an owner's transaction; below
these, `gates`, `leases` and `reports` of workers, and `writes`, `selection` and `examination` of owners.
"""
