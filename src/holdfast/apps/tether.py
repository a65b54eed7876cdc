"""Runs a `holdfast` command that ends when the process that started it ends, even if that process is killed.

Run as a module with the command's arguments. Its stdin is a pipe from the starting process. End of file on the pipe
means that this process is gone, and ends the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any


def tethered(words: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command that ends when this process ends or closes the command's stdin."""
    # With -P, files in the working directory cannot stand in the way of modules of the same name.
    return subprocess.Popen([sys.executable, "-P", "-m", __name__, *words], stdin=subprocess.PIPE, **options)


def _watch(pipe: int) -> None:
    if not os.read(pipe, 1):
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    # Only this process may read the pipe: the command's own children get an empty stdin.
    pipe, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(pipe,), name="tether", daemon=True).start()
    from holdfast.cli import main as command

    command()


if __name__ == "__main__":
    main()
