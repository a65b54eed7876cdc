"""The store on Postgres: what clients, orchestrators and workers each need of it, in one object."""

from __future__ import annotations

from holdfast.store.ownership import PostgresOwnership
from holdfast.store.submissions import PostgresSubmissions
from holdfast.store.task_source import PostgresTaskSource


class PostgresStore(PostgresSubmissions, PostgresOwnership, PostgresTaskSource):
    """Keeps the promises of `interface.Store`. Only the composition root names it."""
