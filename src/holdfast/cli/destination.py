"""Where the data of an answer goes: to stdout, or with `--to` to a file that gets its name when it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.cli.streams import put_answer, say
from holdfast.cli.words import size
from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput, Unusable

BUFFER_CHARACTERS = 65_536


class Writing:
    """Takes the pieces of an answer."""

    contents: str | None = None
    """What they are, once that is known, such as `3 results`. A file is reported with it."""

    def __init__(self, put: Callable[[str], object]) -> None:
        self._put = put

    def __call__(self, text: str) -> None:
        self._put(text)


@contextmanager
def writing_to(target: Path | None) -> Iterator[Writing]:
    """What takes the pieces of the answer. Without a target, or with `-`, they go to stdout.

    If the block raises, a file stays as it was. A file that is replaced is mentioned.
    """
    if target is None or str(target) == "-":
        buffer = _Buffer(put_answer)
        yield Writing(buffer.put)
        buffer.flush()
        return
    with draft_of(target) as draft:
        with draft.open("w", encoding="utf-8") as file:
            writing = Writing(file.write)
            yield writing
        written, replaced = draft.stat().st_size, _size_of(target)
    contents = f"{writing.contents}, {size(written)}," if writing.contents is not None else size(written)
    before = f" It replaced a file of {size(replaced)}." if replaced is not None else ""
    say(f"Wrote {contents} to {shown_name(target)}.{before}")


def _size_of(target: Path) -> int | None:
    try:
        return target.stat().st_size
    except FileNotFoundError:
        return None


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """A new file beside the target. After the block it takes the place of the target; if the block raises, it goes."""
    place = _checked(target)
    draft = place.with_name(f".holdfast-{secrets.token_hex(4)}.draft")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise Unusable(
            f"--to: {shown_name(target)} cannot be written: {error.strerror}.",
            remedy="Name a file in a directory that you may write to.",
        ) from None
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
