"""What the commands about breakers and limits share: listing them, and refusing one that does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive, has_database
from holdfast.client import Client
from holdfast.errors import ExitCode, NotFound
from holdfast.settings import Settings

Gate = TypeVar("Gate")


def list_gates(
    read: Callable[[Client], Awaitable[list[Gate]]], show: Callable[[list[Gate]], None], target: Target
) -> int:
    """Show all of them; without a database there are none."""
    settings = begin(target)

    async def work() -> int:
        async with open_client(settings) as client:
            show(await read(client))
        return ExitCode.DONE

    if has_database(settings):
        return drive(work())
    show([])
    return ExitCode.DONE


def begin_on_gate(kind: str, name: str, target: Target) -> Settings:
    """The settings of a command about one of them; without a database there is none."""
    settings = begin(target)
    if not has_database(settings):
        raise NotFound(
            f"There is no {kind} '{name}': there is no database yet.",
            remedy="Make one with: holdfast run FILE, or: holdfast up",
            instance=name,
        )
    return settings
