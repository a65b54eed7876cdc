"""What a process counts of its own work, and the catalogue of all metrics.

Plain numbers in dictionaries: to count costs a fraction of a microsecond, and reading them is the work of the scrape.
Knows nothing of Prometheus and of HTTP.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

OTHER = "other"
"""Stands for every value that a label does not name."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Where the figures of a metric come from."""

    PROCESS = "process"
    """This process has counted them since it began. Add up those of all processes."""
    DATABASE = "database"
    """All processes show the same. Take the maximum."""


class Metric(NamedTuple):
    """One metric. A label has few values, and no user can add one beyond a limit."""

    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    source: Source = Source.PROCESS


def _counter(meaning: str, *labels: str) -> Metric:
    return Metric(Kind.COUNTER, meaning, labels)


def _gauge(meaning: str, *labels: str) -> Metric:
    return Metric(Kind.GAUGE, meaning, labels)


def _histogram(meaning: str) -> Metric:
    return Metric(Kind.HISTOGRAM, meaning)


def _figure(meaning: str, *labels: str) -> Metric:
    return Metric(Kind.GAUGE, meaning, labels, Source.DATABASE)


METRICS: dict[str, Metric] = {
    # Orchestrators
    "jobs_created": _counter("Jobs that an orchestrator took on for the first time."),
    "jobs_finished": _counter(
        "Jobs that ended, by how. A job that ends again after a recovery counts again.", "status"
    ),
    "tasks_finished": _counter(
        "Tasks that ended, by `outcome` (completed, failed, skipped, cancelled) and `code` of the failure.",
        "outcome",
        "code",
    ),
    "retries": _counter(
        "Attempts that failed or were lost and are followed by another, by `outcome` (failed, lost) and `code`.",
        "outcome",
        "code",
    ),
    "breaker_moves": _counter(
        "Breakers that an orchestrator opened or closed, by the new state. Those of people and probes do not count.",
        "state",
    ),
    "cycle_seconds": _histogram("How long a cycle of an orchestrator took that had something to do."),
    "jobs_owned": _gauge("Open jobs that the orchestrators of this process own."),
    # Workers
    "attempts": _counter(
        "Attempts that ended in this worker, by `outcome` (completed, failed, given_back, lost) and `code`.",
        "outcome",
        "code",
    ),
    "attempt_seconds": _histogram("How long an attempt took: the handler, and its large values."),
    "claim_seconds": _histogram("How long it took to claim tasks, with the reports that went along."),
    "tasks_claimed": _counter("Tasks that this worker claimed."),
    "slots": _gauge("How many tasks this worker can run at once."),
    "slots_busy": _gauge("How many tasks it holds now: those that run, and those that it has claimed ahead."),
    # The janitor
    "janitor_actions": _counter("Actions of the janitor, by its duty and what it did.", "duty", "action"),
    "janitor_leads": _gauge("1 if the janitor of this process leads, else 0."),
    # Connections
    "readers": _gauge("How many reads the pool of readers carries out at once.", "pool"),
    "readers_busy": _gauge("How many of them are under way.", "pool"),
    "readers_waiting": _gauge("Reads that wait for one of the connections.", "pool"),
    "connections": _gauge("Open connections to the database.", "pool"),
    "info": _gauge("Always 1; `version` is that of the process.", "version"),
    # The database
    "database_up": _figure("1 if the database answered the last read of the figures below, else 0: they are missing."),
    "queue_tasks": _figure(
        "Tasks in each queue, by `state`: `ready` for a worker; `waiting` for their next attempt; `held` behind a"
        " breaker, a limit or a pause; `running`. At most 100 queues are named, the rest together is `other`.",
        "queue",
        "state",
    ),
    "queue_oldest_seconds": _figure("How long the oldest task that is ready has been so.", "queue"),
    "jobs_open": _figure("Jobs that have not ended, by status.", "status"),
    "signals_waiting": _figure("Signals that their owner has not read."),
    "signals_oldest_seconds": _figure("How old the oldest of them is."),
    "breakers": _figure("Breakers by state.", "state"),
    "breaker_open_seconds": _figure(
        "Since when a breaker has not been closed: the 100 that have been open longest.", "breaker"
    ),
    "outbox_waiting": _figure("Events for receivers of notifications that are not handed on yet."),
    "outbox_oldest_seconds": _figure("How old the oldest of them is."),
    "deliveries_waiting": _figure("Notifications that are not sent yet."),
    "deliveries_oldest_seconds": _figure("How long the oldest of them has been tried."),
    "deliveries_dead": _figure(
        "Notifications that died within a day: no process tries them before a person sends them again."
    ),
    "destinations_failing": _figure("Receivers of notifications that fail now."),
    "orchestrators": _figure("Orchestrators that are alive."),
    "workers": _figure("Workers that are alive; for a key of one tenant, those that may run its tasks."),
    "worker_slots": _figure("How many tasks the live workers can run at once."),
    "janitor_pass_seconds": _figure("How long ago the janitor finished its last pass."),
}
"""By name, without the prefix `holdfast_`. A counter ends in `_total` where it is shown."""

STATUSES = ("completed", "partial", "failed", "cancelled")
KNOWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "jobs_finished": tuple((status,) for status in STATUSES),
    "tasks_finished": (("completed", ""), ("failed", OTHER)),
    "retries": (("failed", OTHER), ("lost", "WORKER_LOST")),
    "breaker_moves": (("open",), ("closed",)),
    "attempts": (("completed", ""), ("failed", OTHER)),
}
"""Where counters begin with 0: otherwise a rate would leave out the first one."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BOUNDS: dict[str, tuple[float, ...]] = {
    "cycle_seconds": SECONDS,
    "claim_seconds": SECONDS,
    "attempt_seconds": (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0),
}


class Histogram:
    """How many values lie below each bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Each value is in one of them: the first whose bound it does not pass."""
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Sample(NamedTuple):
    """The value of a gauge at the time of the scrape."""

    metric: str
    value: float
    labels: tuple[str, ...] = ()


class Meters:
    """The counters of one process. Its services share them; only the thread of their event loop counts."""

    def __init__(self, codes: Iterable[str] = ()) -> None:
        """`codes` are those of failures that may be labels: any other is `other`."""
        self._codes = frozenset(codes)
        self.counters: dict[str, dict[tuple[str, ...], int]] = {
            name: dict.fromkeys(KNOWN.get(name, () if metric.labels else ((),)), 0)
            for name, metric in METRICS.items()
            if metric.kind is Kind.COUNTER
        }
        self.histograms = {name: Histogram(bounds) for name, bounds in BOUNDS.items()}
        self._watched: list[Callable[[], Iterable[Sample]]] = []

    def count(self, metric: str, *labels: str, by: int = 1) -> None:
        counts = self.counters[metric]
        counts[labels] = counts.get(labels, 0) + by

    def count_ends(self, metric: str, ends: Mapping[tuple[str, str], int]) -> None:
        """Add numbers by outcome and code."""
        for (outcome, code), number in ends.items():
            self.count(metric, outcome, self.code(code), by=number)

    def code(self, code: str) -> str:
        """The code as a label: one that neither Holdfast nor an installed handler declares has no name there."""
        return code if not code or code in self._codes else OTHER

    def time(self, metric: str, seconds: float) -> None:
        self.histograms[metric].add(seconds)

    def watch(self, look: Callable[[], Iterable[Sample]]) -> None:
        """Gauges that are read at each scrape."""
        self._watched.append(look)

    def gauges(self) -> list[Sample]:
        return [sample for look in self._watched for sample in look()]
