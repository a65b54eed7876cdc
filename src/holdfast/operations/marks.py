"""What a caller may add to its submission: ids to find it by, and receivers of its events. No part of its identity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from holdfast.define.bounds import MAX_NAME_LENGTH
from holdfast.define.notify import (
    MAX_NOTIFY_RULES,
    OF_JOBS,
    SHORT_NAMES,
    WEBHOOK_NAME,
    NotifyRule,
    callback_rule,
    event_of,
    is_address,
)
from holdfast.define.source import did_you_mean
from holdfast.errors import InvalidInput, cut

MOST_EXTERNAL_IDS = 20
LONGEST_CORRELATION_ID = 200
LONGEST_EXTERNAL_ID = 400
LONGEST_URL = 2000
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,63}")


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a submission. Of several same submissions those of the first one hold."""

    correlation_id: str | None = None
    external_ids: dict[str, str] | None = None
    callback_url: str | None = None
    notify: list[dict[str, Any]] | None = None
    """Receivers of its events, as rules with the full names of the events."""

    @property
    def rules(self) -> list[dict[str, Any]] | None:
        """All receivers of the job: a callback is a rule, too."""
        callback = [callback_rule(self.callback_url).to_json()] if self.callback_url is not None else []
        return [*(self.notify or ()), *callback] or None


def check_marks(
    correlation_id: str | None = None,
    external_ids: Mapping[str, str] | None = None,
    callback_url: str | None = None,
    notify: Sequence[Mapping[str, Any]] | None = None,
) -> Marks:
    """The marks of a submission; refused if one is not what it should be."""
    if correlation_id is not None:
        check_correlation_id(correlation_id)
    if callback_url is not None:
        _check_url(callback_url)
    return Marks(
        correlation_id,
        _checked_external_ids(external_ids) if external_ids else None,
        callback_url,
        check_notify(notify) if notify else None,
    )


def check_notify(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rules of a submission with the full names of their events; refused if one is not what it should be."""
    if len(given) > MAX_NOTIFY_RULES:
        raise InvalidInput(f"A submission has at most {MAX_NOTIFY_RULES} receivers, not {len(given)}.")
    return [_checked_rule(rule).to_json() for rule in given]


def _checked_rule(rule: Mapping[str, Any]) -> NotifyRule:
    unknown = rule.keys() - {"on", "email", "webhook"}
    if unknown:
        raise InvalidInput(f"A receiver has no '{cut(min(unknown))}'.", remedy="Give 'on', and 'email' or 'webhook'.")
    names = rule.get("on") or ()
    events = dict.fromkeys(_event(name) for name in ([names] if isinstance(names, str) else names))
    email, webhook = rule.get("email"), rule.get("webhook")
    if not events:
        raise InvalidInput("A receiver has no event.", remedy="Name at least one: on: [failed].")
    if (email is None) == (webhook is None):
        raise InvalidInput(
            "A receiver needs either an address or a webhook.", remedy="Give 'email' or 'webhook'; not both."
        )
    if email is not None and not is_address(email):
        raise InvalidInput(
            f"'{cut(str(email))}' is not an e-mail address.", remedy="Write it without a name: ops@example.org."
        )
    if webhook is not None and (re.fullmatch(WEBHOOK_NAME, webhook) is None or len(webhook) > MAX_NAME_LENGTH):
        raise InvalidInput(
            f"'{cut(str(webhook))}' is not the name of a webhook.",
            remedy=f"Use letters, digits, '_', '.' and '-', at most {MAX_NAME_LENGTH} characters.",
        )
    return NotifyRule(tuple(events), email, webhook)


def _event(name: str) -> Any:
    try:
        event = event_of(name)
    except ValueError:
        event = None
    if event not in OF_JOBS:
        known = (*SHORT_NAMES, *(str(one) for one in OF_JOBS))
        suggestion = did_you_mean(name, known)
        raise InvalidInput(
            f"There is no event '{cut(name)}' of a job.", remedy=suggestion or f"The events are: {', '.join(known)}."
        )
    return event


def check_correlation_id(text: str) -> str:
    if not 0 < len(text) <= LONGEST_CORRELATION_ID or not text.isprintable():
        raise InvalidInput(
            f"'{cut(text)}' is not a correlation id.",
            remedy=f"Use 1 to {LONGEST_CORRELATION_ID} characters, without line breaks and control characters.",
        )
    return text


def external_id(text: str) -> tuple[str, str]:
    """The namespace and the value of `NAMESPACE:VALUE`."""
    namespace, colon, value = text.partition(":")
    if not colon:
        raise InvalidInput(
            f"'{cut(text)}' is not an external id.", remedy="Write NAMESPACE:VALUE, for example gateway:4711."
        )
    ((namespace, value),) = _checked_external_ids({namespace: value}).items()
    return namespace, value


def _checked_external_ids(given: Mapping[str, str]) -> dict[str, str]:
    if len(given) > MOST_EXTERNAL_IDS:
        raise InvalidInput(
            f"A job has at most {MOST_EXTERNAL_IDS} external ids, not {len(given)}.", remedy="Leave some out."
        )
    for namespace, value in given.items():
        if _NAMESPACE.fullmatch(namespace) is None:
            raise InvalidInput(
                f"'{cut(namespace)}' is not the namespace of an external id.",
                remedy="Use letters, digits, '_', '.' and '-', at most 63 characters.",
            )
        if not 0 < len(value) <= LONGEST_EXTERNAL_ID or not value.isprintable():
            raise InvalidInput(
                f"'{cut(value)}' is not an id: that of {namespace} cannot be stored.",
                remedy=f"Use 1 to {LONGEST_EXTERNAL_ID} characters, without line breaks and control characters.",
            )
    return dict(given)


def _check_url(url: str) -> None:
    """Only its form: whether the address may be called is decided when it is called."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or len(url) > LONGEST_URL or not url.isprintable() or " " in url or not url.isascii():
        raise InvalidInput(
            "The callback_url is not a URL that can be called.",
            remedy=f"Use http:// or https:// with a host, at most {LONGEST_URL} characters.",
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "The callback_url has a user name or a password.", remedy="Leave it out: callbacks will be signed."
        )
