"""`holdfast breakers`: which dependencies are held to be down, and a person's word on them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.table import Table

from holdfast.cli.gates import begin_on_gate, list_gates
from holdfast.cli.session import client_of, command, drive, open_database
from holdfast.cli.streams import answer, answer_json, harmless, say, show
from holdfast.cli.words import counted, cut, day_and_clock
from holdfast.client import Client
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.moments import moment
from holdfast.operations.gates import BreakerVerb
from holdfast.settings import Settings
from holdfast.store.gates import BreakerView
from holdfast.views.gates import breaker_json

DONE_WORDS = {"open": "is held open", "close": "is closed", "reset": "is closed and has forgotten its failures"}


def list_breakers(*, as_json: bool, database_url: str | None) -> int:
    return list_gates(
        Client.breakers, lambda found: _tell(found, as_json=as_json, database_url=database_url), database_url
    )


def change_breaker(
    verb: BreakerVerb, name: str | None, *, reason: str, yes: bool, as_json: bool, database_url: str | None
) -> int:
    if name is None:
        raise InvalidInput(
            f"Which breaker is to {verb}?", remedy=f"Name it: {command(f'breakers {verb} NAME', database_url)}"
        )
    settings = begin_on_gate("breaker", name, database_url)
    if not yes:
        _confirm(verb, name)
    return drive(_change(settings, verb, name, reason, as_json=as_json, database_url=database_url))


def _confirm(verb: BreakerVerb, name: str) -> None:
    if not sys.stdin.isatty():
        raise Refused(
            f"Breaker {name} was not changed: there is no terminal to ask on.",
            remedy="Say that you mean it with: --yes",
            instance=name,
        )
    effect = "Its tasks wait until you close it" if verb == "open" else "The tasks behind it go on at once"
    if not typer.confirm(f"{verb.capitalize()} breaker {harmless(name)}? {effect}", default=False, err=True):
        raise Refused(f"Breaker {name} was not changed.", instance=name)


async def _change(
    settings: Settings, verb: BreakerVerb, name: str, reason: str, *, as_json: bool, database_url: str | None
) -> int:
    async with open_database(settings) as store:
        changed = await client_of(store, settings).change_breaker(name, verb, reason=reason)
    if as_json:
        answer_json({"verb": verb, "breaker": breaker_json(changed)})
        return ExitCode.DONE
    waiting = f"; {counted(changed.waiting, 'task')} behind it" if changed.waiting else ""
    answer(f"Breaker {name} {DONE_WORDS[verb]}{waiting}.")
    if verb == "open":
        say(f"  → Close it with: {command(f'breakers close {name}', database_url)}")
    return ExitCode.DONE


def _tell(breakers: Sequence[BreakerView], *, as_json: bool, database_url: str | None) -> None:
    if as_json:
        answer_json({"breakers": [breaker_json(one) for one in breakers]})
        return
    if not breakers:
        answer("There are no breakers: no job of a workflow that declares one has begun.")
        return
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("breaker", "state", "since", "failed", "waiting"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("why", overflow="fold")
    for one in breakers:
        window = f"{one.failed} of {one.calls}" if one.calls else ""
        table.add_row(
            cut(one.name, 30),
            one.state.replace("_", " "),
            day_and_clock(moment(one.since)),
            window,
            f"{one.waiting:,}" if one.waiting else "",
            cut(why_text(one), 300),
        )
    show(table)
    held = [one.name for one in breakers if one.held]
    if held:
        say(f"  → Let its tasks go on with: {command(f'breakers close {held[0]}', database_url)}")


def why_text(one: BreakerView) -> str:
    """`10 of the last 20 calls failed; tried again at 12:03:41`, `held by ann@server: maintenance`"""
    reason = one.reason or ""
    if one.held:
        return f"held by {one.actor}: {reason}"
    if one.actor is not None:
        reason += f" (by {one.actor})"
    if one.state == "half_open":
        return f"{reason}; {one.successes} of {one.window_calls} calls have succeeded"
    return f"{reason}; {tried_again(one)}" if one.state == "open" else reason


def tried_again(one: BreakerView) -> str:
    if one.has_probe:
        return "waits for its probe"
    return f"tried again at {day_and_clock(moment(one.until))[-8:]}" if one.until else "is not tried again"
