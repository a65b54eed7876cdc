"""Benchmarks: the engine compared with the limit of the same machine. Only ratios mean anything."""
