"""What an attempt prints: a part that its report carries, and a stream that shows it while the attempt runs.

The report has the beginning and the end, because an orchestrator reads many reports at once. The stream has more, and
goes to the database part by part.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

from holdfast.masking import begun_before, unfinished

BEGINNING = END = 32 * 1024
"""How much of the beginning and of the end a report carries, in characters."""
STREAM_LIMIT = 1024 * 1024
"""How much of a running attempt can be seen, in characters."""
PART_LIMIT = 64 * 1024
"""A line without an end is sent when it is this long."""
MOST_TIMES = 2000
"""How many times are kept with a log at most; beyond that, neighbouring lines share one."""
CUT = "… the rest was cut off\n"

Times = list[list[int]]
"""For a line and those after it, until the next entry: its number, and when it was printed, in milliseconds since the
attempt began."""


class Part(NamedTuple):
    """Whole lines that were printed since the last part."""

    text: str
    times: Times


class Output:
    """Keeps what is printed. Handlers print from any thread; the worker's loop reads."""

    def __init__(self, began: float) -> None:
        """`began` is on the monotonic clock."""
        self._began = began
        self._lock = threading.Lock()
        self._beginning: list[tuple[int, str]] = []
        self._end: deque[tuple[int, str]] = deque()
        self._begun_size = self._end_size = self._left_out = 0
        self._unsent: list[tuple[int, str]] = []
        self._streamed = 0

    @property
    def is_unsent(self) -> bool:
        return bool(self._unsent)

    def write(self, text: str) -> None:
        # Not text[…]: a subclass of str may return anything from that.
        text = str.__getitem__(text, slice(None))
        if not text:
            return
        at = round(1000 * (time.monotonic() - self._began))
        with self._lock:
            self._stream(at, text)
            room = BEGINNING - self._begun_size
            if room > 0:
                self._beginning.append((at, text[:room]))
                self._begun_size += min(room, len(text))
                text = text[room:]
            if text:
                self._left_out += max(0, len(text) - END)
                self._end.append((at, text[-END:]))
                self._end_size += min(END, len(text))
                while self._end_size - len(self._end[0][1]) >= END:
                    _, dropped = self._end.popleft()
                    self._end_size -= len(dropped)
                    self._left_out += len(dropped)

    def _stream(self, at: int, text: str) -> None:
        room = STREAM_LIMIT - self._streamed
        if room > 0:
            self._unsent.append((at, text[:room]))
            self._streamed += len(text)
            if len(text) >= room:
                _cut_end(self._unsent)
                self._unsent.append((at, "\n" + CUT))

    def next_part(self) -> Part | None:
        """The whole lines that were printed since the last call; None if there are none.

        What may be the beginning of a secret is held back.
        """
        with self._lock:
            text, times = _joined(self._unsent)
            whole = text[: len(text) - unfinished(text)]
            cut = whole.rfind("\n") + 1
            if not cut:
                if len(whole) < PART_LIMIT:
                    return None
                # Between two words: an address with a password is recognised only as a whole.
                cut = whole.rfind(" ") + 1 or len(whole)
            rest = text[cut:]
            self._unsent = [(self._unsent[-1][0], rest)] if rest else []
            lines = text.count("\n", 0, cut) + (not text[:cut].endswith("\n"))
        return Part(text[:cut], [entry for entry in times if entry[0] < lines])

    def log(self) -> tuple[str, Times]:
        """What the report carries: all of it, or its beginning and its end."""
        with self._lock:
            entries, end = list(self._beginning), list(self._end)
            # Pieces are dropped whole while they come in, so the first one that is left may be longer than its share.
            excess = max(0, self._end_size - END)
            if excess:
                at, text = end[0]
                end[0] = at, text[excess:]
            left_out = self._left_out + excess
            if left_out:
                left_out += _cut_end(entries) + _cut_beginning(end)
                ended = entries[-1][1].endswith("\n")
                note = f"… {left_out:,} characters were cut off here …\n"
                entries.append((end[0][0], note if ended else "\n" + note))
            return _joined([*entries, *end])


def _cut_end(entries: list[tuple[int, str]]) -> int:
    """Leave out the beginning of a secret of which the rest is cut off. Returns its length."""
    at, last = entries[-1]
    text = "".join(text for _, text in entries)
    length = unfinished(text)
    if length > len(last):
        # It was printed piece by piece.
        entries[:] = [(entries[0][0], text[:-length])]
    elif length:
        entries[-1] = at, last[:-length]
    return length


def _cut_beginning(entries: list[tuple[int, str]]) -> int:
    """Leave out the end of a secret of which the beginning is cut off. Returns its length."""
    at, first = entries[0]
    text = "".join(text for _, text in entries)
    length = begun_before(text)
    if length > len(first):
        entries[:] = [(at, text[length:])]
    elif length:
        entries[0] = at, first[length:]
    return length


def _joined(entries: list[tuple[int, str]]) -> Part:
    """The text, and when each of its lines was begun."""
    times: Times = []
    line, at_start = 0, True
    for at, text in entries:
        first = line if at_start else line + 1
        line += text.count("\n")
        at_start = text.endswith("\n")
        begins_one = first <= line - at_start
        if begins_one and (not times or times[-1][1] != at):
            times.append([first, at])
    while len(times) > MOST_TIMES:
        times = times[::2]
    return Part("".join(text for _, text in entries), times)
