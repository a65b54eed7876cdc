"""Each event declares its data; the simulation's model refuses an event that has other data."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import EventName
from tests.simulation.event_data import SHAPES, check_data


def test_every_event_declares_its_data() -> None:
    assert set(SHAPES) == set(EventName)


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("job_started", None),
        ("job_completed", None),
        ("job_held", {"by": "pause", "name": "ann", "until": None}),
        ("job_held", {"by": "pause", "name": "ann", "reason": "", "until": None}),
        ("node_dispatched", {"queue": "q", "handler": "h"}),
        ("node_dispatched", {"width": 3}),
        ("node_failed", {"code": "E", "message": "m", "class": "permanent"}),
    ],
)
def test_declared_data_is_accepted(event: str, data: dict[str, Any] | None) -> None:
    check_data(event, data)


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("job_started", {"width": 3}),
        ("job_held", None),
        ("job_held", {"by": "pause", "name": "ann"}),
        ("node_dispatched", {"queue": "q", "handler": "h", "width": 3}),
        ("node_failed", {"failure_class": "permanent"}),
    ],
)
def test_other_data_is_refused(event: str, data: dict[str, Any] | None) -> None:
    with pytest.raises(AssertionError, match=event):
        check_data(event, data)
