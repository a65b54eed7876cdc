"""The lines that services log: the name of each event, its level, and what it says.

The names are stable. Records go through Python's `logging`, so a program decides where they go; the command line writes
them to stderr. Knows nothing of streams.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

ACTIVITY = "holdfast.activity"
"""The logger of the lines about attempts, jobs and breakers, which is apart from the troubles of the services."""
REPEAT_SECONDS = 10.0
"""How often trouble that lasts is logged at most."""


class Event(NamedTuple):
    """One kind of line. Its fields are written only if they have a value."""

    level: int
    meaning: str
    fields: tuple[str, ...]


_ATTEMPT = ("job", "node", "item", "attempt", "handler")
_JOB = ("job", "workflow", "tenant")
_TICK = ("schedule", *_JOB)
_REQUEST = ("request", "method", "path", "actor")

EVENTS: dict[str, Event] = {
    # Attempts, by their worker
    "attempt_started": Event(DEBUG, "A worker started an attempt.", _ATTEMPT),
    "attempt_completed": Event(INFO, "The handler returned a result.", (*_ATTEMPT, "duration_ms")),
    "attempt_failed": Event(
        WARNING,
        "The attempt failed; the job's events say whether it is tried again.",
        (*_ATTEMPT, "duration_ms", "code", "breaker", "reason"),
    ),
    "attempt_given_back": Event(
        INFO,
        "The attempt stopped early. Its task went back to the queue and spent no retry.",
        (*_ATTEMPT, "duration_ms"),
    ),
    "attempt_lost": Event(
        WARNING, "The worker lost the lease of the task: its result does not count.", (*_ATTEMPT, "duration_ms")
    ),
    # Jobs, by their orchestrator
    "job_started": Event(DEBUG, "An orchestrator started the job.", _JOB),
    "job_completed": Event(INFO, "The job completed.", (*_JOB, "duration_ms")),
    "job_partial": Event(INFO, "The job ended with a part of its result.", (*_JOB, "duration_ms")),
    "job_cancelled": Event(INFO, "The job was cancelled.", (*_JOB, "duration_ms", "code")),
    "job_failed": Event(WARNING, "The job failed.", (*_JOB, "duration_ms", "code", "node", "item", "reason")),
    # Breakers, by the process that changed them
    "breaker_opened": Event(WARNING, "A breaker opened: its tasks wait.", ("breaker", "tenant", "reason")),
    "breaker_half_open": Event(INFO, "A breaker lets the first tasks try.", ("breaker", "tenant", "reason")),
    "breaker_closed": Event(INFO, "A breaker closed: its tasks run.", ("breaker", "tenant", "reason")),
    # Workers
    "worker_retreats": Event(
        WARNING,
        "A worker cannot use the database and tries again. `count`: how often since the last line.",
        ("reason", "count"),
    ),
    "worker_recovered": Event(WARNING, "The worker can use the database again.", ("count", "duration_ms")),
    "worker_declared_gone": Event(
        WARNING, "The worker's lease was ended by others; the worker continues under a new lease.", ("worker",)
    ),
    "heartbeat_failed": Event(WARNING, "A worker could not renew its lease.", ("reason",)),
    "report_waits": Event(
        WARNING, "A report waits because another session keeps its lease locked.", ("job", "node", "item", "attempt")
    ),
    "reports_rejected": Event(WARNING, "Reports came after their lease had ended.", ("count", "of")),
    "checkpoint_waits": Event(
        WARNING, "A checkpoint cannot be saved now and is tried again.", ("job", "node", "item", "checkpoint", "reason")
    ),
    "probe_failed": Event(WARNING, "The probe of a breaker could not be run.", ("reason",)),
    "older_code": Event(
        WARNING,
        "Files of the worker's handlers have changed since the worker imported them.",
        ("worker", "files", "reason"),
    ),
    "handlers_ignore_their_end": Event(WARNING, "Handlers still run although their worker ends.", ("count",)),
    # Orchestrators
    "orchestrator_fenced": Event(
        WARNING, "The lease of an orchestrator was ended by others; it continues under a new lease.", ("reason",)
    ),
    "orchestrator_retreats": Event(
        WARNING,
        "An orchestrator cannot use the database and tries again. `count`: how often since the last line.",
        ("orchestrator", "reason", "count"),
    ),
    "orchestrator_recovered": Event(
        WARNING, "The orchestrator can use the database again.", ("orchestrator", "count", "duration_ms")
    ),
    "upkeep_waits": Event(WARNING, "A periodic duty met a lock and is done later.", ("reason",)),
    "memory_dropped": Event(
        WARNING, "The database is not the one that it was: the orchestrator reads its jobs again.", ("jobs", "reason")
    ),
    "cycle_failed": Event(WARNING, "A cycle failed; its jobs are tried one by one.", ("jobs", "reason")),
    "job_set_aside": Event(
        WARNING,
        "The job cannot be advanced now; other jobs continue. With a traceback, at level `error`, it is a bug.",
        ("job", "seconds", "reason"),
    ),
    "clock_stepped_back": Event(WARNING, "The clock of the database went back.", ("seconds",)),
    # Notifications
    "delivery_failed": Event(
        WARNING,
        "A receiver did not take a delivery, which is tried again.",
        ("delivery", "tenant", "receiver", "job", "count", "seconds", "reason"),
    ),
    "delivery_dead": Event(
        ERROR,
        "A delivery is given up. A person can send it again.",
        ("delivery", "tenant", "receiver", "job", "count", "reason"),
    ),
    "hook_failed": Event(
        WARNING, "The hook of an app raised: a bug of the app. `delivery_failed` follows.", ("hook", "delivery", "job")
    ),
    "webhook_disabled": Event(
        ERROR, "Nothing is sent to the webhook until a person enables it.", ("tenant", "receiver", "reason")
    ),
    "notifier_retreats": Event(
        WARNING,
        "A process that delivers cannot use the database and tries again. `count`: how often since the last line.",
        ("reason", "count"),
    ),
    "notifier_recovered": Event(WARNING, "The process can use the database again.", ("count", "duration_ms")),
    "notifier_failed": Event(ERROR, "A delivery or a look for deliveries failed: a bug.", ("seconds", "delivery")),
    # The janitor
    "janitor_retreats": Event(WARNING, "The janitor cannot use the database and tries again.", ("reason",)),
    "janitor_failed": Event(ERROR, "A pass of the janitor failed: a bug.", ("seconds",)),
    "janitor_waits": Event(WARNING, "A duty met a lock and is done in the next pass.", ("duty", "reason")),
    "janitor_alert": Event(
        WARNING,
        "The janitor found something. The level is that of `severity`: `info` if it was repaired and no person needs to"
        " look. `kind`: the duty; `count`: how many; `since`: when it began or was noted.",
        ("severity", "kind", "job", "node", "count", "since", "action", "item", "reason"),
    ),
    # Schedules
    "tick_started": Event(INFO, "A tick of a schedule made a job.", ("tick", *_TICK)),
    "tick_skipped": Event(
        INFO,
        "A tick made no job. `answer`: `skipped`, as the job before it runs; `missed`, as no process was there.",
        ("tick", "answer", *_TICK),
    ),
    "tick_refused": Event(WARNING, "A tick could not make its job; a person must look.", ("tick", "reason", *_TICK)),
    "schedules_wait": Event(WARNING, "Schedules cannot tick now and are tried again.", ("reason",)),
    "schedules_failed": Event(ERROR, "A schedule cannot tick. With a traceback, it is a bug.", ("reason",)),
    # The HTTP service
    "request_answered": Event(
        DEBUG,
        "The service answered a request; a stream or a file, when it ended. `request`: its `X-Request-Id`.",
        (*_REQUEST, "status", "duration_ms"),
    ),
    "request_failed": Event(
        ERROR,
        "An answer failed, or was cut because a file is damaged. With a traceback it is a bug.",
        (*_REQUEST, "reason"),
    ),
    "streams_ended": Event(ERROR, "The streams of events ended by a bug; listeners come again.", ("reason",)),
    "app_left_out": Event(
        ERROR, "The routes, the commands or the hooks of an app cannot be used; all others are.", ("app", "reason")
    ),
    "command_failed": Event(
        ERROR, "A direct command raised, or returned what it does not declare.", ("command", "request")
    ),
    # The port of metrics
    "metrics_failed": Event(
        ERROR,
        "The figures of the database cannot be read. A database without its schema is the usual cause.",
        ("path",),
    ),
    # The store
    "payload_unavailable": Event(WARNING, "A large value cannot be read or written now.", ("reason",)),
    "payloads_left_behind": Event(
        WARNING, "Objects of a deleted job could not be removed; the next prune tries again.", ("reason",)
    ),
}


class Line:
    """The message of a record. Its text is made only if something writes it."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        """`job_set_aside: another session keeps a row locked (job=…, seconds=4)`"""
        reason = self.fields.get("reason")
        others = ", ".join(f"{name}={value}" for name, value in self.fields.items() if name != "reason")
        return self.event + (f": {reason}" if reason is not None else "") + (f" ({others})" if others else "")


class EventLog:
    """Logs events by one logger: that of a service, or ACTIVITY."""

    def __init__(self, logger: str) -> None:
        self._logger = logging.getLogger(logger)

    def writes(self, level: int) -> bool:
        """Whether a line of this level is written. Ask before you collect its fields on a hot path."""
        return self._logger.isEnabledFor(level)

    def write(self, event: str, *, error: BaseException | None = None, level: int | None = None, **fields: Any) -> None:
        """Log the event, at its own level or another.

        With an `error`, which only a bug causes, the line has its traceback and the level `error`.
        """
        level = ERROR if error is not None else EVENTS[event].level if level is None else level
        if self._logger.isEnabledFor(level):
            line = Line(event, {name: value for name, value in fields.items() if value is not None})
            # Not `log`, which finds out where it was called; no line says that.
            trace = (type(error), error, error.__traceback__) if error is not None else None
            self._logger.handle(self._logger.makeRecord(self._logger.name, level, "", 0, line, (), trace))


class LastingTrouble:
    """Logs trouble that repeats: when it begins, then at most every 10 s with a count, and when it is over."""

    def __init__(
        self, log: EventLog, event: str, over: str, *, clock: Callable[[], float] = time.monotonic, **fields: Any
    ) -> None:
        self._log = log
        self._clock = clock
        self._event, self._over = event, over
        self._fields = fields
        self._began: float | None = None
        self._written = 0.0
        self._count = self._unwritten = 0

    def again(self, reason: object) -> None:
        """The trouble is here, for the first time or still."""
        now = self._clock()
        self._count += 1
        self._unwritten += 1
        if self._began is None:
            self._began = now
        elif now < self._written + REPEAT_SECONDS:
            return
        count = self._unwritten if self._unwritten > 1 else None
        self._log.write(self._event, **self._fields, reason=str(reason), count=count)
        self._written, self._unwritten = now, 0

    def over(self) -> None:
        """It is over, if it was here."""
        if self._began is not None:
            milliseconds = round(1000 * (self._clock() - self._began))
            self._log.write(self._over, **self._fields, count=self._count, duration_ms=milliseconds)
            self._began, self._count, self._unwritten = None, 0, 0
