"""The shape of everything that leaves Holdfast: one source for `--json`, for programs and for a service."""
