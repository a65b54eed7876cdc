"""Benchmarks: our engine beside what the same machine can do at most. Only ratios of one run mean anything."""
