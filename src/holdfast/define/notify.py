"""The events that receivers can get, and the rules of a job: which receiver gets which events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_NOTIFY_RULES = 20
WEBHOOK_NAME = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
LONGEST_ADDRESS = 254


class NotifyEvent(StrEnum):
    """What a receiver can get."""

    JOB_COMPLETED = "job_completed"
    JOB_PARTIAL = "job_partial"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    JOB_STUCK = "job_stuck"
    """The janitor had to repair the job, or a person must look at it."""
    TASK_EXHAUSTED = "task_exhausted"
    """A task has failed for good: its retries are used up, or its failure is permanent."""
    NODE_FAILED = "node_failed"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    JANITOR_ALERT = "janitor_alert"
    """The janitor has found what only a person can mend."""


JOB_ENDS = (
    NotifyEvent.JOB_COMPLETED,
    NotifyEvent.JOB_PARTIAL,
    NotifyEvent.JOB_FAILED,
    NotifyEvent.JOB_CANCELLED,
)
EVERY_TENANT = "*"
"""Stands for all tenants where their subscriptions are."""
OF_NO_JOB = frozenset({NotifyEvent.JANITOR_ALERT})
"""What concerns no single job: only the webhooks of a tenant can get it."""
OF_JOBS = tuple(event for event in NotifyEvent if event not in OF_NO_JOB)
SHORT_NAMES = {str(event).removeprefix("job_"): event for event in (*JOB_ENDS, NotifyEvent.JOB_STUCK)}
"""`failed` is short for `job_failed`."""


def event_of(name: str) -> NotifyEvent:
    """The event with this name or short name. Raises ValueError if there is none."""
    return SHORT_NAMES.get(name) or NotifyEvent(name)


@dataclass(frozen=True, slots=True)
class NotifyRule:
    """A receiver and its events: an address, a webhook of the tenant, or a URL that the caller gave."""

    on: tuple[NotifyEvent, ...]
    email: str | None = None
    """An address; in a workflow it may be a template."""
    webhook: str | None = None
    callback: str | None = None

    def receiver(self) -> dict[str, str]:
        """The receiver, as an object with one key."""
        given = {"email": self.email, "webhook": self.webhook, "callback": self.callback}
        return {kind: value for kind, value in given.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        return {"on": [str(event) for event in self.on], **self.receiver()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NotifyRule:
        return cls(**{**data, "on": tuple(NotifyEvent(event) for event in data["on"])})


def callback_rule(url: str) -> NotifyRule:
    """A callback gets the end of its job."""
    return NotifyRule(JOB_ENDS, callback=url)


def events_of(rules: Iterable[NotifyRule]) -> frozenset[str]:
    """All events that these rules name."""
    return frozenset(str(event) for rule in rules for event in rule.on)


def is_address(text: str) -> bool:
    """Whether a text has the form of one e-mail address, without a name."""
    return (
        len(text) <= LONGEST_ADDRESS
        and text.isascii()
        and re.fullmatch(
            r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
            r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?",
            text,
        )
        is not None
    )
