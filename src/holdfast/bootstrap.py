"""The composition root: from settings to a database, a store and a client. Names the concrete classes.

`assembly` does the same for services, whose imports would slow down every command that only looks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from holdfast.client import Client
from holdfast.embedded.server import use_embedded
from holdfast.operations.scope import Scope
from holdfast.service_address import checked_url, is_loopback, refuse_service
from holdfast.settings import Settings
from holdfast.store.database_url import check_url
from holdfast.store.installation import PostgresInstallation
from holdfast.store.payloads import Payloads, open_objects
from holdfast.store.postgres import PostgresStore

KEY_FILE = "admin.key"
"""At home: the key of the person who starts the service."""


def api_key(settings: Settings) -> str | None:
    """The configured key; for a service on this machine, that of the person who has started it here."""
    if settings.api_key is not None or settings.url is None or not is_loopback(settings.url):
        return settings.api_key
    try:
        return (settings.home / KEY_FILE).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The URL of the database to use: the configured one, or the embedded one for as long as we are in here."""
    refuse_service(settings.url)
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
    """A client for the configured tenant: of the configured service, or on a database as `open_store` prepares it."""
    if settings.url is not None:
        # Only a tenant that a person has named: that of others is the one of their key.
        scope = Scope(settings.tenant) if "tenant" in settings.model_fields_set else None
        async with Client.connect(checked_url(settings.url), scope, api_key=api_key(settings)) as remote:
            yield remote
        return
    async with open_store(settings, migrate=migrate) as store:
        yield Client(store, Scope(settings.tenant))


async def worker_place(settings: Settings) -> tuple[str, str | None]:
    """The configured service and the key for a worker. A key that may not work there is refused."""
    assert settings.url is not None
    url, key = checked_url(settings.url), api_key(settings)
    # Imported late: the library for HTTP is an extra.
    from holdfast.remote.client import refuse_without_work

    await refuse_without_work(url, key)
    return url, key


@asynccontextmanager
async def open_installation(settings: Settings) -> AsyncIterator[PostgresInstallation]:
    """The database itself, as it is: there may be no schema yet."""
    with database(settings) as url:
        installation = PostgresInstallation(url)
        try:
            yield installation
        finally:
            await installation.close()
