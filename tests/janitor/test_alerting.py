"""The shape of alerts: their severity, what they count, and since when."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.janitor.alerting import Noted, Severity, alerts_of, raise_alerts, severity_of
from holdfast.janitor.duty import ALERT, EXPIRE, RECHECK
from holdfast.janitor.service import DUTIES
from holdfast.log_events import EVENTS, Line
from holdfast.store.upkeep_rows import Finding

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
STUCK = {"tasks": 3, "first": [1, 2, 5]}


def noted(finding: Finding, minutes: int = 0) -> Noted:
    return Noted(finding, NOON + timedelta(minutes=minutes))


def test_a_timeout_is_an_error_a_lost_heartbeat_a_warning_and_a_repair_information() -> None:
    found = [
        noted(Finding("stuck_tasks", RECHECK, "r", "j", "a", None, STUCK)),
        noted(Finding("expired_leases", EXPIRE, "w is gone", "j", "a", 1)),
        noted(Finding("deadlines", RECHECK, "late", "j", None, None, {"deadline_at": NOON.isoformat()}), 5),
        noted(Finding("long_open_breakers", ALERT, "open", None, None, None, {"open_seconds": 600.0}), 20),
        noted(Finding("stuck_tasks", ALERT, "3 attempts failed", "k", "a", None, {"tasks": 1}), 30),
    ]
    shown = [(one.severity.value, one.kind, one.job_id, one.count, one.since) for one in alerts_of(found)]
    assert shown == [
        ("error", "stuck_tasks", "k", 1, NOON + timedelta(minutes=30)),
        ("error", "deadlines", "j", 1, NOON),
        ("warning", "long_open_breakers", None, 1, NOON + timedelta(minutes=10)),
        ("warning", "expired_leases", "j", 1, NOON),
        ("info", "stuck_tasks", "j", 3, NOON),
    ]


def test_findings_of_one_kind_about_one_node_are_one_alert_since_the_first() -> None:
    lost = [noted(Finding("expired_leases", EXPIRE, "r", "j", "a", item), item) for item in (3, 1, 2)]
    other = noted(Finding("expired_leases", EXPIRE, "r", "j", "b"))
    first, second = alerts_of([*lost, other])
    assert (first.node, first.count, first.since) == ("a", 3, NOON + timedelta(minutes=1))
    assert (second.node, second.count) == ("b", 1)


def test_what_needs_a_person_is_never_mere_information() -> None:
    for duty in DUTIES:
        assert severity_of(Finding(duty.name, ALERT, "r")) is not Severity.INFO


def test_the_log_has_one_line_per_alert_with_its_fields_and_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "holdfast.janitor"):
        raise_alerts(
            [
                Finding("counters", RECHECK, "wrong", "j", "a"),
                Finding("expired_leases", EXPIRE, "w is gone", "j", "a", 4),
                Finding("expired_leases", EXPIRE, "w is gone", "j", "a", 5),
            ]
        )
    lines: list[tuple[int, dict[str, Any]]] = []
    for record in caplog.records:
        assert isinstance(record.msg, Line) and record.msg.event == "janitor_alert"
        assert record.msg.fields.keys() <= set(EVENTS["janitor_alert"].fields)
        assert record.msg.fields.pop("since").endswith("Z")
        lines.append((record.levelno, record.msg.fields))
    shared = {"job": "j", "node": "a"}
    lost = {"kind": "expired_leases", "count": 2, "action": "expire", "reason": "w is gone"}
    repaired = {"kind": "counters", "count": 1, "action": "recheck", "reason": "wrong"}
    assert lines == [
        (logging.WARNING, {"severity": "warning", **shared, **lost}),
        (logging.INFO, {"severity": "info", **shared, **repaired}),
    ]
