"""The database's schema: bring it up to date, or show it."""

from __future__ import annotations

from holdfast.bootstrap import open_installation
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json
from holdfast.errors import ExitCode
from holdfast.operations.installation import ddl, migrate
from holdfast.settings import Settings


def print_ddl(*, as_json: bool) -> int:
    if as_json:
        answer_json({"ddl": ddl()})
    else:
        answer(ddl().rstrip("\n"))
    return ExitCode.DONE


def apply_migrations(*, as_json: bool, target: Target) -> int:
    return drive(_apply(begin(target), as_json))


async def _apply(settings: Settings, as_json: bool) -> int:
    async with open_installation(settings) as installation:
        applied = await migrate(installation)
    if as_json:
        answer_json({"applied": [{"number": m.number, "name": m.name} for m in applied]})
    elif applied:
        for migration in applied:
            answer(f"applied {migration.number:04d} {migration.name}")
    else:
        answer("The schema is up to date.")
    return ExitCode.DONE
