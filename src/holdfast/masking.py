"""Replaces secrets in texts before the texts leave the process or are stored.

Finds secrets by their place in an address, and the secrets of this process and of its tasks by their value. Knows no
settings and no streams.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

MASK = "***"
SHORTEST = 4
"""A shorter secret is part of many words: masks in all of them would give it away."""
BOUNDED = 8
"""A shorter secret is masked only where it stands as a word of its own."""
_OUR_WORDS = frozenset({"holdfast", "postgres", "postgresql", "database", "password", "default", "localhost", "admin"})

# Each change replaces these: other threads may be reading them.
_secrets: frozenset[str] = frozenset()
_of_tasks: frozenset[str] = frozenset()
"""The forms of secrets that tasks have."""
_in_json: tuple[bytes, ...] = ()
"""The same, as they stand within a text in JSON."""
_pattern: re.Pattern[str] | None = None
_task_pattern: re.Pattern[str] | None = None

# Code that takes an address for a path leaves one slash of two. PASSWORD is a placeholder in our own messages.
_USER_INFO = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{0,20}:/{1,2})([^\s/?#'\"@:\\]{0,500})(:(?!PASSWORD@)[^\s/?#'\"\\]{0,500})?@"
)
# In other addresses a slash ends the host. In a database URL it is more likely part of an unescaped password.
_DATABASE_USER_INFO = re.compile(
    r"(?i)\b(postgres(?:ql)?:/{1,2})([^\s/?#'\"@:\\]{0,500}):(?!PASSWORD@)[^\s'\"\\]{0,500}@"
)
_PARAMETER = re.compile(
    r"(?i)([?&;][\w.-]{0,40}(?:sig|signature|token|credential|secret|password|passwd|pwd|key)=)[^&;#\s'\"\\]+"
)


def masked(text: str) -> str:
    """A message without secrets: those of this process, user info in addresses, signatures and tokens in queries."""
    # First: a secret may be an address, of which the others would leave a part.
    if _pattern is not None:
        text = _pattern.sub(MASK, text)
    if ":/" in text:
        text = _DATABASE_USER_INFO.sub(rf"\1\2:{MASK}@", text)
        text = _USER_INFO.sub(_without_password, text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\1{MASK}", text)
    return text


def without_secrets(value: Any) -> Any:
    """The JSON value without the secrets of this process; addresses in it are user data and stay as they are."""
    if _pattern is None:
        return value
    if isinstance(value, str):
        return _pattern.sub(MASK, value)
    if isinstance(value, dict):
        return {key: without_secrets(one) for key, one in value.items()}
    return [without_secrets(one) for one in value] if isinstance(value, list | tuple) else value


def unfinished(text: str) -> int:
    """How many characters at the end of the text may be the beginning of a secret of this process that goes on."""
    return max((_overlap(text, secret) for secret in _secrets), default=0)


def begun_before(text: str) -> int:
    """How many characters at the beginning of the text may be the end of a secret of this process that began before."""
    return max((_overlap(text[::-1], secret[::-1]) for secret in _secrets), default=0)


def beginning(text: str, limit: int) -> str:
    """The first characters of a text, at most `limit`; a secret is not cut in two, because its half is not found."""
    if len(text) <= limit:
        return text
    return text[: limit - unfinished(text[:limit])]


def _overlap(text: str, secret: str) -> int:
    """How many characters at the end of the text begin the secret, which is longer."""
    tail = text[max(0, len(text) - len(secret) + 1) :]
    start = tail.find(secret[0])
    while start >= 0 and not secret.startswith(tail[start:]):
        start = tail.find(secret[0], start + 1)
    return len(tail) - start if start >= 0 else 0


def without_task_secrets(value: Any) -> Any:
    """The JSON value without the secrets that tasks have, in whatever form, also in keys and numbers."""
    pattern = _task_pattern
    if pattern is None or value is None:
        return value
    if isinstance(value, str):
        return pattern.sub(MASK, value)
    if isinstance(value, dict):
        return {without_task_secrets(key): without_task_secrets(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_task_secrets(one) for one in value]
    digits = str(value)
    return pattern.sub(MASK, digits) if pattern.search(digits) else value


def json_without_task_secrets(text: bytes) -> bytes:
    """JSON without the secrets that tasks have. It is only read if it has one."""
    if not any(form in text for form in _in_json):
        return text
    return orjson.dumps(without_task_secrets(orjson.loads(text)))


def keep_task_secret(secret: str) -> None:
    """Mask what a task has for a reference to a secret from now on, in every form in which programs write it."""
    global _of_tasks, _in_json, _task_pattern
    if len(secret) < BOUNDED or secret in _of_tasks:
        return
    _of_tasks |= frozenset(_forms(secret))
    _in_json = tuple({json.dumps(form, ensure_ascii=False)[1:-1].encode("utf-8", "replace") for form in _of_tasks})
    _task_pattern = _any_of(_of_tasks)
    _mask(_of_tasks)


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    raw = secret.encode("utf-8", "replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode()
        # Within a longer text, such as USER:SECRET, the letters depend on the place. Both ends mix with what is beside.
        for before, first in enumerate((0, 2, 3)):
            yield encode(bytes(before) + raw).decode()[first : (before + len(raw)) * 8 // 6]


def keep_secret(secret: str | None, beside: Collection[str | None] = ()) -> None:
    """Mask this text from now on, unless it equals one of the names `beside` it, which must stay visible."""
    if not secret or len(secret) < SHORTEST or secret in beside or secret.lower() in _OUR_WORDS or secret in _secrets:
        return
    _mask({secret, quote(secret, safe="")})


def _mask(secrets: Collection[str]) -> None:
    global _secrets, _pattern
    _secrets |= frozenset(secrets)
    _pattern = _any_of(_secrets)


def _any_of(secrets: Collection[str]) -> re.Pattern[str]:
    """The longest first: another one may be a part of it."""
    return re.compile("|".join(_form(one) for one in sorted(secrets, key=len, reverse=True)))


def keep_secrets_of(address: str) -> None:
    """Mask the password and the signature of an address wherever else they occur."""
    for user_info in _USER_INFO.finditer(address):
        keep_secret((user_info[3] or "")[1:], (user_info[2],))
    for parameter in _PARAMETER.finditer(address):
        keep_secret(parameter[0].partition("=")[2])


def _without_password(user_info: re.Match[str]) -> str:
    scheme, user, password = user_info.groups()
    if password is not None:
        return f"{scheme}{user}:{MASK}@"
    # Without a password the user may be a token in a web address; in others it is a name: abfss://CONTAINER@ACCOUNT.
    return f"{scheme}{MASK}@" if scheme.lower().rstrip("/") in ("http:", "https:", "ftp:") else user_info[0]


def _form(secret: str) -> str:
    return rf"(?<!\w){re.escape(secret)}(?!\w)" if len(secret) < BOUNDED else re.escape(secret)
