"""A desk for handlers in processes, a stage for the tests of a running worker, and captured output."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from holdfast.define.registry import Registry
from holdfast.store.postgres import PostgresStore
from holdfast.worker.capture import capture_output
from tests.running import streams_kept
from tests.store.stage import PostgresBackstage, Stage
from tests.worker import isolated
from tests.worker.desk import Desk


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    registry = Registry()
    registry.add_module(isolated)
    made = Desk(registry)
    yield made
    made.executor.close()


@pytest.fixture
async def stage(store: PostgresStore) -> AsyncIterator[Stage]:
    backstage = PostgresBackstage(store)
    yield Stage(store, backstage)
    await backstage.close()


@pytest.fixture
def captured() -> Iterator[Callable[[], None]]:
    """The test itself must call this: pytest replaces the streams between set-up and test."""
    with streams_kept():
        yield capture_output
