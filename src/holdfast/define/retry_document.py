"""How a workflow file says what happens after a failed attempt, and the Retry that it means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from holdfast.define.bounds import MAX_RETRIES
from holdfast.define.fields import Delay, DocumentPart, FailureCode, float_or_none
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.define.source import Path, Report

JitterName = Literal["none", "full", "equal"]


class JitterRange(DocumentPart):
    """A random time that is added to the pause."""

    min_seconds: Delay = 0
    """The shortest time that is added. Default 0."""

    max_seconds: Delay
    """The longest time that is added."""


def _jitter_form(value: Any) -> str:
    return "<map>" if isinstance(value, dict) else "<name>"


class RetryDocument(DocumentPart):
    """How often and how soon a failed attempt is tried again."""

    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] | None = None
    """How many times a failed attempt is tried again. Default 3, or the length of the schedule."""

    max_attempts: Annotated[int, Field(ge=0, le=MAX_RETRIES)] | None = None
    """The older name of max_retries: it counts the retries, without the first attempt."""

    backoff: Literal["fixed", "linear", "exponential", "schedule"] | None = None
    """How the pause grows from retry to retry. Default exponential."""

    initial_delay_seconds: Delay | None = None
    """The pause before the first retry. Default 1."""

    max_delay_seconds: Delay | None = None
    """The longest pause. Default 300."""

    jitter: (
        Annotated[
            Annotated[JitterName, Tag("<name>")] | Annotated[JitterRange, Tag("<map>")],
            Discriminator(_jitter_form),
        ]
        | None
    ) = None
    """How much of the pause is random: none, all of it, half of it, or a range that is added to it. Default full;
    with a schedule, none."""

    schedule: Annotated[list[Delay], Field(min_length=1, max_length=MAX_RETRIES)] | None = None
    """The pauses in seconds, one per retry; further retries use the last one."""

    retry_on: Annotated[list[FailureCode], Field(min_length=1)] | None = None
    """The codes that are retried; failures with another code are final. Default: all that are not permanent."""


# Groups of keys: a node inherits a whole group from its workflow, or nothing of it.
_RETRY_GROUPS = (
    ("max_retries", "max_attempts"),
    ("backoff", "initial_delay_seconds", "max_delay_seconds", "schedule"),
    ("jitter",),
    ("retry_on",),
)


def node_retry(own: RetryDocument | None, workflow: RetryDocument | None, path: Path, report: Report) -> Retry:
    """The node's retry. Missing groups of keys come from the workflow, then from the defaults."""
    if own is not None:
        normalise_retry(own, path, report)
    merged: dict[str, Any] = {}
    for keys in _RETRY_GROUPS:
        for document in (own, workflow):
            group = {key: getattr(document, key) for key in keys if getattr(document, key, None) is not None}
            if group:
                merged |= group
                break
    # Contradictions have been reported at their place.
    return normalise_retry(RetryDocument.model_construct(**merged), path, Report(report.source))


def normalise_retry(document: RetryDocument, path: Path, report: Report) -> Retry:
    """The retry of a document. A default adapts to the keys that are set, so that it never contradicts them."""
    retry = Retry.filled(_stated(document), Retry())
    _check_retry(document, retry, path, report)
    return retry


def _stated(document: RetryDocument) -> dict[str, Any]:
    """What the document says, in the form of Retry."""
    max_retries = document.max_retries if document.max_retries is not None else document.max_attempts
    said: dict[str, Any] = {
        "max_retries": max_retries,
        "backoff": Backoff(document.backoff) if document.backoff is not None else None,
        "initial_delay_seconds": float_or_none(document.initial_delay_seconds),
        "max_delay_seconds": float_or_none(document.max_delay_seconds),
        "schedule": tuple(float(pause) for pause in document.schedule) if document.schedule is not None else None,
        "retry_on": tuple(document.retry_on) if document.retry_on is not None else None,
    }
    if isinstance(document.jitter, JitterRange):
        said |= {"jitter": Jitter.RANGE, "jitter_seconds": _jitter_seconds(document)}
    elif document.jitter is not None:
        said |= {"jitter": Jitter(document.jitter)}
    return {name: value for name, value in said.items() if value is not None}


def _jitter_seconds(document: RetryDocument) -> tuple[float, float]:
    if not isinstance(document.jitter, JitterRange):
        return (0.0, 0.0)
    return (float(document.jitter.min_seconds), float(document.jitter.max_seconds))


def _check_retry(document: RetryDocument, retry: Retry, path: Path, report: Report) -> None:
    if document.max_retries is not None and document.max_attempts is not None:
        report.at_key(
            (*path, "max_attempts"), "Give max_retries or max_attempts, not both: they have the same meaning."
        )
    if retry.initial_delay_seconds > retry.max_delay_seconds:
        message = "'initial_delay_seconds' is greater than 'max_delay_seconds'."
        report.at_value((*path, "initial_delay_seconds"), message)
    least, most = _jitter_seconds(document)
    if least > most:
        report.at_value((*path, "jitter", "min_seconds"), "'min_seconds' is greater than 'max_seconds'.")
    if document.schedule is None:
        if document.backoff == "schedule":
            report.at_value((*path, "backoff"), "The backoff 'schedule' needs the key 'schedule'.")
        return
    if document.backoff not in (None, "schedule"):
        report.at_value((*path, "backoff"), "With a schedule the backoff is 'schedule'.", "Remove the key.")
    for key in ("initial_delay_seconds", "max_delay_seconds"):
        if getattr(document, key) is not None:
            report.at_key((*path, key), f"'{key}' has no effect with a schedule.", "Remove the key.")
