"""`holdfast commands`: the direct commands of installed packages, and calling one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.data_files import read_object
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, json_text, say, show
from holdfast.cli.words import cut
from holdfast.errors import ExitCode, InvalidInput
from holdfast.settings import Settings
from holdfast.views.commands import DirectCommand
from holdfast.views.encoding import to_json


def list_commands(*, as_json: bool, target: Target) -> int:
    return drive(_list(begin(target), as_json=as_json, target=target))


async def _list(settings: Settings, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        found = await client.commands()
    if as_json:
        answer_json({"commands": to_json(found)})
        return ExitCode.DONE
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("command", "scope"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what it does, and what it takes")
    for one in found:
        summary = one.description.partition("\n\n")[0]
        table.add_row(cut(one.name, 40), one.scope, cut(summary, 300))
        table.add_row("", "", cut(_takes(one), 300), style="dim")
    show(table)
    say(f"  → {target.command('commands run NAME --input NAME=VALUE')}")
    return ExitCode.DONE


def run_command(
    name: str | None, assignments: Sequence[str], file: Path | None, *, as_json: bool, target: Target
) -> int:
    if name is None:
        raise InvalidInput(
            "`commands run` needs a name.", remedy=f"List the commands: {target.command('commands list')}"
        )
    given = (read_object(file) if file is not None else {}) | dict(map(_assigned, assignments))
    return drive(_run(begin(target), name, given, as_json=as_json))


async def _run(settings: Settings, name: str, given: dict[str, Any], *, as_json: bool) -> int:
    async with open_client(settings) as client:
        returned = await client.run_command(name, given)
    if as_json:
        answer_json(returned)
    else:
        answer(json_text(returned, indent=2))
    return ExitCode.DONE


def _takes(one: DirectCommand) -> str:
    """The names of its input; those that may be left out in brackets."""
    required = one.input.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in one.input.get("properties", {}))


def _assigned(text: str) -> tuple[str, Any]:
    """NAME=VALUE, whose value is JSON, or else a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"'{cut(text, 100)}' is not an input.", remedy="Write --input NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
