"""Settings of apps: environment variables, like the engine's own settings."""

from __future__ import annotations

from pathlib import Path

from holdfast.environment import everything, is_set, variable

__all__ = ["everything", "home", "is_set", "variable"]


def home() -> Path:
    """The directory of this installation, HOLDFAST_HOME."""
    return Path(variable("HOME") or ".holdfast")
