"""The patterns of inputs and of error rules: regular expressions of JSON Schema that take linear time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.define.contract import PATTERN_BYTES, compiled

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

UNREADABLE = f"is not a valid regular expression, or needs more than {PATTERN_BYTES // 1024:,} KiB"
SUGGESTION = "Look-ahead, look-behind and back-references are not allowed; ^ and $ match the ends of the text."


def is_readable(pattern: str) -> bool:
    return _compiled(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """Whether a part of the text matches. An invalid pattern, stored by another version, never matches."""
    validator = _compiled(pattern)
    return validator is not None and validator.is_valid(text)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Draft202012Validator | None:
    from jsonschema_rs import ValidationError

    try:
        return compiled({"pattern": pattern})
    except ValidationError:
        return None
