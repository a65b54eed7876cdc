"""The two streams: the answer goes to stdout, everything else to stderr."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputClosed(Exception):
    """Whoever read our answer has gone, as `head` does: there is nobody to tell anything."""


def answer(text: str) -> None:
    """A piece of the answer, as it is."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def answer_json(value: Any) -> None:
    """One object on one line."""
    answer(json.dumps(value, ensure_ascii=False))


def say(text: str) -> None:
    """A line for the person who watches; never part of the answer."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        raise OutputClosed from None


@cache
def answers() -> Console:
    """Formatted answers. Looks for sys.stdout anew at each print."""
    return _console(stderr=False)


@cache
def asides() -> Console:
    """Formatted lines for the person who watches."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)


def show(renderable: Any) -> None:
    """A formatted piece of the answer."""
    try:
        answers().print(renderable)
    except BrokenPipeError:
        raise OutputClosed from None


def harmless(text: str) -> str:
    """Text from outside, without the characters that steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def survive_any_encoding() -> None:
    """A terminal that cannot show a character gets a substitute for it, not a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
