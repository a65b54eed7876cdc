"""What breakers and limits share on the command line: how they are listed, and that one must be named and be there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.cli.session import begin, client_of, drive, has_database, open_database
from holdfast.client import Client
from holdfast.errors import ExitCode, NotFound
from holdfast.settings import Settings

Gate = TypeVar("Gate")


def list_gates(
    read: Callable[[Client], Awaitable[list[Gate]]], tell: Callable[[list[Gate]], None], database_url: str | None
) -> int:
    """Tell all that there are; where there is no database yet, there are none."""
    settings = begin(database_url)

    async def work() -> int:
        async with open_database(settings) as store:
            tell(await read(client_of(store, settings)))
        return ExitCode.DONE

    if has_database(settings):
        return drive(work())
    tell([])
    return ExitCode.DONE


def begin_on_gate(kind: str, name: str, database_url: str | None) -> Settings:
    """The settings of a command about one of them; where there is no database yet, there is no such one."""
    settings = begin(database_url)
    if not has_database(settings):
        raise NotFound(
            f"There is no {kind} '{name}': there is no database yet.",
            remedy="One is made by the first: holdfast run FILE, or holdfast up",
            instance=name,
        )
    return settings
