"""Reads a file that lists stacks: the results of the node that made them, or their outputs alone. Writes nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from holdfast import Permanent
from holdfast.apps.catalog.facts import item_from_facts
from holdfast.apps.catalog.interface import InvalidItem
from holdfast.apps.catalog.rows import item_row
from holdfast.apps.flood.naming import REGION, SCENARIO
from holdfast.apps.flood.registering import facts_of

MAX_BYTES = 12 * 1024 * 1024
"""The largest file. Its stacks become one output, and HOLDFAST_PAYLOAD_LIMIT_BYTES is 16 MiB unless it is set."""
MAX_STACKS = 10_000
COMPLETED = "completed"
OTHERS = ("failed", "cancelled", "skipped", "ready", "dispatched", "running")
"""The other statuses of tasks. What such a task has made is not registered."""
REPEATED = "repeated"

_HOW = "Write the file with: holdfast results JOB stack --status completed --to FILE"
_SPLIT = "Split it, as with `split -l 5000`, and register one part after the other"
_STRINGS = ("region", "scenario", "place", "href", "sha256")
_SPACE = " \t\r\n"
_GAP = re.compile(rf"[{_SPACE}]*([,\]]?)[{_SPACE}]*")
"""What is between two elements of a list."""


@dataclass(slots=True)
class Listing:
    """The stacks of one region, each with the job and the node that made it, if the file names them."""

    region: str = ""
    stacks: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """How many entries of the file are not registered, by their status; `repeated` stacks are listed once before."""
    _known: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """The place and the facts of each stack, by the id of its item."""

    def add(self, stack: Any, origin: dict[str, Any] | None, place: str) -> None:
        facts = _checked(stack, place)
        self.region = self.region or stack["region"]
        if stack["region"] != self.region:
            reason = f"is a stack of {stack['region']}, and those before it are of {self.region}"
            raise _refused(f"{place} {reason}. Put each region into a file of its own")
        if facts["id"] not in self._known:
            self._known[facts["id"]] = place, facts
            self.stacks.append({"stack": stack, "origin": origin})
            return
        earlier, known = self._known[facts["id"]]
        if known != facts:
            raise _refused(f"{place} has another version of {facts['id']} than {earlier}. Remove the wrong one")
        self.left_out[REPEATED] += 1

    def to_json(self) -> dict[str, Any]:
        count = self.left_out.total()
        return {
            "region": self.region,
            "stacks": self.stacks,
            "listed": len(self.stacks) + count,
            "left_out": {"count": count, "statuses": dict(self.left_out)},
        }


def read_listing(path: Path, name: str) -> Listing:
    """The completed stacks of a file. Refuses a file with anything else, and says on which line that is."""
    listing = Listing()
    for place, entry in _entries(_text(path, name), name):
        status, stack, origin = _unwrapped(entry)
        if status == COMPLETED:
            listing.add(stack, origin, place)
        elif status in OTHERS:
            listing.left_out[status] += 1
        else:
            raise _refused(f"{place} has the status {str(status)[:50]!r}, which no task has. {_HOW}")
        if len(listing.stacks) > MAX_STACKS:
            raise _refused(f"{name} lists more than {MAX_STACKS:,} stacks. {_SPLIT}")
    if not listing.stacks:
        found = ", ".join(f"{count:,} {status}" for status, count in listing.left_out.items())
        raise _refused(f"{name} has no completed result{f', only {found}' if found else ''}. {_HOW}")
    return listing


def _text(path: Path, name: str) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _refused(f"{name} has more than {MAX_BYTES >> 20} MiB. {_SPLIT}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(f"Line {line} of {name} is not text in UTF-8. {_HOW}") from None
    if not text.strip(_SPACE):
        raise _refused(f"{name} is empty. {_HOW}")
    return text


def _entries(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """The values of the file, each with its place: one on each line, or the elements of one list."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    if text.lstrip(_SPACE).startswith("["):
        yield from _elements(text, name, decoder)
        return
    # Not splitlines: a string of JSON may have other characters that end a line.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip(_SPACE):
            yield f"Line {number} of {name}", _decoded(decoder, line, number, name)


def _decoded(decoder: json.JSONDecoder, line: str, number: int, name: str) -> Any:
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise _not_json(number, name, error) from None


def _elements(text: str, name: str, decoder: json.JSONDecoder) -> Iterator[tuple[str, Any]]:
    """The elements of a list. They are decoded one by one, so that the line of each is known."""
    position, number = text.index("[") + 1, 0
    line = 1 + text.count("\n", 0, position)
    while True:
        gap = _GAP.match(text, position)
        assert gap is not None, "the pattern matches everywhere"
        line, position = line + text.count("\n", position, gap.end()), gap.end()
        if gap[1] == "]" and position == len(text):
            return
        if gap[1] != ("," if number else ""):
            raise _not_json(line, name, ValueError("the elements of a list must have one comma between them"))
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise _not_json(getattr(error, "lineno", line), name, error) from None
        number += 1
        yield f"Line {line} of {name} (element {number})", value
        line, position = line + text.count("\n", position, end), end


def _unwrapped(entry: Any) -> tuple[Any, Any, dict[str, Any] | None]:
    """The status, the output and the origin of an entry; one that is no result of a task is an output itself."""
    if not isinstance(entry, dict) or not {"status", "output"} <= entry.keys():
        return COMPLETED, entry, None
    origin = {key: entry.get(key) for key in ("job_id", "node")}
    return entry["status"], entry["output"], origin if all(isinstance(one, str) for one in origin.values()) else None


def _checked(stack: Any, place: str) -> dict[str, Any]:
    """The facts of a stack, if the catalog can register them."""
    try:
        _check_kinds(stack)
        facts = facts_of(stack)
        item_row("flood", item_from_facts(facts))
    except KeyError as missing:
        raise _no_stack(place, f"it has no {missing}") from None
    except InvalidItem as problem:
        raise _no_stack(place, problem.reason) from None
    except (ValueError, Permanent) as problem:
        raise _no_stack(place, str(problem)) from None
    except (TypeError, AttributeError) as problem:
        raise _no_stack(place, f"a value has the wrong type ({problem})") from None
    return facts


def _check_kinds(stack: Any) -> None:
    """Check what names the item, and what the summaries of the collection are made of."""
    if not isinstance(stack, dict):
        raise ValueError("it is not an object")
    for name in _STRINGS:
        if not isinstance(stack[name], str):
            raise ValueError(f"its {name} is not a string")
    if not REGION.fullmatch(stack["region"]) or not SCENARIO.fullmatch(stack["scenario"]):
        raise ValueError(f"'{stack['region']}/{stack['scenario']}' is not a region with a scenario")
    years, depth = stack["return_periods"], stack["max_depth_m"]
    if not isinstance(years, list) or not all(isinstance(one, int) for one in years):
        raise ValueError("its return_periods are not whole numbers")
    if depth is not None and not isinstance(depth, int | float):
        raise ValueError("its max_depth_m is not a number")


def _no_stack(place: str, reason: str) -> Permanent:
    return _refused(f"{place} is not a stack of flood.band_stack: {reason[:300]}. {_HOW}")


def _not_json(line: int, name: str, error: Exception) -> Permanent:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", str(error))
    return _refused(f"Line {line} of {name} is not JSON: {reason[:200]}. {_HOW}")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _refused(message: str) -> Permanent:
    return Permanent(message, code="FLOOD_RESULTS")
