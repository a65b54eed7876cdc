"""The database's schema: bring it up to date, show it, or make it again."""

from __future__ import annotations

from rich.table import Table

from holdfast.bootstrap import open_installation
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.errors import ExitCode
from holdfast.operations import installation as operations
from holdfast.settings import Settings
from holdfast.views.encoding import to_json


def print_ddl(*, as_json: bool) -> int:
    if as_json:
        answer_json({"ddl": operations.ddl()})
    else:
        answer(operations.ddl().rstrip("\n"))
    return ExitCode.DONE


def apply_migrations(*, as_json: bool, target: Target) -> int:
    return drive(_apply(begin(target), as_json))


async def _apply(settings: Settings, as_json: bool) -> int:
    async with open_installation(settings) as installation:
        applied = await operations.migrate(installation)
        has_operators = await operations.admit_operators(installation)
    if as_json:
        answer_json({"applied": [{"number": m.number, "name": m.name} for m in applied]})
    elif applied:
        for migration in applied:
            answer(f"applied {migration.number:04d} {migration.name}")
        if not has_operators:
            say("There is no role holdfast_operator for people who have only psql, and this login may not create it.")
            say("  → Let an administrator run: create role holdfast_operator; Then run: holdfast migrate")
    else:
        answer("The schema is up to date.")
    return ExitCode.DONE


def show_schema(*, as_json: bool, target: Target) -> int:
    async def work(settings: Settings) -> int:
        async with open_installation(settings) as installation:
            state = await operations.schema_state(installation)
        if as_json:
            answer_json(to_json(state))
        elif state.is_foreign:
            raise operations.foreign_schema()
        elif state.is_current:
            answer(f"The schema is up to date: {len(state.applied)} migrations.")
        elif state.unknown:
            answer(f"A newer version of Holdfast has migrated this database: it has {_numbers(state.unknown)}.")
            say("  → Install that version, or a newer one.")
        elif not state.applied:
            answer("Holdfast has not been set up in this database.")
            say(f"  → Make the schema with: {target.command('migrate')}")
        else:
            answer(f"The schema lacks {_numbers(state.missing)}.")
            say(f"  → Apply what is missing with: {target.command('migrate')}")
        return ExitCode.DONE

    return drive(work(begin(target)))


def _numbers(migrations: tuple[int, ...]) -> str:
    listed = ", ".join(f"{number:04d}" for number in migrations)
    return f"migration{'' if len(migrations) == 1 else 's'} {listed}"


def show_tables(*, as_json: bool, target: Target) -> int:
    async def work(settings: Settings) -> int:
        async with open_installation(settings) as installation:
            tables = await operations.tables(installation)
        if as_json:
            answer_json({"tables": [to_json(one) for one in tables]})
        elif not tables:
            answer("Holdfast has not been set up in this database.")
            say(f"  → Make the schema with: {target.command('migrate')}")
        else:
            shown = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
            shown.add_column("table", no_wrap=True)
            shown.add_column("rows", justify="right")
            shown.add_column("KiB", justify="right")
            for one in tables:
                shown.add_row(one.table, f"{one.rows:,}", f"{one.bytes // 1024:,}")
            show(shown)
        return ExitCode.DONE

    return drive(work(begin(target)))


def rebuild_schema(name: str | None, *, as_json: bool, target: Target) -> int:
    async def work(settings: Settings) -> int:
        async with open_installation(settings) as installation:
            await operations.rebuild(installation, name or "")
        if as_json:
            answer_json({"rebuilt": name})
        else:
            answer(f"The schema in {name} was dropped and made again. Every job is gone.")
        return ExitCode.DONE

    return drive(work(begin(target)))
