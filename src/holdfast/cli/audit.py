"""`holdfast audit`: who changed what, and from where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive, has_database, where
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import cut, day_and_clock, parse_moment, short
from holdfast.errors import ExitCode
from holdfast.settings import Settings
from holdfast.views.audit import AuditLine, AuditPage
from holdfast.views.encoding import to_json

SHOWN_CHARACTERS = 120


def list_changes(
    *,
    since: str | None,
    actor: str | None,
    action: str | None,
    instance: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
    target: Target,
) -> int:
    wanted: dict[str, Any] = {
        "since": parse_moment(since, "--since") if since is not None else None,
        "actor": actor,
        "action": action,
        "instance": instance,
    }
    return drive(_list(begin(target), wanted, limit, after, as_json=as_json, target=target))


async def _list(
    settings: Settings, wanted: Mapping[str, Any], limit: int, after: str | None, *, as_json: bool, target: Target
) -> int:
    page = AuditPage((), None)
    if has_database(settings):
        async with open_client(settings) as client:
            page = await client.audit(**wanted, limit=limit, after=after)
    if as_json:
        more = {"after": page.after} if page.after is not None else {}
        answer_json({"changes": to_json(page.lines)} | more)
    elif page.lines:
        show(_table(page.lines))
        if page.after is not None:
            older = target.command(f"audit --limit {limit} --after {page.after}")
            say(f"  → Older ones, with the same filters: {older}")
    else:
        answer(f"No change is known{where(settings)}.")
    return ExitCode.DONE


def _table(lines: tuple[AuditLine, ...]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for name in ("at", "who", "from", "what", "to"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("change", overflow="fold")
    table.add_column("why", overflow="fold")
    for one in lines:
        table.add_row(
            day_and_clock(one.at),
            cut(one.actor, 40),
            one.address or "",
            one.action,
            _instance(one),
            cut(_change(one), SHOWN_CHARACTERS),
            cut(one.reason or "", SHOWN_CHARACTERS),
        )
    return table


def _instance(one: AuditLine) -> str:
    if one.instance is None:
        return ""
    return short(one.instance) if one.action.startswith("job.") else cut(one.instance, 60)


def _change(one: AuditLine) -> str:
    """What differs: `concurrency 2 → 5`; of a verb, what was asked."""
    if one.action.startswith("job."):
        return _words({name: value for name, value in (one.after or {}).items() if name != "signal_id"})
    before, after = one.before or {}, one.after or {}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if not before:
        return _words(after)
    return ", ".join(f"{name} {_word(before.get(name))} → {_word(after.get(name))}" for name in names)


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_word(value)}" for name, value in values.items() if value is not None)


def _word(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
