"""A command of the demo's that ends with the demo, however that ends: its stdin is a line to it. Knows no demo.

Run as a module, with the words of the command. The line is cut when the demo is gone; a byte on it sets the command
free.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any


def tethered(words: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command that ends when this process does, or when it lets go of the command's stdin."""
    return subprocess.Popen([sys.executable, "-m", __name__, *words], stdin=subprocess.PIPE, **options)


def release(process: subprocess.Popen[bytes]) -> None:
    """Let a command go on when this process is gone."""
    assert process.stdin is not None
    process.stdin.write(b".")
    process.stdin.close()


def _watch(line: int) -> None:
    if not os.read(line, 1):
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    # The line is ours alone: what the command starts has nothing to read.
    line, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(line,), name="tether", daemon=True).start()
    from holdfast.cli import main as command

    command()


if __name__ == "__main__":
    main()
