"""What a handler without a network gives up for good, in its own process: sockets, root's privileges, the home."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from holdfast.worker import landlock, network, privileges


def confine(task: dict[str, Any]) -> None:
    """Take from this process what its handler must not have. Raises OSError if the system refuses.

    Call it while the process has a single thread: another one would keep what is taken from this one.
    """
    network.give_up()
    privileges.give_up()
    if network.is_enforced():
        _close_home(task)


def _close_home(task: dict[str, Any]) -> None:
    """Close the home but for what a handler needs there: its working directory, payloads, and the files of apps."""
    closed = [Path(folder) for folder in task["closed"]]
    own = Path(task["workplace"]) if task["workplace"] is not None else None
    left_open = [closed[0] / "storage", closed[0] / "payloads", *([own] if own is not None else [])]
    if own is not None and landlock.version():
        for folder in left_open:
            folder.mkdir(parents=True, exist_ok=True)
        if closed[0].resolve().is_relative_to(Path(tempfile.gettempdir()).resolve()):
            # The home lies in the temporary directory, in which nothing new can be made from now on.
            tempfile.tempdir = os.environ["TMPDIR"] = str(own)
    landlock.close(closed, [folder.resolve() for folder in left_open])
