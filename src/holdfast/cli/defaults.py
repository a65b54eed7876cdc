"""`holdfast defaults`: what holds where a workflow says nothing about retries, breakers and its timeout."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive, has_database
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut, day_and_clock, value
from holdfast.client import Client
from holdfast.define.defaults import BUILT_IN, check_names, check_values
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, InvalidInput
from holdfast.views.defaults import Default, TenantDefaults, defaults_view
from holdfast.views.encoding import to_json


def show_defaults(names: Sequence[str], *, as_json: bool, target: Target) -> int:
    if names:
        command = target.command(f"defaults set {shown_name(names[0])}")
        raise InvalidInput("`defaults show` shows all defaults and takes no name.", remedy=f"Set one with: {command}")
    settings = begin(target)
    if not has_database(settings):
        _show(defaults_view(settings.tenant, ()), as_json=as_json, target=target)
        return ExitCode.DONE

    async def work() -> int:
        async with open_client(settings) as client:
            _show(await client.defaults(), as_json=as_json, target=target)
        return ExitCode.DONE

    return drive(work())


def set_defaults(assignments: Sequence[str], *, reason: str, as_json: bool, target: Target) -> int:
    if not assignments:
        example = target.command("defaults set retry.max_retries=5")
        raise InvalidInput("`defaults set` needs a value.", remedy=f"For example: {example}")
    values = dict(_assignment(text) for text in assignments)
    if len(values) < len(assignments):
        raise InvalidInput("One default is given twice.", remedy="Give each once.")
    # Refused before a database is started for it.
    check_values(values)
    return _change(
        lambda client: client.set_defaults(values, reason=reason), "set", list(values), as_json=as_json, target=target
    )


def reset_defaults(names: Sequence[str], *, every: bool, reason: str, as_json: bool, target: Target) -> int:
    if every == bool(names):
        one = target.command("defaults reset retry.max_retries")
        raise InvalidInput("`defaults reset` needs the names of defaults, or --all.", remedy=f"For example: {one}")
    check_names(names)
    chosen = None if every else list(names)
    return _change(
        lambda client: client.reset_defaults(chosen, reason=reason),
        "reset",
        chosen or list(BUILT_IN),
        as_json=as_json,
        target=target,
    )


def _change(
    change: Callable[[Client], Awaitable[TenantDefaults]],
    verb: str,
    names: Sequence[str],
    *,
    as_json: bool,
    target: Target,
) -> int:
    settings = begin(target)

    def tell(changed: TenantDefaults) -> int:
        if as_json:
            answer_json({"verb": verb, **to_json(changed)})
            return ExitCode.DONE
        for one in changed.defaults:
            if one.name in names:
                answer(f"{one.name} is {_text(one)}{'' if one.source == 'set' else ', the built-in value'}.")
        say("New jobs get it where their workflow says nothing; jobs that exist keep what they have.")
        return ExitCode.DONE

    async def work() -> int:
        async with open_client(settings) as client:
            changed = await change(client)
        return tell(changed)

    if verb == "reset" and not has_database(settings):
        return tell(defaults_view(settings.tenant, ()))
    return drive(work())


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, given = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"'{shown_name(text)}' is not NAME=VALUE.", remedy="Write for example: retry.max_retries=5")
    try:
        return name, json.loads(given)
    except (ValueError, RecursionError):
        return name, given


def _text(one: Default) -> str:
    return "none" if one.value is None else value(one.value, 60)


def _show(found: TenantDefaults, *, as_json: bool, target: Target) -> None:
    if as_json:
        answer_json(to_json(found))
        return
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("default", "value", "from"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    reasons = {one.name: one.reason for one in found.defaults if one.source == "set" and one.reason}
    if reasons:
        table.add_column("why", overflow="fold", min_width=12)
    for one in found.defaults:
        why = [cut(reasons.get(one.name, ""), 200)] if reasons else []
        table.add_row(one.name, _text(one), _source(one), *why)
    show(table)
    number = sum(one.source == "set" for one in found.defaults)
    if number:
        say(f"{counted(number, 'default')} set by people. Go back with: {target.command('defaults reset NAME')}")
    else:
        say(f"Set one with: {target.command('defaults set retry.max_retries=5')}")


def _source(one: Default) -> str:
    """`built in`, `ann@server, 2026-05-04 12:00:01`"""
    if one.source != "set" or one.actor is None or one.set_at is None:
        return "built in"
    return f"{cut(one.actor, 40)}, {day_and_clock(one.set_at)}"
