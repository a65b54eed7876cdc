"""The shape of everything that leaves Holdfast: typed, frozen, one source for `--json`, for programs and for a service.

A view is plain data; `encoding.to_json` makes JSON of any of them.
"""
