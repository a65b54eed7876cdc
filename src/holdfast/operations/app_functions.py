"""Functions that installed apps offer: each app names a module by an entry point, and decorates functions in it."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Protocol, TypeVar

from holdfast.errors import InvalidInput
from holdfast.log_events import EventLog

NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
NAME_LENGTH = 100


class Named(Protocol):
    @property
    def name(self) -> str: ...


Offered = TypeVar("Offered", bound=Named)


def check_name(name: str, word: str, example: str) -> None:
    if NAME.fullmatch(name) is None or len(name) > NAME_LENGTH:
        raise InvalidInput(f"'{name}' is not the name of a {word}.", remedy=f"Name it like {example}.")


def mark_of(word: str) -> str:
    """The attribute in which a decorated function has what it is."""
    return f"__holdfast_{word}__"


def offered(group: str, word: str, kind: type[Offered], log: EventLog) -> dict[str, Offered]:
    """What the entry points of a group offer, by name. A package that is broken is left out, and the log says so."""
    found: dict[str, Offered] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            for one in _offered_in(point, word, kind):
                if found.setdefault(one.name, one) is not one:
                    raise ValueError(f"there are two {word}s with the name {one.name}")
        except Exception as error:
            # Another package's code: it may raise anything while it is imported.
            log.write("app_left_out", app=point.name, reason=f"{type(error).__name__}: {error}")
    return dict(sorted(found.items()))


def _offered_in(point: EntryPoint, word: str, kind: type[Offered]) -> list[Offered]:
    loaded = point.load()
    if not isinstance(loaded, ModuleType):
        raise TypeError(f"{point.value} is not a module")
    marked = (getattr(value, mark_of(word), None) for value in vars(loaded).values())
    found = [one for one in marked if isinstance(one, kind)]
    if not found:
        raise ValueError(f"{point.value} has no {word}s; decorate its functions with @{word}")
    return found
