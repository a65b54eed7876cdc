"""`holdfast limits`: how many tasks may run and begin, how many jobs may be open, and a person's word on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from holdfast.cli.gates import begin_on_gate, list_gates
from holdfast.cli.session import begin, client_of, command, drive, open_database
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut
from holdfast.client import Client
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, InvalidInput
from holdfast.operations.gates import check_limit
from holdfast.settings import Settings
from holdfast.store.gates import LimitView
from holdfast.views.gates import limit_json


def list_limits(*, as_json: bool, database_url: str | None) -> int:
    return list_gates(
        Client.limits, lambda found: _tell(found, as_json=as_json, database_url=database_url), database_url
    )


def set_limit(
    name: str | None,
    *,
    tenant: str | None,
    concurrency: int | None,
    rate: str | None,
    backlog: int | None,
    as_json: bool,
    database_url: str | None,
) -> int:
    known = _named(name, "set", database_url)
    given: dict[str, Any] = {
        "concurrency": concurrency,
        "rate": _rate(rate) if rate is not None else None,
        "backlog": backlog,
    }
    # Refused before a database is started for it.
    check_limit(known, tenant, **given)
    return drive(_set(begin(database_url), known, tenant, given, as_json=as_json))


async def _set(settings: Settings, name: str, tenant: str | None, given: dict[str, Any], *, as_json: bool) -> int:
    async with open_database(settings) as store:
        changed = await client_of(store, settings).set_limit(name, tenant=tenant, **given)
    if as_json:
        answer_json({"verb": "set", "limit": limit_json(changed)})
    else:
        answer(f"Limit {changed.name}{_of(changed)}: {terms(changed)}.")
    return ExitCode.DONE


def drop_limit(name: str | None, *, tenant: str | None, as_json: bool, database_url: str | None) -> int:
    known = _named(name, "drop", database_url)
    settings = begin_on_gate("limit", known, database_url)
    return drive(_drop(settings, known, tenant, as_json=as_json))


async def _drop(settings: Settings, name: str, tenant: str | None, *, as_json: bool) -> int:
    async with open_database(settings) as store:
        dropped = await client_of(store, settings).drop_limit(name, tenant=tenant)
    if as_json:
        answer_json({"verb": "drop", "limit": limit_json(dropped)})
    elif dropped.is_declared:
        answer(f"Limit {dropped.name}{_of(dropped)} is its workflow's again.")
        say(f"It stays at {terms(dropped)} until an orchestrator that starts anew meets the workflow.")
    else:
        answer(f"Limit {dropped.name}{_of(dropped)} is gone; it was: {terms(dropped)}.")
    return ExitCode.DONE


def _named(name: str | None, verb: str, database_url: str | None) -> str:
    if name is None:
        remedy = f"Name it: {command(f'limits {verb} queue:default', database_url)}"
        raise InvalidInput(f"Which limit is to be {'set' if verb == 'set' else 'dropped'}?", remedy=remedy)
    return name


def _rate(text: str) -> tuple[int, float]:
    number, _, seconds = text.partition("/")
    try:
        return int(number), float(seconds)
    except ValueError:
        raise InvalidInput(
            f"'{shown_name(text)}' is not a rate.", remedy="A rate is how many in how many seconds: --rate 100/60"
        ) from None


def terms(one: LimitView) -> str:
    """`2 at once, 100 in 60 s, 1,000 open jobs`"""
    parts = [f"{one.concurrency:,} at once"] if one.concurrency is not None else []
    if one.burst is not None and one.rate is not None:
        parts.append(f"{one.burst:,} in {one.burst / one.rate:g} s")
    return ", ".join([*parts, *([counted(one.backlog, "open job")] if one.backlog is not None else [])])


def _of(one: LimitView) -> str:
    return f" of tenant {one.tenant}" if one.tenant else ""


def _tell(limits: Sequence[LimitView], *, as_json: bool, database_url: str | None) -> None:
    if as_json:
        answer_json({"limits": [limit_json(one) for one in limits]})
        return
    if not limits:
        answer("There are no limits.")
        say(f"  → Set one, for example: {command('limits set queue:default --concurrency 10', database_url)}")
        return
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("limit", "tenant", "allows", "running", "waiting", "open jobs", "set by"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for one in limits:
        numbers = (one.running, one.waiting, one.open_jobs or 0)
        shown = (f"{number:,}" if number else "" for number in numbers)
        table.add_row(cut(one.name, 40), cut(one.tenant, 40), terms(one), *shown, cut(one.actor or "its workflow", 40))
    show(table)
