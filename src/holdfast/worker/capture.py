"""What handlers print goes to their attempts; everything else that the process prints goes where it always went."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from holdfast.worker.containing import current


class _Captured(io.TextIOBase):
    """Replaces stdout or stderr."""

    def __init__(self, real: TextIO) -> None:
        self.real = real

    def write(self, text: str) -> int:
        attempt = current.get()
        if attempt is None:
            return self.real.write(text)
        attempt.write(text)
        return len(text)

    def flush(self) -> None:
        self.real.flush()

    def fileno(self) -> int:
        return self.real.fileno()

    def isatty(self) -> bool:
        return self.real.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.real.encoding


def capture_output() -> None:
    """Route what handlers print to their attempts, for the rest of this process. A second call changes nothing."""
    if not isinstance(sys.stdout, _Captured):
        sys.stdout = _Captured(sys.stdout)
    if not isinstance(sys.stderr, _Captured):
        sys.stderr = _Captured(sys.stderr)
