"""The patterns of inputs: regular expressions as JSON Schema means them, in a time in proportion to the text."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.define.contract import PATTERN_BYTES, compiled

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

UNREADABLE = f"is no regular expression, or takes more than {PATTERN_BYTES // 1024:,} KiB"
SUGGESTION = "A pattern must not look ahead or behind, nor refer back to a group; ^ and $ are the ends of the text."


def is_readable(pattern: str) -> bool:
    return _compiled(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text. One that cannot be read, of another version, is in none."""
    validator = _compiled(pattern)
    return validator is not None and validator.is_valid(text)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Draft202012Validator | None:
    from jsonschema_rs import ValidationError

    try:
        return compiled({"pattern": pattern})
    except ValidationError:
        return None
