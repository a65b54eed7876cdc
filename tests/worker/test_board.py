"""The memory that a worker and its watcher share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

from holdfast.store.leases import Held
from holdfast.worker import pulse
from holdfast.worker.pulse import BOARD_BYTES, Board

LEASES: list[Held] = [("job", "node", item, 1) for item in range(5)]


@pytest.fixture
def sides() -> Iterator[tuple[Board, Board]]:
    """The board of the worker, and the board of the watcher."""
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), BOARD_BYTES)
        yield Board(file.fileno()), Board(file.fileno())


def test_everything_but_begun_tasks_is_given_back(sides: tuple[Board, Board]) -> None:
    worker, watcher = sides
    assert watcher.release() == []
    worker.show(LEASES, 2)
    worker.begin()
    assert watcher.release() == LEASES[:3]
    assert worker.releases == 2
    worker.show(LEASES[1:4], 1)
    assert watcher.release() == LEASES[1:2]


def test_nothing_is_given_back_while_the_list_of_tasks_may_be_wrong(
    sides: tuple[Board, Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, watcher = sides
    monkeypatch.setattr(pulse, "BOARD_BYTES", 100)
    worker.show(LEASES, 0)
    assert watcher.release() is None
    monkeypatch.undo()
    worker.show(LEASES, 1)
    assert watcher.release() == LEASES[:1]
