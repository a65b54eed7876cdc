"""A database with a workflow, and processes that let its schedules tick."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.schedules.stage import Stage, staged


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    async with staged(database_url) as opened:
        yield opened
