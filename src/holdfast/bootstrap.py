"""The composition root: from settings to a database, a store and a client. Names the concrete classes.

`assembly` does the same for services, whose imports would slow down every command that only looks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from holdfast.client import Client
from holdfast.embedded.server import use_embedded
from holdfast.operations.scope import Scope
from holdfast.settings import Settings
from holdfast.store.connection import check_url
from holdfast.store.installation import PostgresInstallation
from holdfast.store.payloads import Payloads, open_objects
from holdfast.store.postgres import PostgresStore


@contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The URL of the database to use: the configured one, or the embedded one for as long as we are in here."""
    if settings.database_url is not None:
        check_url(settings.database_url)
        yield settings.database_url
    else:
        with use_embedded(settings.home, postgres_bin=settings.postgres_bin) as url:
            yield url


def open_payloads(settings: Settings) -> Payloads:
    """Where large values lie: the configured object store, or a folder at home."""
    objects = open_objects(settings.storage_url or str(settings.home / "payloads"))
    return Payloads(objects, settings.payload_inline_bytes, settings.payload_limit_bytes)


@asynccontextmanager
async def open_store(settings: Settings, *, migrate: bool = False) -> AsyncIterator[PostgresStore]:
    """A store on a database whose schema is current.

    Only the embedded database migrates itself. One that the user named is changed only if `migrate` says so.
    """
    with database(settings) as url:
        is_ours = settings.database_url is None
        payloads = open_payloads(settings)
        async with PostgresStore.open(url, payloads=payloads, migrate=migrate or is_ours) as store:
            yield store


@asynccontextmanager
async def open_client(settings: Settings, *, migrate: bool = False) -> AsyncIterator[Client]:
    """A client for the configured tenant, on a database as `open_store` prepares it."""
    async with open_store(settings, migrate=migrate) as store:
        yield Client(store, Scope(settings.tenant))


@asynccontextmanager
async def open_installation(settings: Settings) -> AsyncIterator[PostgresInstallation]:
    """The database itself, as it is: there may be no schema yet."""
    with database(settings) as url:
        installation = PostgresInstallation(url)
        try:
            yield installation
        finally:
            await installation.close()
