"""Tier A: the real core and the real owner under a seeded scheduler, against a model of the store."""
