"""`holdfast breakers`: which breakers are open and why, and opening and closing them by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.asking import confirmed
from holdfast.cli.gates import begin_on_gate, list_gates
from holdfast.cli.session import Target, drive
from holdfast.cli.streams import answer, answer_json, harmless, say, show
from holdfast.cli.words import coming, counted, cut, day_and_clock
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.operations.gates import BreakerVerb
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.gates import Breaker

DONE_WORDS = {"open": "is held open", "close": "is closed", "reset": "is closed and has forgotten its failures"}


def list_breakers(*, as_json: bool, target: Target) -> int:
    return list_gates(
        lambda client: client.breakers(), lambda rows: _show(rows, as_json=as_json, target=target), target
    )


def change_breaker(
    verb: BreakerVerb, name: str | None, *, reason: str, yes: bool, as_json: bool, target: Target
) -> int:
    if name is None:
        raise InvalidInput(
            f"`breakers {verb}` needs the name of a breaker.",
            remedy=f"Name it: {target.command(f'breakers {verb} NAME')}",
        )
    settings = begin_on_gate("breaker", name, target)
    if not yes:
        _confirm(verb, name)
    return drive(_change(settings, verb, name, reason, as_json=as_json, target=target))


def _confirm(verb: BreakerVerb, name: str) -> None:
    if not sys.stdin.isatty():
        raise Refused(
            f"Breaker {name} was not changed: there is no terminal to ask on.",
            remedy="Confirm with --yes.",
            instance=name,
        )
    effect = "Its tasks wait until you close it" if verb == "open" else "The tasks behind it continue at once"
    if not confirmed(f"{verb.capitalize()} breaker {harmless(name)}? {effect}"):
        raise Refused(f"Not confirmed; breaker {name} is unchanged.", instance=name)


async def _change(
    settings: Settings, verb: BreakerVerb, name: str, reason: str, *, as_json: bool, target: Target
) -> int:
    async with open_client(settings) as client:
        changed = await client.change_breaker(name, verb, reason=reason)
    if as_json:
        answer_json({"verb": verb, "breaker": to_json(changed)})
        return ExitCode.DONE
    waiting = f"; {counted(changed.waiting, 'task')} behind it" if changed.waiting else ""
    answer(f"Breaker {name} {DONE_WORDS[verb]}{waiting}.")
    if verb == "open":
        say(f"  → Close it with: {target.command(f'breakers close {name}')}")
    return ExitCode.DONE


def _show(breakers: Sequence[Breaker], *, as_json: bool, target: Target) -> None:
    if as_json:
        answer_json({"breakers": to_json(breakers)})
        return
    if not breakers:
        answer("There are no breakers: no job of a workflow that declares one has started.")
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
            day_and_clock(one.since),
            window,
            f"{one.waiting:,}" if one.waiting else "",
            cut(why_text(one), 300),
        )
    show(table)
    held = [one.name for one in breakers if one.held_by is not None]
    if held:
        say(f"  → Let its tasks continue with: {target.command(f'breakers close {held[0]}')}")


def why_text(one: Breaker) -> str:
    """`10 of the last 20 calls failed; tried again at 12:03:41`, `held by ann@server: maintenance`"""
    reason = one.reason or ""
    if one.held_by is not None:
        return f"held by {one.held_by}: {reason}"
    if one.actor is not None:
        reason += f" (by {one.actor})"
    if one.state == "half_open":
        return f"{reason}; {one.successes} of {counted(one.window_calls, 'call')} succeeded"
    return f"{reason}; {tried_again(one)}" if one.state == "open" else reason


def tried_again(one: Breaker) -> str:
    if one.has_probe:
        return "waits for its probe"
    return f"tried again at {coming(one.until)}" if one.until else "is not tried again"
