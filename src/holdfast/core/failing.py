"""The shape of a failure: code, class, message, fingerprint and hint. Equal failures have equal fingerprints."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from holdfast.errors import FailureClass
from holdfast.remedies import Remedy

MESSAGE_LIMIT = 2000
CUT = "… (cut off)"


HINTS = {
    "TEMPLATE_ERROR": Remedy("Correct the expression in the workflow, or give the missing value."),
    "CONTRACT_VIOLATION": Remedy("Compare what the workflow declares with what the handler takes and returns."),
    "PAYLOAD_REFUSED": Remedy(
        "Pass a reference instead: publish a file with ctx.publish, or page through ctx.results; "
        "HOLDFAST_PAYLOAD_LIMIT_BYTES is the limit."
    ),
    "HANDLER_UNKNOWN": Remedy("Start a worker that has this handler", "worker", flags=("--handlers", "MODULE")),
    "TIMEOUT": Remedy("Raise timeout_seconds of the node, or make the handler quicker."),
    "DEPENDENCY_DOWN": Remedy("See what is down, and since when", "breakers"),
    "QUEUE_TIMEOUT": Remedy("Start more workers for the queue, or raise queue_timeout_seconds of the node."),
    "LEASE_LOST": Remedy("Look for workers that stopped or lost the database, then resume the job."),
    "QUARANTINED": Remedy("This task kept killing its worker: look at its input before running it again."),
}

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
) -> dict[str, Any]:
    """An error as it is stored and shown. The message is one line, without a stack trace."""
    text = without_paths(" ".join(message[: 4 * MESSAGE_LIMIT].split())) or "no message"
    if len(text) > MESSAGE_LIMIT:
        text = text[: MESSAGE_LIMIT - len(CUT)] + CUT
    hint = hint or HINTS.get(code)
    return {
        "code": code,
        "class": str(FailureClass.PERMANENT if permanent else FailureClass.TRANSIENT),
        "message": text,
        "fingerprint": fingerprint(code, text, handler),
        "node": node,
        "index": item if item is not None and item >= 0 else None,
        "attempt": attempt,
        "at": at,
        "hint": hint.text if hint is not None else None,
        **({"remedy": hint.to_json()} if hint is not None and hint.verb is not None else {}),
    }


def hint_of(error: dict[str, Any]) -> Remedy | None:
    """What a stored failure advises."""
    if error.get("remedy") is not None:
        return Remedy.from_json(error["remedy"])
    return Remedy(error["hint"]) if error.get("hint") is not None else None


def is_permanent(error: dict[str, Any] | None) -> bool:
    return error is not None and error.get("class") == FailureClass.PERMANENT
