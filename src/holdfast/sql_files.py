"""SQL in the files of a package: named statements, and migrations in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

_HEADING = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


def statements_in(package: str) -> dict[str, bytes]:
    """The statements in the `*.sql` files of a package. `-- name: x` begins one, the lines under it say what for.

    Bytes, because the driver takes them as trusted text. Raises ValueError if two have one name.
    """
    statements: dict[str, bytes] = {}
    for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _HEADING.split(file.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in statements:
                raise ValueError(f"two statements are named {name}")
            lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
            statements[name] = "\n".join(lines).strip().rstrip(";").encode()
    return statements


def migrations_in(package: str) -> list[Migration]:
    """The files `NNNN_name.sql` in the folder `migrations` of a package, in order."""
    found = []
    for file in resources.files(package).joinpath("migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)
