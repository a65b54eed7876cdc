"""A busy machine is no failure: examples may take as long as they like."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
