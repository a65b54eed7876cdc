"""`holdfast limits`: how many tasks may run and start, how many jobs may be open, and setting it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.gates import begin_on_gate, list_gates
from holdfast.cli.pausing import pause_sentence, unpause_command
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, InvalidInput
from holdfast.operations.gates import check_limit
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.gates import Limit


def list_limits(*, as_json: bool, target: Target) -> int:
    return list_gates(lambda client: client.limits(), lambda rows: _show(rows, as_json=as_json, target=target), target)


def set_limit(
    name: str | None,
    *,
    tenant: str | None,
    concurrency: int | None,
    rate: str | None,
    backlog: int | None,
    as_json: bool,
    target: Target,
) -> int:
    known = _named(name, "set", target)
    values: dict[str, Any] = {
        "concurrency": concurrency,
        "rate": _rate(rate) if rate is not None else None,
        "backlog": backlog,
    }
    # Refused before a database is started for it.
    check_limit(known, tenant, **values)
    return drive(_set(begin(target), known, tenant, values, as_json=as_json, target=target))


async def _set(
    settings: Settings, name: str, tenant: str | None, values: dict[str, Any], *, as_json: bool, target: Target
) -> int:
    async with open_client(settings) as client:
        changed = await client.set_limit(name, tenant=tenant, **values)
    if as_json:
        answer_json({"verb": "set", "limit": to_json(changed)})
    else:
        answer(f"Limit {changed.name}{_of(changed)}: {terms(changed)}.")
        _say_pauses([changed], target)
    return ExitCode.DONE


def drop_limit(name: str | None, *, tenant: str | None, as_json: bool, target: Target) -> int:
    known = _named(name, "drop", target)
    settings = begin_on_gate("limit", known, target)
    return drive(_drop(settings, known, tenant, as_json=as_json))


async def _drop(settings: Settings, name: str, tenant: str | None, *, as_json: bool) -> int:
    async with open_client(settings) as client:
        dropped = await client.drop_limit(name, tenant=tenant)
    if as_json:
        answer_json({"verb": "drop", "limit": to_json(dropped)})
    elif dropped.is_declared:
        answer(f"Limit {dropped.name}{_of(dropped)} is its workflow's again.")
        say(f"It stays at {terms(dropped)} until an orchestrator restarts and runs a job of the workflow.")
    else:
        answer(f"Limit {dropped.name}{_of(dropped)} is gone; it was: {terms(dropped)}.")
    return ExitCode.DONE


def _named(name: str | None, verb: str, target: Target) -> str:
    if name is None:
        remedy = f"Name it: {target.command(f'limits {verb} queue:default')}"
        raise InvalidInput(f"`limits {verb}` needs the name of a limit.", remedy=remedy)
    return name


def _rate(text: str) -> tuple[int, float]:
    number, _, seconds = text.partition("/")
    try:
        return int(number), float(seconds)
    except ValueError:
        raise InvalidInput(
            f"'{shown_name(text)}' is not a rate.", remedy="A rate is how many in how many seconds: --rate 100/60"
        ) from None


def terms(one: Limit) -> str:
    """`2 at once, 100 in 60 s, 1,000 open jobs`"""
    parts = [f"{one.concurrency:,} at once"] if one.concurrency is not None else []
    if one.rate is not None:
        parts.append(f"{one.rate.limit:,} in {one.rate.per_seconds:g} s")
    return ", ".join([*parts, *([counted(one.backlog, "open job")] if one.backlog is not None else [])])


def _of(one: Limit) -> str:
    return f" of tenant {one.tenant}" if one.tenant else ""


def _show(limits: Sequence[Limit], *, as_json: bool, target: Target) -> None:
    if as_json:
        answer_json({"limits": to_json(limits)})
        return
    if not limits:
        answer("There are no limits.")
        say(f"  → Set one, for example: {target.command('limits set queue:default --concurrency 10')}")
        return
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("limit", "tenant", "allows", "running", "waiting", "open jobs", "set by"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for one in limits:
        numbers = (one.running, one.waiting, one.open_jobs or 0)
        shown = (f"{number:,}" if number else "" for number in numbers)
        table.add_row(cut(one.name, 40), cut(one.tenant or "", 40), _allowed(one), *shown, cut(_setter(one), 40))
    show(table)
    _say_pauses(limits, target)


def _allowed(one: Limit) -> str:
    if one.paused is None:
        return terms(one)
    return "; else ".join(part for part in ("nothing, paused", terms(one)) if part)


def _setter(one: Limit) -> str:
    return one.actor or (one.paused.by if one.paused is not None else "its workflow")


def _say_pauses(limits: Sequence[Limit], target: Target) -> None:
    for one in limits:
        if one.paused is not None:
            queue = one.name.removeprefix("queue:")
            say(f"{pause_sentence(queue, one.paused)}.")
            say(f"  → {unpause_command(queue, target)}")
