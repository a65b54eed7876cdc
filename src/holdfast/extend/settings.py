"""Settings of apps: environment variables of their own, and the engine's home."""

from __future__ import annotations

from pathlib import Path

from holdfast.environment import everything, is_set, variable

__all__ = ["everything", "home", "is_set", "variable"]


def home() -> Path:
    """The directory of this installation: HOLDFAST_HOME, or the home of the project."""
    # Imported here: the help of an app must not wait for it.
    from holdfast.settings import load_settings

    return load_settings().home
