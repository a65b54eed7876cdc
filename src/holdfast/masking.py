"""Replaces secrets in texts before the texts leave the process or are stored.

Finds secrets by their place in an address, and the secrets of this process by their value. Knows no settings and
no streams.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

MASK = "***"
SHORTEST = 4
"""A shorter secret is part of many words: masks in all of them would give it away."""
BOUNDED = 8
"""A shorter secret is masked only where it stands as a word of its own."""
_OUR_WORDS = frozenset({"holdfast", "postgres", "postgresql", "database", "password", "default", "localhost", "admin"})

_secrets: set[str] = set()
_pattern: re.Pattern[str] | None = None

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
    if ":/" in text:
        text = _DATABASE_USER_INFO.sub(rf"\1\2:{MASK}@", text)
        text = _USER_INFO.sub(_without_password, text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\1{MASK}", text)
    return _pattern.sub(MASK, text) if _pattern is not None else text


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
    lengths = (
        length
        for secret in _secrets
        for length in range(min(len(secret) - 1, len(text)), 0, -1)
        if text.endswith(secret[:length])
    )
    return max(lengths, default=0)


def keep_secret(secret: str | None, beside: Collection[str | None] = ()) -> None:
    """Mask this text from now on, unless it equals one of the names `beside` it, which must stay visible."""
    global _pattern
    if not secret or len(secret) < SHORTEST or secret in beside or secret.lower() in _OUR_WORDS or secret in _secrets:
        return
    _secrets.update((secret, quote(secret, safe="")))
    _pattern = re.compile("|".join(_form(one) for one in sorted(_secrets, key=len, reverse=True)))


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
