"""What a person should look at now, and what helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.janitor.alerting import Severity
from holdfast.remedies import Remedy
from holdfast.store.stats_rows import CauseRow
from holdfast.views.encoding import VERBATIM
from holdfast.views.fleet import UnservedTasks
from holdfast.views.gates import Breaker, Limit


@dataclass(frozen=True, slots=True)
class NextStep:
    """What can be done: in words, as a command, and as a request to this service."""

    text: str
    command: str | None
    method: str | None
    path: str | None
    body: dict[str, Any] | None = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that a person should look at. Equal things of one workflow are together."""

    severity: str
    """`error`, `warning` or `info`."""
    cause: str
    """`job_failed`, `job_partial`, `job_paused`, `job_held`, `set_aside`, `owner_gone`, `unanswered`, `breaker_open`,
    `queue_paused`, `no_worker_for_queue`, `no_worker_for_handler`, `schedule_failed`, `schedule_left_file`,
    `webhook_disabled`, `delivery_dead`, `delivery_untried` or `janitor_alert`."""
    count: int
    """How many jobs, tasks, deliveries or alerts; of a breaker or a queue, how many tasks wait behind it."""
    since: datetime
    instance: str | None
    """A job or a delivery as an example, or the breaker, the queue, the schedule or the webhook itself."""
    workflow_id: str | None
    details: str
    remedy: NextStep | None


_SEVERITY = {
    "job_failed": Severity.ERROR,
    "schedule_failed": Severity.ERROR,
    "webhook_disabled": Severity.ERROR,
    "set_aside": Severity.ERROR,
    "owner_gone": Severity.ERROR,
    "janitor_alert": Severity.ERROR,
    "no_worker_for_queue": Severity.ERROR,
    "no_worker_for_handler": Severity.ERROR,
    "job_paused": Severity.INFO,
    "queue_paused": Severity.INFO,
}
"""What is not here is a warning."""
_ORDER = list(Severity)
_TO_SEND = {
    "email": "If no process has a mail server, set HOLDFAST_SMTP_URL and HOLDFAST_SMTP_FROM for an orchestrator.",
    "hook": "If no process has the app of the hook, install it where an orchestrator runs.",
}
"""What deliveries may wait for, by their kind."""


def concerns_of(
    rows: Iterable[CauseRow],
    breakers: Iterable[Breaker],
    limits: Iterable[Limit],
    unserved: Iterable[UnservedTasks],
    *,
    administers: bool,
) -> list[Concern]:
    """The most severe first; of these the oldest. A paused queue concerns a tenant if its tasks wait there."""
    found = [
        *map(_of_row, rows),
        *(_of_breaker(one) for one in breakers if one.state != "closed"),
        *(_of_queue(one, administers) for one in limits if one.paused is not None and (administers or one.waiting)),
        *map(_of_tasks, unserved),
    ]
    by_age = sorted(found, key=lambda one: one.since)
    return sorted(by_age, key=lambda one: _ORDER.index(Severity(one.severity)))


def _concern(
    cause: str,
    count: int,
    since: datetime,
    instance: str | None,
    details: str,
    remedy: NextStep | None,
    workflow_id: str | None = None,
) -> Concern:
    severity = str(_SEVERITY.get(cause, Severity.WARNING))
    return Concern(severity, cause, count, since, instance, workflow_id, details, remedy)


def _step(remedy: Remedy, method: str | None = None, path: str | None = None, **body: Any) -> NextStep:
    return NextStep(remedy.text, remedy.command, method, path, body if method == "POST" else None)


def _of_row(row: CauseRow) -> Concern:
    return _concern(row.cause, row.number, row.since, row.instance, _details(row), _remedy(row), row.workflow_id)


def _details(row: CauseRow) -> str:
    match row.cause:
        case "job_paused":
            return f"paused by {row.text}"
        case "job_held":
            return f"held by breaker {row.text}"
        case "owner_gone":
            return f"its owner {row.text} is gone" if row.text else "no orchestrator has taken it"
        case "unanswered":
            return f"no owner has answered to {row.text}"
        case "delivery_untried":
            return f"{row.text}: no process has tried to send it for five minutes"
        case _:
            return row.text


def _remedy(row: CauseRow) -> NextStep | None:
    job = row.instance
    match row.cause:
        case "job_failed" | "job_partial":
            why = Remedy("See why, and what would continue it, with", "why", job)
            return _step(why, "GET", f"/jobs/{job}/why")
        case "job_paused":
            return _step(Remedy("Let it go on with", "unpause", job), "POST", f"/jobs/{job}/unpause")
        case "job_held":
            close = Remedy("If the dependency works again, close the breaker with", "breakers", "close", row.text)
            return _step(close, "POST", f"/breakers/{row.text}/close")
        case "schedule_failed":
            again = Remedy("Correct the cause, then let it tick with", "schedules", flags=("trigger", job or ""))
            return _step(again, "POST", f"/schedules/{job}/trigger")
        case "schedule_left_file":
            remove = Remedy("If it is no longer needed, remove it with", "schedules", flags=("remove", job or ""))
            return _step(remove, "DELETE", f"/schedules/{job}")
        case "webhook_disabled":
            enable = Remedy("When the receiver works again, enable it with", "webhooks", flags=("enable", job or ""))
            return _step(enable, "POST", f"/webhooks/{job}/enable")
        case "delivery_dead":
            dead = Remedy("See what is dead, and send it again, with", "deliveries", flags=("--status", "dead"))
            return _step(dead, "GET", "/deliveries")
        case "delivery_untried":
            needed = _TO_SEND.get(row.text, "If no orchestrator is alive, start one.")
            waits = Remedy(f"{needed} See what waits with", "deliveries", flags=("--status", "waiting"))
            return _step(waits, "GET", "/deliveries")
        case "set_aside" | "janitor_alert":
            if job is None:
                return _step(Remedy("See what the janitor has found with", "janitor"), "GET", "/janitor/actions")
            return _step(Remedy("See what happened with", "events", job), "GET", f"/jobs/{job}/events")
        case _:
            return _step(Remedy("Start one with", "orchestrator"))


def _of_breaker(one: Breaker) -> Concern:
    held = f"held open by {one.held_by}" if one.held_by is not None else one.state.replace("_", " ")
    details = f"{held}: {one.reason}" if one.reason else held
    close = Remedy("If the dependency works again, close it with", "breakers", "close", one.name)
    remedy = _step(close, "POST", f"/breakers/{one.name}/close")
    return _concern("breaker_open", one.waiting, one.since, one.name, details, remedy)


def _of_queue(one: Limit, administers: bool) -> Concern:
    assert one.paused is not None
    queue = one.name.removeprefix("queue:")
    details = f"paused by {one.paused.by}" + (f": {one.paused.reason}" if one.paused.reason else "")
    unpause = Remedy("Let its tasks begin with", "unpause", flags=("--queue", queue))
    remedy = _step(unpause, "DELETE", f"/pauses/queue:{queue}")
    if not administers:
        remedy = _step(Remedy("Ask an administrator of the installation to let its tasks begin."))
    return _concern("queue_paused", one.waiting, one.paused.since, queue, details, remedy)


def _of_tasks(one: UnservedTasks) -> Concern:
    lacks = "that handler" if one.cause == "no_worker_for_handler" else "that queue"
    details = f"no live worker has {lacks}: '{one.handler}' in the queue '{one.queue}'"
    start = Remedy("Start one with", "worker", flags=("--queue", one.queue))
    return _concern(one.cause, one.tasks, one.since, one.queue, details, _step(start))
