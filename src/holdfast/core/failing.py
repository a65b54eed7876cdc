"""What a failure is: code, class, message, fingerprint and hint. Equal failures have equal fingerprints."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import Code, FailureClass
from holdfast.remedies import Remedy

MESSAGE_LIMIT = 2000
CUT = "… (cut off)"


HINTS: Mapping[str, Remedy] = {
    Code.TEMPLATE_ERROR: Remedy("Correct the expression in the workflow, or give the missing value."),
    Code.CONTRACT_VIOLATION: Remedy("Compare what the workflow declares with what the handler takes and returns."),
    Code.PAYLOAD_REFUSED: Remedy(
        "Pass a reference instead: publish a file with ctx.publish, or page through ctx.results; "
        "HOLDFAST_PAYLOAD_LIMIT_BYTES is the limit."
    ),
    Code.HANDLER_UNKNOWN: Remedy("Start a worker that has this handler", "worker", flags=("--handlers", "MODULE")),
    Code.TIMEOUT: Remedy("Raise timeout_seconds of the node, or make the handler quicker."),
    Code.DEPENDENCY_DOWN: Remedy("See what is down, and since when", "breakers"),
    Code.QUEUE_TIMEOUT: Remedy("Start more workers for the queue, or raise queue_timeout_seconds of the node."),
    Code.LEASE_LOST: Remedy("Look for workers that stopped or lost the database, then resume the job."),
    Code.REQUEUE_LIMIT: Remedy(
        "Find out what deletes rows of the table queue, then resume the job; see when it happened", "janitor"
    ),
    Code.SECRET_MISSING: Remedy(
        "Give every worker of the queue the secret, in a variable or in a file of HOLDFAST_SECRETS_DIR; then run the "
        "task again."
    ),
    Code.SECRET_UNREADABLE: Remedy("Correct the file or the provider of the secret on the worker."),
    Code.QUARANTINED: Remedy("This task kept killing its worker: look at its input before running it again."),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt, a task, a node or a job failed. `failure` makes a new one."""

    code: str
    failure_class: FailureClass
    message: str
    fingerprint: str
    node: str | None
    index: int | None
    """The item of a fan-out; a node's own task has none."""
    attempt: int | None
    at: float | None
    hint: str | None
    remedy: Remedy | None = None
    """The hint with its command, if there is one."""
    other: Mapping[str, Any] = field(default_factory=dict)
    """What another version stored and this one does not understand, by key."""

    @property
    def is_permanent(self) -> bool:
        return self.failure_class is FailureClass.PERMANENT

    @property
    def next_step(self) -> Remedy | None:
        """What a person can do about it."""
        if self.remedy is not None:
            return self.remedy
        return Remedy(self.hint) if self.hint is not None else None

    def to_json(self) -> dict[str, Any]:
        """The object that is stored. It has the key `remedy` only if the hint has a command."""
        stored: dict[str, Any] = {
            "code": self.code,
            "class": self.failure_class.value,
            "message": self.message,
            "fingerprint": self.fingerprint,
            "node": self.node,
            "index": self.index,
            "attempt": self.attempt,
            "at": self.at,
            "hint": self.hint,
        }
        if self.remedy is not None:
            stored["remedy"] = self.remedy.to_json()
        stored |= self.other
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Failure:
        """Read what this or another version stored: `to_json` gives it back, with what this version does not know."""
        other = {key: value for key, value in stored.items() if key not in _KEYS}
        failure_class, remedy = stored.get("class"), stored.get("remedy")
        if failure_class not in tuple(FailureClass):
            other["class"], failure_class = failure_class, FailureClass.TRANSIENT
        if remedy is not None and set(remedy) != _REMEDY_KEYS:
            other["remedy"], remedy = remedy, None
        return cls(
            stored.get("code", ""),
            FailureClass(failure_class),
            stored.get("message", ""),
            stored.get("fingerprint", ""),
            stored.get("node"),
            stored.get("index"),
            stored.get("attempt"),
            stored.get("at"),
            stored.get("hint"),
            Remedy.from_json(remedy) if remedy is not None else None,
            other,
        )


_KEYS = frozenset({"code", "class", "message", "fingerprint", "node", "index", "attempt", "at", "hint", "remedy"})
_REMEDY_KEYS = set(Remedy._fields)

# What differs between two occurrences of one failure: ids, numbers, addresses, quoted values, paths. An apostrophe
# within a word, as in can't, opens no quotation.
_VARYING = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|(?:/[\w.~-]+)+|\d+")


# A message does not show where a file lies on a server: operators find that in the attempt's log. The place of a value
# in an output, which a schema refuses, is no such path and stays.
_PATH = re.compile(r"(?<![\w/:.~-])(?<!output_schema: at )(?:~|[A-Za-z]:)?[/\\](?:[\w.~+-]+[/\\])+([\w.~+-]*)")


def without_paths(text: str) -> str:
    """Absolute paths cut down to their last part, as in …/map.tif; addresses such as https://host/a/b stay."""
    return _PATH.sub(r"…/\1", text)


def fingerprint(code: str, message: str, handler: str = "") -> str:
    """The same for failures that differ only in ids, numbers, paths and quoted values."""
    normal = _VARYING.sub("#", message.lower())
    return hashlib.sha256(f"{code}\n{handler}\n{normal}".encode("utf-8", "replace")).hexdigest()[:16]


def failure(
    code: str,
    message: str,
    *,
    permanent: bool,
    at: float,
    node: str | None = None,
    item: int | None = None,
    attempt: int | None = None,
    handler: str = "",
    hint: Remedy | None = None,
) -> Failure:
    """A failure whose message is one line, without a stack trace."""
    text = without_paths(" ".join(message[: 4 * MESSAGE_LIMIT].split())) or "no message"
    if len(text) > MESSAGE_LIMIT:
        text = text[: MESSAGE_LIMIT - len(CUT)] + CUT
    hint = hint or HINTS.get(code)
    return Failure(
        code,
        FailureClass.PERMANENT if permanent else FailureClass.TRANSIENT,
        text,
        fingerprint(code, text, handler),
        node,
        item if item is not None and item >= 0 else None,
        attempt,
        at,
        hint.text if hint is not None else None,
        hint if hint is not None and hint.verb is not None else None,
    )
