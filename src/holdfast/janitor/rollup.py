"""What happened in each minute: counts the events since the last pass, by tenant."""

from __future__ import annotations

from holdfast.janitor.duty import Chore
from holdfast.janitor.ports import JanitorStore


class Rollup(Chore):
    name = "rollup"

    async def do(self, store: JanitorStore) -> None:
        await store.roll_up()
