"""SQL in the files of a package: named statements, and migrations in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

_HEADING = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_FUNCTION = re.compile(r"^\{\{function (\w+)\}\}$", re.MULTILINE)


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
    """The files `NNNN_name.sql` in the folder `migrations` of a package, in order.

    `{{function x}}` in a migration stands for `functions/x.sql`, where people find the function as it is. A function is
    never changed: its successor gets another name, so that two versions can share a database. One that no process calls
    may be replaced, if its file says `create or replace`: a later migration names it again.
    """
    folder = resources.files(package)

    def function(place: re.Match[str]) -> str:
        return folder.joinpath("functions").joinpath(f"{place[1]}.sql").read_text(encoding="utf-8").rstrip("\n")

    found = []
    for file in folder.joinpath("migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        text = _FUNCTION.sub(function, file.read_text(encoding="utf-8"))
        found.append(Migration(int(number), name, text))
    return sorted(found, key=lambda migration: migration.number)
