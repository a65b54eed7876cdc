"""A desk for handlers in processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.define.registry import Registry
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
