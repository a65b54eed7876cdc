"""`holdfast janitor`: what the janitor did and why, and one pass by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from holdfast.bootstrap import new_janitor
from holdfast.cli.session import begin, command, drive, has_database, open_database
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut, day_and_clock, duration, short
from holdfast.errors import ExitCode
from holdfast.settings import Settings
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader
from holdfast.store.tidying import ActionView, Finding, LeaderView, Tidying
from holdfast.views.upkeep import action_json, finding_json, leader_json

LIST_LENGTH = 50


def tidy(*, once: bool, dry_run: bool, as_json: bool, database_url: str | None) -> int:
    settings = begin(database_url)
    if not has_database(settings):
        return _nothing(once=once or dry_run, dry_run=dry_run, as_json=as_json)
    return drive(_tidy(settings, once=once, dry_run=dry_run, as_json=as_json, database_url=database_url))


def _nothing(*, once: bool, dry_run: bool, as_json: bool) -> int:
    if as_json:
        answer_json({"dry_run": dry_run, "findings": []} if once else {"leader": None, "actions": []})
    else:
        answer("There is no database yet, and so nothing to look after.")
    return ExitCode.DONE


async def _tidy(settings: Settings, *, once: bool, dry_run: bool, as_json: bool, database_url: str | None) -> int:
    async with open_database(settings) as store:
        if once or dry_run:
            findings = await new_janitor(store, settings).run_once(dry_run=dry_run)
            if as_json:
                answer_json({"dry_run": dry_run, "findings": [finding_json(finding) for finding in findings]})
            else:
                await _tell_pass(store, findings, dry_run=dry_run, database_url=database_url)
        else:
            tidying = Tidying(store)
            leader, actions = await tidying.leader(), await tidying.actions(LIST_LENGTH)
            if as_json:
                told = {"leader": leader_json(leader), "actions": [action_json(action) for action in actions]}
                answer_json(told)
            else:
                _tell_log(leader, actions, database_url)
    return ExitCode.DONE


async def _tell_pass(
    store: PostgresStore, findings: Sequence[Finding], *, dry_run: bool, database_url: str | None
) -> None:
    if not findings:
        answer("Everything is as it should be: nothing was found.")
        return
    show(_table([finding_json(finding) for finding in findings], with_time=False))
    if dry_run:
        say(f"  → Nothing was done. Do it with: {command('janitor --once', database_url)}")
    elif not await Reader(store.connections).orchestrators() and any(f.action == "recheck" for f in findings):
        say(f"  → Nobody is there to repair it. Start an orchestrator with: {command('orchestrator', database_url)}")
    else:
        say(f"  → {counted(len(findings), 'action')}; what came of it: {command('events JOB', database_url)}")


def _tell_log(leader: LeaderView | None, actions: Sequence[ActionView], database_url: str | None) -> None:
    if actions:
        show(_table([action_json(action) for action in actions], with_time=True))
    else:
        answer("The janitor has had nothing to do.")
    if leader is not None:
        say(f"{leader.holder.rpartition(' ')[0]} looks after this database, lease {duration(leader.lease_seconds)}.")
    else:
        say(f"Nobody looks after this database now. One pass by hand: {command('janitor --once', database_url)}")


def _table(rows: Sequence[dict[str, Any]], *, with_time: bool) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for name in (*(["at"] if with_time else []), "duty", "action", "where"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("reason", overflow="fold")
    for row in rows:
        at = [day_and_clock(row["at"])] if with_time else []
        table.add_row(*at, row["duty"], row["action"], _where(row), cut(row["reason"], 400))
    return table


def _where(row: dict[str, Any]) -> str:
    where = short(row["job_id"]) if row["job_id"] else ""
    if row["node"] is not None:
        where += f" {row['node']}"
    return where + (f"[{row['index']}]" if row["index"] is not None else "")
