"""The environment variables of this process. No other module reads them."""

from __future__ import annotations

import os

PREFIX = "HOLDFAST_"
SECRET = f"{PREFIX}SECRET_"
"""How the names of variables begin that have secrets of tasks."""


def variable(name: str) -> str:
    """The value of a variable of ours, named without its prefix; an empty one is the same as none."""
    return os.environ.get(PREFIX + name, "")


def foreign(name: str) -> str:
    """The value of a variable that is not ours; an empty one is the same as none."""
    return os.environ.get(name, "")


def everything() -> dict[str, str]:
    """All variables, of whatever program: to hand them on, or to find secrets among them."""
    return dict(os.environ)


def is_set(*names: str) -> bool:
    """Whether one of these variables, of whatever program, has a value."""
    return any(os.environ.get(name) for name in names)
