"""What a node says about its own failures: which of them mean what. Pure data; core/classifying.py applies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import FailureClass


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """Failures that contain all these texts, match a pattern and ended with an exit code, as far as these are given.

    The first rule that fits decides.
    """

    failure_class: FailureClass
    match: str | tuple[str, ...] | None = None
    """A text, or several that must all occur."""
    exit_code: int | None = None
    code: str | None = None
    pattern: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.match,) if isinstance(self.match, str) else self.match or ()

    @property
    def is_empty(self) -> bool:
        """Whether it would fit every failure."""
        return not self.texts and self.pattern is None and self.exit_code is None

    def to_json(self) -> dict[str, Any]:
        pattern = {} if self.pattern is None else {"pattern": self.pattern}
        return {
            "class": str(self.failure_class),
            "match": list(self.match) if isinstance(self.match, tuple) else self.match,
            "exit_code": self.exit_code,
            "code": self.code,
            **pattern,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ErrorRule:
        match = tuple(data["match"]) if isinstance(data["match"], list) else data["match"]
        return cls(FailureClass(data["class"]), match, data["exit_code"], data["code"], data.get("pattern"))
