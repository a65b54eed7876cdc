"""Tier A: the real core and the real owner under a seeded scheduler, against a model of the store.

Read the model in this order: `database` has its tables, `store` its calls, `cycle` an owner's transaction. They use
`gates`, `leases` and `reports` for workers, and `writes`, `selection` and `examination` for owners. `world` runs the
processes of a seed on this model, and `checkers` checks each step.
"""
