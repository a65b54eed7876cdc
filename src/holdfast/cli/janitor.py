"""`holdfast janitor`: what the janitor did and why, and letting it look now."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive, has_database
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut, day_and_clock, duration, short
from holdfast.errors import ExitCode
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.upkeep import Action, Alert, Finding, JanitorLog, JanitorPass


def tidy(*, once: bool, dry_run: bool, as_json: bool, target: Target) -> int:
    """Show what the janitor did, or let it look now."""
    settings = begin(target)
    if not has_database(settings):
        if as_json:
            answer_json(to_json(JanitorPass(dry_run) if once or dry_run else JanitorLog()))
        else:
            answer("There is no database yet, so there is nothing to look after.")
        return ExitCode.DONE
    work = _look(settings, dry_run=dry_run, as_json=as_json, target=target) if once or dry_run else None
    return drive(work or _log(settings, as_json=as_json, target=target))


async def _look(settings: Settings, *, dry_run: bool, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        done = await client.run_janitor(
            dry_run=dry_run,
            lease_seconds=settings.owner_lease_seconds,
            retention_days=settings.retention_days,
            audit_days=settings.audit_days,
            stats_days=settings.stats_days,
        )
        is_served = await client.is_served()
    if as_json:
        answer_json(to_json(done))
    elif not done.findings:
        answer("Nothing was found: everything is in order.")
    else:
        _show_alerts(done.alerts)
        show(_table(done.findings))
        if dry_run:
            say(f"  → Nothing was done. Do it with: {target.command('janitor --once')}")
        elif not is_served and any(finding.action == "recheck" for finding in done.findings):
            say(f"  → Only an orchestrator can repair it. Start one with: {target.command('orchestrator')}")
        else:
            say(f"  → {counted(len(done.findings), 'action')}; see the effect with: {target.command('events JOB')}")
    return ExitCode.DONE


async def _log(settings: Settings, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        log = await client.janitor_log()
    if as_json:
        answer_json(to_json(log))
        return ExitCode.DONE
    if log.actions:
        _show_alerts(log.alerts)
        show(_table(log.actions))
    else:
        answer("The janitor has had nothing to do.")
    if log.leader is not None:
        name, lease = log.leader.holder.rpartition(" ")[0], duration(log.leader.lease_seconds)
        say(f"{name} looks after this database, lease {lease}.")
    else:
        say(f"No process looks after this database now. Look once with: {target.command('janitor --once')}")
    return ExitCode.DONE


def _show_alerts(alerts: Sequence[Alert]) -> None:
    """What was found, by severity; the table of the single actions follows."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for name in ("severity", "kind", "where", "count", "since"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    before = None
    for one in alerts:
        where = " ".join(part for part in (short(one.job_id) if one.job_id else "", one.node or "") if part)
        shown = one.severity if one.severity != before else ""
        table.add_row(shown, one.kind, where, f"{one.count:,}", day_and_clock(one.since))
        before = one.severity
    show(table)
    answer("")


def _table(rows: Sequence[Finding] | Sequence[Action]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    with_time = any(isinstance(row, Action) for row in rows)
    for name in (*(["at"] if with_time else []), "duty", "action", "where"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("reason", overflow="fold")
    for row in rows:
        at = [day_and_clock(row.at)] if isinstance(row, Action) else []
        table.add_row(*at, row.duty, row.action, _where(row), cut(row.reason, 400))
    return table


def _where(row: Finding | Action) -> str:
    where = short(row.job_id) if row.job_id else ""
    if row.node is not None:
        where += f" {row.node}"
    return where + (f"[{row.index}]" if row.index is not None else "")
