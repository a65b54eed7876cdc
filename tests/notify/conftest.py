"""A stage and a receiver for each test that wants them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.store.postgres import PostgresStore
from tests.notify.hook_app import HookApp
from tests.notify.receiver import Receiver, receiving
from tests.notify.stage import Stage


@pytest.fixture
def stage(store: PostgresStore) -> Stage:
    return Stage(store)


@pytest.fixture
def app(tmp_path: Path) -> HookApp:
    return HookApp(tmp_path)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened
