"""The store on Postgres: what clients, orchestrators, workers and the janitor each need of it, in one object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.store.attempt_output import PostgresOutput, PostgresOutputReader
from holdfast.store.audit import PostgresAudit
from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.bound_workers import PostgresBoundWorkers
from holdfast.store.defaults import PostgresDefaults
from holdfast.store.definitions import PostgresDefinitions
from holdfast.store.figures import PostgresFigures
from holdfast.store.gates import PostgresGates
from holdfast.store.identities import PostgresIdentities
from holdfast.store.janitor_store import PostgresJanitorStore
from holdfast.store.job_reads import PostgresJobReads
from holdfast.store.migrate import ensure_schema
from holdfast.store.notify import PostgresNotify
from holdfast.store.oversight import PostgresOversight
from holdfast.store.ownership import PostgresOwnership
from holdfast.store.payloads import Payloads
from holdfast.store.pruning import PostgresPruning
from holdfast.store.reading import PostgresReadStore
from holdfast.store.requests import PostgresRequests
from holdfast.store.schedules import PostgresSchedules
from holdfast.store.streams import PostgresStreams
from holdfast.store.submissions import PostgresSubmissions
from holdfast.store.task_source import PostgresTaskSource
from holdfast.store.webhooks import PostgresWebhooks


class PostgresStore(PostgresSubmissions, PostgresOwnership, PostgresTaskSource):
    """Keeps the promises of `interface.Store` and of `operations.ports.OperationsStore`.

    Only the composition root and `Client.connect` name it.
    """

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        name: str = "holdfast",
        *,
        payloads: Payloads | None = None,
        migrate: bool = False,
    ) -> AsyncIterator[PostgresStore]:
        """A store on a database whose schema is current, or with `migrate` is made so."""
        await ensure_schema(url, migrate=migrate)
        store = cls(url, name, payloads=payloads)
        try:
            yield store
        finally:
            await store.close()

    def reads(self, tenant: str | None = None) -> PostgresReadStore:
        """What can be read of the jobs of that tenant, or of all."""
        return PostgresReadStore(self.connections, self.payloads, tenant)

    def job_reads(self, tenant: str) -> PostgresJobReads:
        return PostgresJobReads(self.connections, self.payloads, tenant)

    def output(self) -> PostgresOutput:
        return PostgresOutput(self.connections)

    def output_reads(self, tenant: str | None = None) -> PostgresOutputReader:
        """What attempts of the jobs of that tenant have printed, or of all."""
        return PostgresOutputReader(self.connections, self.payloads, tenant)

    def definitions(self, tenant: str) -> PostgresDefinitions:
        return PostgresDefinitions(self.connections, self.payloads, tenant)

    def requests(self, tenant: str) -> PostgresRequests:
        return PostgresRequests(self, tenant)

    def streams(self) -> PostgresStreams:
        return PostgresStreams(self.connections)

    def oversight(self, tenant: str | None) -> PostgresOversight:
        return PostgresOversight(self.connections, tenant=tenant)

    def figures(self, tenant: str | None) -> PostgresFigures:
        return PostgresFigures(self.connections, tenant=tenant)

    def gates(self, origin: Origin = NOWHERE) -> PostgresGates:
        return PostgresGates(self, origin)

    def identities(self, origin: Origin = NOWHERE) -> PostgresIdentities:
        return PostgresIdentities(self, origin)

    def defaults(self, origin: Origin = NOWHERE) -> PostgresDefaults:
        return PostgresDefaults(self, origin)

    def schedules(self, origin: Origin = NOWHERE) -> PostgresSchedules:
        return PostgresSchedules(self, origin)

    def audit(self) -> PostgresAudit:
        return PostgresAudit(self)

    def pruning(self) -> PostgresPruning:
        return PostgresPruning(self)

    def notifications(self, tenant: str, origin: Origin = NOWHERE) -> PostgresWebhooks:
        return PostgresWebhooks(self, tenant, origin)

    def bound_workers(self) -> PostgresBoundWorkers:
        """What workers over HTTP do at the database."""
        return PostgresBoundWorkers(self)

    def notify(self) -> PostgresNotify:
        return PostgresNotify(self)

    def janitor(self) -> PostgresJanitorStore:
        return PostgresJanitorStore(self)
