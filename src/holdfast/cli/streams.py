"""The two streams: the answer goes to stdout, everything else to stderr.

What passes here is masked and made harmless. Only the person's display of a job, which rich draws, brings escapes.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from holdfast.errors import Unusable
from holdfast.masking import masked, without_secrets

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and marks that change the direction of text: they can rewrite what a terminal shows."""
_RAW_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Those of them that JSON does not escape."""


class OutputClosed(Exception):
    """The reader of our answer has closed the pipe, as `head` does."""


class _Outlet(io.TextIOBase):
    """One of the two streams, looked up again at each write."""

    def __init__(self, name: str, clean: Callable[[str], str]) -> None:
        self._name = name
        self._clean = clean

    @property
    def _stream(self) -> TextIO:
        stream: TextIO = getattr(sys, self._name)
        return stream

    def write(self, text: str) -> int:
        """Masked, for a console that has made the text harmless itself."""
        self.put(self._clean(text))
        return len(text)

    def put(self, text: str) -> None:
        """As it is, and at once. An answer that cannot be written fails the command; a remark does not."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            raise OutputClosed from None
        except OSError as error:
            if self._name == "stdout":
                raise Unusable(
                    f"The answer cannot be written to stdout: {error.strerror}.",
                    remedy="Nothing was undone. Redirect stdout to a file or a pipe that can be written.",
                ) from None

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding


_stdout = _Outlet("stdout", without_secrets)
_stderr = _Outlet("stderr", masked)


def answer(text: str) -> None:
    """A piece of the answer."""
    _stdout.put(harmless(without_secrets(text)) + "\n")


def answer_json(value: Any) -> None:
    """One object on one line."""
    put_answer(f"{json_text(value)}\n")


def put_answer(text: str) -> None:
    """A piece of the answer as it is: it is harmless already, and has no secrets."""
    _stdout.put(text)


def say(text: str) -> None:
    """A line for the person who watches; never part of the answer."""
    _stderr.put(harmless(masked(text)) + "\n")


def say_json(value: Any) -> None:
    """The same for a machine. Its texts are masked already."""
    say_line(f"{json_text(value)}\n")


def say_line(line: str) -> None:
    """A line for a machine as it is: masked, and with its end."""
    _stderr.put(line)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """A value as harmless JSON without secrets; without an indent it is one line."""
    return _harmless_json(without_secrets(value), indent)


def json_line(value: Any) -> str:
    """A masked value on one line, without characters that steer a terminal."""
    return f"{_harmless_json(value)}\n"


def _harmless_json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@cache
def answers() -> Console:
    """Formatted answers."""
    return _console(_stdout)


@cache
def asides() -> Console:
    """Formatted lines for the person who watches."""
    return _console(_stderr)


def _console(outlet: _Outlet) -> Console:
    from rich.console import Console

    return Console(file=cast(IO[str], outlet), highlight=False, markup=False, emoji=False, soft_wrap=False)


def show(renderable: Any) -> None:
    """A formatted piece of the answer."""
    answers().print(renderable)


def harmless(text: str) -> str:
    """Text from outside, without the characters that steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def open_streams() -> None:
    """Have three streams that survive any text.

    One that was closed when we began fails when it is used, and its number is taken: it would go to the next file or
    socket of ours, and whatever a child process prints with it. What a terminal cannot show gets a substitute.
    """
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_WRONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def close_streams() -> None:
    """Write what is left. The command has reported what it cannot write: the interpreter must not fail with it, too."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
