"""What a node says about its own failures: which of them mean what. Pure data; core/classifying.py applies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import FailureClass


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """Failures that contain a text, or ended with an exit code, or both; the first rule that fits decides."""

    failure_class: FailureClass
    match: str | None = None
    exit_code: int | None = None
    code: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "class": str(self.failure_class),
            "match": self.match,
            "exit_code": self.exit_code,
            "code": self.code,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ErrorRule:
        return cls(FailureClass(data["class"]), data["match"], data["exit_code"], data["code"])
