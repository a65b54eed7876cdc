"""What a caller may call its submission: ids to find it by, and where to call back. No part of a job's identity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

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


def check_marks(
    correlation_id: str | None = None,
    external_ids: Mapping[str, str] | None = None,
    callback_url: str | None = None,
) -> Marks:
    """The marks of a submission; refused if one is not what it should be."""
    if correlation_id is not None:
        check_correlation_id(correlation_id)
    if callback_url is not None:
        _check_url(callback_url)
    return Marks(correlation_id, _checked_external_ids(external_ids) if external_ids else None, callback_url)


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
