"""A stage on each of the two stores: a test that uses it runs on Postgres and on the model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.store.postgres import PostgresStore
from tests.simulation.database import Database
from tests.simulation.store import ModelStore
from tests.store.stage import ModelBackstage, PostgresBackstage, Stage


@pytest.fixture(params=["postgres", "model"])
def url(request: pytest.FixtureRequest) -> str | None:
    """The database of the store; None for the model, which keeps its rows in memory."""
    return request.getfixturevalue("database_url") if request.param == "postgres" else None


@pytest.fixture
async def stage(url: str | None) -> AsyncIterator[Stage]:
    if url is None:
        database = Database()
        yield Stage(ModelStore(database), ModelBackstage(database))
        return
    store = PostgresStore(url)
    backstage = PostgresBackstage(store)
    yield Stage(store, backstage)
    await backstage.close()
    await store.close()
