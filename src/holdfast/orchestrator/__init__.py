"""Orchestrators decide: they own jobs, drain their signals, run the core and commit."""
