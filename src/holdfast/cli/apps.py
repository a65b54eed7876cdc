"""The sub-commands that installed apps bring, by the entry point group `holdfast.cli`: found late, never in the way."""

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
    """An app that cannot be imported, or is none."""

    problem: HoldfastError

    @property
    def help(self) -> str:
        return f"Not available. {self.problem.remedy or ''}".strip()

    def tell(self) -> NoReturn:
        raise self.problem


def installed_apps(wanted: str | None) -> Iterator[tuple[str, typer.Typer | Unavailable]]:
    """The app of the wanted name, or all of them if it is no app's.

    One that cannot be imported is among them: its name stays known, and it stands in nobody's way.
    """
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    for point in [point for point in points if point.name == wanted] or points:
        yield point.name, _load(point)


def _load(point: EntryPoint) -> typer.Typer | Unavailable:
    try:
        loaded = point.load()
    except Exception as error:
        # Whatever an app's module raises while it is imported is the app's fault, not that of the command line.
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
