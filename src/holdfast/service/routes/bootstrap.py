"""The schema of the database, for administrators of the installation: looking at it, making it, dropping it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import Response
from pydantic import Field

from holdfast.errors import Forbidden, Refused
from holdfast.operations import installation as installing
from holdfast.operations.identity import Permission
from holdfast.operations.ports import Installation
from holdfast.service.bodies import Body
from holdfast.service.call import Call, CallContext
from holdfast.service.table import ListOf, Media, RouteTable
from holdfast.views.installation import SchemaState, Setting, TableSize

table = RouteTable("bootstrap")


@dataclass(frozen=True, slots=True)
class AppliedMigrations:
    """The migrations that were applied now, by number."""

    applied: tuple[int, ...]


class Rebuild(Body):
    """A rebuild deletes every job, every key and every setting in the database."""

    database: str = Field(max_length=200)
    """The name of the database, as a confirmation."""


@table.get("/bootstrap/status", Permission.ADMIN, answers=SchemaState)
async def show_schema_status(call: Call) -> Response:
    """Which migrations the database has and lacks."""
    async with _installation(call) as installation:
        return call.answer(await installing.schema_state(installation))


@table.get("/bootstrap/tables", Permission.ADMIN, answers=ListOf(TableSize))
async def list_tables(call: Call) -> Response:
    """The tables of the schema, with their rows and their sizes."""
    async with _installation(call) as installation:
        return call.items(await installing.tables(installation))


@table.get("/bootstrap/settings", Permission.ADMIN, answers=ListOf(Setting))
async def list_settings(call: Call) -> Response:
    """The settings of the process that answers, without secrets."""
    _refuse_others(call)
    return call.items(call.state.settings)


@table.get("/bootstrap/ddl", Permission.ADMIN, answers=Media("application/sql", "The statements of the schema."))
async def show_schema_statements(call: Call) -> Response:
    """The whole schema as SQL statements."""
    _refuse_others(call)
    return Response(installing.ddl(), media_type="application/sql")


@table.post("/bootstrap/deploy", Permission.ADMIN, answers=AppliedMigrations, errors=(Refused,))
async def deploy_schema(call: Call) -> Response:
    """Make the schema, or bring it up to date. Only where the process was started with `--allow-bootstrap`."""
    return await _migrate(call)


@table.post("/bootstrap/migrate", Permission.ADMIN, answers=AppliedMigrations, errors=(Refused,))
async def migrate_schema(call: Call) -> Response:
    """Bring the schema up to date. Only where the process was started with `--allow-bootstrap`."""
    return await _migrate(call)


@table.post("/bootstrap/rebuild", Permission.ADMIN, answers=SchemaState, errors=(Refused,))
async def rebuild_schema(call: Call, body: Rebuild) -> Response:
    """Drop the schema with all jobs and keys, and make it again.

    Only where the process was started with `--allow-bootstrap`, and while no job is open. Afterwards no key is valid:
    make one with `holdfast keys add`.
    """
    async with _installation(call, changes=True) as installation:
        await installing.rebuild(installation, body.database, while_jobs_are_open=False)
        call.state.forget_identities()
        return call.answer(await installing.schema_state(installation))


async def _migrate(call: CallContext) -> Response:
    async with _installation(call, changes=True) as installation:
        applied = await installing.migrate(installation)
        return call.answer(AppliedMigrations(tuple(one.number for one in applied)))


@asynccontextmanager
async def _installation(call: CallContext, *, changes: bool = False) -> AsyncIterator[Installation]:
    """The database itself, for those who may set it up."""
    _refuse_others(call)
    if changes and not call.state.allow_bootstrap:
        raise Forbidden(
            "This process does not change the schema.",
            remedy="Use the command: holdfast bootstrap; or start the service with --allow-bootstrap.",
        )
    assert call.state.open_installation is not None
    async with call.state.open_installation() as installation:
        yield installation


def _refuse_others(call: CallContext) -> None:
    if not call.identity.is_installation_admin:
        raise Forbidden(
            f"This is for administrators of the installation; {call.identity.name} is none.",
            remedy="Use a key that was made with: holdfast keys add NAME --role admin --tenant '*'",
        )
