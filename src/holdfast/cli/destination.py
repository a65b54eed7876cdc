"""Where the data of an answer goes: to stdout, or with `--to` to a file that gets its name when it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from holdfast.cli.streams import put_answer, say
from holdfast.cli.words import size
from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput, Unusable

BUFFER_CHARACTERS = 65_536


@contextmanager
def writing_to(target: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that takes the pieces of the answer. Without a target, or with `-`, they go to stdout.

    If the block raises, a file stays as it was.
    """
    if target is None or str(target) == "-":
        buffer = _Buffer(put_answer)
        yield buffer.put
        buffer.flush()
        return
    with draft_of(target) as draft:
        with draft.open("w", encoding="utf-8") as file:
            yield _writer(file)
        written = draft.stat().st_size
    say(f"Wrote {size(written)} to {shown_name(target)}.")


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """A new file beside the target. After the block it takes the place of the target; if the block raises, it goes."""
    place = _checked(target)
    draft = place.with_name(f".holdfast-{secrets.token_hex(4)}.draft")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _checked(target: Path) -> Path:
    """The path behind all links. A device or a pipe would be replaced by a file, so it is refused."""
    place = target.resolve()
    if not place.name or place.is_dir():
        raise InvalidInput(f"--to: {shown_name(target)} is a directory.", remedy="Name a file in it.")
    if place.exists() and not place.is_file():
        raise InvalidInput(
            f"--to: {shown_name(target)} is not a regular file.", remedy="Name a regular file, or - for stdout."
        )
    if not place.parent.is_dir():
        raise Unusable(
            f"--to: {shown_name(target)} cannot be written: there is no directory {shown_name(place.parent)}.",
            remedy="Make the directory first, or name a file in another one.",
        )
    return place


def _writer(file: TextIO) -> Callable[[str], None]:
    def put(text: str) -> None:
        file.write(text)

    return put


class _Buffer:
    """Collects small pieces: stdout is flushed at each write."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._pieces: list[str] = []
        self._size = 0

    def put(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        if self._size >= BUFFER_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        if self._pieces:
            self._put("".join(self._pieces))
        self._pieces, self._size = [], 0
