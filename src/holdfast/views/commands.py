"""Direct commands, as people see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.views.encoding import VERBATIM


@dataclass(frozen=True, slots=True)
class DirectCommand:
    """One operation of an app that runs at once, in the process that is asked."""

    name: str
    description: str
    scope: str
    """The permission that it needs."""
    input: dict[str, Any] = field(metadata=VERBATIM)
    """What it takes, as JSON Schema."""
    output: dict[str, Any] = field(metadata=VERBATIM)
    """What it answers, as JSON Schema."""
