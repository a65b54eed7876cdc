"""The key `notify` of a workflow file: which receiver gets which events."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from holdfast.define.bounds import MAX_NAME_LENGTH
from holdfast.define.fields import DocumentPart, Expression, one_or_many
from holdfast.define.notify import OF_JOBS, SHORT_NAMES, WEBHOOK_NAME, NotifyEvent, NotifyRule, event_of, is_address
from holdfast.define.source import Path, Report, did_you_mean

EVENT_NAMES = (*SHORT_NAMES, *(str(event) for event in OF_JOBS))


class NotifyDocument(DocumentPart):
    """One receiver, and the events that it gets."""

    on: Annotated[
        list[str],
        BeforeValidator(one_or_many),
        Field(min_length=1, max_length=len(EVENT_NAMES)),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": list(EVENT_NAMES)},
                    {"type": "array", "items": {"enum": list(EVENT_NAMES)}, "minItems": 1},
                ]
            }
        ),
    ]
    """The events, one or a list."""

    email: Expression | None = None
    """The address that gets a mail; it may be a template that reads inputs."""

    webhook: Annotated[str, Field(pattern=WEBHOOK_NAME, max_length=MAX_NAME_LENGTH)] | None = None
    """The name of a webhook of the tenant."""


def normalise_notify(documents: list[NotifyDocument] | None, report: Report) -> tuple[NotifyRule, ...]:
    """The rules of a workflow; mistakes go into the report."""
    return tuple(_rule(one, ("notify", place), report) for place, one in enumerate(documents or ()))


def _rule(document: NotifyDocument, path: Path, report: Report) -> NotifyRule:
    if (document.email is None) == (document.webhook is None):
        report.at_value(path, "A receiver needs either an address or a webhook.", "Give 'email' or 'webhook'.")
    elif document.email is not None and "{" not in document.email and not is_address(document.email):
        report.at_value((*path, "email"), "This is not an e-mail address.", "Write it without a name: ops@example.org.")
    events: dict[NotifyEvent, None] = {}
    for place, name in enumerate(document.on):
        if name in EVENT_NAMES:
            events[event_of(name)] = None
        else:
            where = report.source.first_of((*path, "on", place), (*path, "on"))
            report.at_value(where, f"There is no event '{name}' of a job.", did_you_mean(name, EVENT_NAMES))
    return NotifyRule(tuple(events), document.email, document.webhook)
