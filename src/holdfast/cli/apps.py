"""The sub-commands that installed apps bring, by the entry point group `holdfast.cli`: loaded only when needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn

import typer

from holdfast.errors import HoldfastError, InvalidInput

ENTRY_POINT_GROUP = "holdfast.cli"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """An app that cannot be imported, or that is not an app."""

    problem: HoldfastError

    @property
    def help(self) -> str:
        return f"Not available. {self.problem.remedy or ''}".strip()

    def fail(self) -> NoReturn:
        raise self.problem


def installed_apps(wanted: str | None) -> Iterator[tuple[str, typer.Typer | Unavailable]]:
    """The app of that name, or all apps if there is none.

    An app that cannot be imported is among them: its name stays known, and it breaks no other command.
    """
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    for point in [point for point in points if point.name == wanted] or points:
        yield point.name, _load(point)


def _load(point: EntryPoint) -> typer.Typer | Unavailable:
    try:
        loaded = point.load()
    except Exception as error:
        # A module may raise anything while it is imported; that is the fault of the app.
        return Unavailable(_problem(point, error))
    if isinstance(loaded, typer.Typer):
        return loaded
    return Unavailable(InvalidInput(f"The app '{point.name}' does not fit: {point.value} is not a typer.Typer."))


def _problem(point: EntryPoint, error: Exception) -> HoldfastError:
    package = point.dist.name if point.dist is not None else point.module.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and point.extras:
        message = f"The app '{point.name}' needs the module '{error.name}', which is not installed."
        return InvalidInput(message, remedy=f"Install it with: pip install '{package}[{','.join(point.extras)}]'")
    message = f"The app '{point.name}' cannot be imported: {type(error).__name__}: {error}"
    return InvalidInput(message, remedy=f"Install the package {package} again, with what it needs.")
