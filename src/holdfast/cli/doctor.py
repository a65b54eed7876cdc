"""`holdfast doctor`: one line for each thing that can be wrong, and what to do about it.

Exit code: 2 if the settings or the handlers are wrong, 6 if the database or the home is out of reach or not usable,
else 0, warnings or not.
"""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from rich.text import Text

from holdfast.bootstrap import open_client, open_installation
from holdfast.cli.fleet import (
    orchestrator_texts,
    start,
    unserved_remedy,
    unserved_text,
    without_owner_remedy,
    without_owner_text,
    worker_text,
)
from holdfast.cli.session import Target, begin, drive, has_database, known_handlers
from holdfast.cli.streams import answer_json, harmless, show
from holdfast.cli.words import age, counted, duration
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, HoldfastError, Unreachable
from holdfast.operations.installation import check, foreign_schema
from holdfast.project_file import OWN_FILE
from holdfast.settings import Settings
from holdfast.version import __version__
from holdfast.views.encoding import to_json
from holdfast.views.fleet import Fleet
from holdfast.views.installation import Delays, SchemaState, Server
from holdfast.worker import landlock, network

OLDEST_POSTGRES = 15
SKEW_SECONDS = 2.0
FREE_GIGABYTES = 1.0


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    grade: Grade
    message: str
    remedy: str | None = None


def examine(*, as_json: bool, target: Target) -> int:
    return drive(_examine(as_json=as_json, target=target))


async def _examine(*, as_json: bool, target: Target) -> int:
    findings: list[Finding] = [_versions()]
    fleet = Fleet()
    code = ExitCode.DONE
    try:
        settings = begin(target)
    except HoldfastError as error:
        findings.append(_failed("settings", error))
        code = ExitCode.BAD_USAGE
    else:
        findings += [_project(settings), *_settings(settings, target), _isolation()]
        of_handlers = list(_handlers(settings))
        fleet = await _database(settings, target, findings)
        if any(f.grade is Grade.FAIL for f in of_handlers):
            code = ExitCode.BAD_USAGE
        elif any(f.grade is Grade.FAIL for f in findings):
            code = ExitCode.UNREACHABLE
        findings += of_handlers
    if as_json:
        report = {"ok": code == ExitCode.DONE, "findings": to_json(findings)}
        answer_json(report | to_json(fleet))
    else:
        for finding in findings:
            _show(finding)
    return code


def _show(finding: Finding) -> None:
    style = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "red"}[finding.grade]
    text = Text(f"{finding.grade:<5}", style=style)
    text.append(f"{finding.check}: ", style="bold")
    text.append(harmless(finding.message))
    show(text)
    if finding.remedy:
        show(Text(harmless(f"     → {finding.remedy}")))


def _failed(check: str, error: HoldfastError) -> Finding:
    message = " ".join([error.message, *(str(detail) for detail in error.errors)])
    return Finding(check, Grade.FAIL, message, error.remedy)


def _versions() -> Finding:
    packages = ", ".join(f"{name} {version(name)}" for name in ("psycopg", "pydantic", "orjson"))
    return Finding("versions", Grade.OK, f"holdfast {__version__}, Python {platform.python_version()}, {packages}")


def _isolation() -> Finding:
    if not network.is_enforced():
        text = f"network=False takes nothing from a handler on {platform.system()} ({platform.machine()})"
        return Finding("isolation", Grade.WARN, text, "Run handlers that open untrusted files on Linux.")
    if not landlock.version():
        text = "this kernel has no Landlock: handlers with network=False can read HOLDFAST_HOME, its password too"
        remedy = "Use Linux 5.19 or newer with Landlock, or a server of your own in HOLDFAST_DATABASE_URL."
        return Finding("isolation", Grade.WARN, text, remedy)
    text = "handlers with network=False reach neither a network, nor other processes, nor the secrets in HOLDFAST_HOME"
    return Finding("isolation", Grade.OK, text)


def _settings(settings: Settings, target: Target) -> Iterator[Finding]:
    if settings.renew_seconds * 2 > settings.lease_seconds:
        yield Finding(
            "settings",
            Grade.WARN,
            f"HOLDFAST_RENEW_SECONDS ({settings.renew_seconds:g}) leaves room for one missed renewal only.",
            "Use about a third of HOLDFAST_LEASE_SECONDS.",
        )
    else:
        where = f"database from {_database_from(settings, target)}"
        if settings.url is not None:
            where = f"service from {'--url' if target.url is not None else 'HOLDFAST_URL'}"
        yield Finding("settings", Grade.OK, f"{where}, {counted(settings.concurrency, 'task')} at a time")
    place = _existing(settings.home.resolve())
    yield from _home(place)
    free = shutil.disk_usage(place).free / 1e9
    if free < FREE_GIGABYTES:
        yield Finding("disk", Grade.WARN, f"only {free:.1f} GB free in {place}", "Make room before it is full.")
    else:
        yield Finding("disk", Grade.OK, f"{free:.0f} GB free in {place}")


def _database_from(settings: Settings, target: Target) -> str:
    if target.database_url is not None:
        return "--database-url"
    if settings.database_url is None:
        return f"our own Postgres in {settings.home}"
    return "the project file" if "database_url" in settings.from_project else "HOLDFAST_DATABASE_URL"


def _project(settings: Settings) -> Finding:
    if settings.project is None:
        return Finding("project", Grade.OK, f"no {OWN_FILE} and no [tool.holdfast] here or in a folder above")
    used = [key for key in settings.project.values if key in settings.from_project]
    ignored = [key for key in settings.project.values if key not in settings.from_project]
    text = f"{shown_name(settings.project.path)} sets {', '.join(used) or 'nothing'}"
    return Finding("project", Grade.OK, text + (f"; a variable or a flag sets {', '.join(ignored)}" if ignored else ""))


def _handlers(settings: Settings) -> Iterator[Finding]:
    """What keeps a worker from its start: handlers that cannot be imported, and wrong settings of theirs."""
    try:
        for known in known_handlers(settings).checks:
            for one in known.problems():
                yield Finding(known.app, Grade.WARN if one.only_warns else Grade.FAIL, one.message, one.remedy)
    except HoldfastError as error:
        yield _failed("handlers", error)
    except Exception as error:
        # An app may raise anything while it is imported, and in its check.
        text = f"an installed app fails: {type(error).__name__}: {error}"
        yield Finding("handlers", Grade.FAIL, text, "Install its package again, or remove it.")


def _home(place: Path) -> Iterator[Finding]:
    """Payloads, files and working directories are at home, wherever the database is."""
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        text = f"nothing can be written in {place}: {error.strerror}"
        remedy = "Work in a directory that is yours, or name one with HOLDFAST_HOME."
        yield Finding("home", Grade.FAIL, text, remedy)


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


async def _database(settings: Settings, target: Target, findings: list[Finding]) -> Fleet:
    """Add the findings about the database; returns the processes that serve it."""
    if settings.url is not None:
        return await _service(settings, target, findings)
    if not has_database(settings):
        findings.append(Finding("database", Grade.OK, "none yet; the first command that needs one sets it up"))
        return Fleet()
    try:
        async with open_installation(settings) as installation:
            checked = await check(installation)
    except Unreachable as error:
        findings.append(_failed("database", error))
        return Fleet()
    server = checked.server
    findings += [_server_version(server), _clock(server), _durability(server), _room(server)]
    findings += [_writing(checked.write_problem), _schema(checked.schema)]
    if checked.fleet is not None:
        findings += _fleet(checked.fleet, target)
    if checked.delays is not None:
        findings += _delays(checked.delays)
    return checked.fleet or Fleet()


async def _service(settings: Settings, target: Target, findings: list[Finding]) -> Fleet:
    """Over a URL, the database itself cannot be examined."""
    try:
        async with open_client(settings) as client:
            fleet, scope = await client.fleet(), client.scope
    except HoldfastError as error:
        findings.append(_failed("service", error))
        return Fleet()
    text = f"{settings.url} answers; the key is that of {scope.actor}, for tenant {scope.tenant}"
    findings.append(Finding("service", Grade.OK, text))
    findings.append(Finding("database", Grade.OK, "behind the service; examine it there with: holdfast doctor"))
    findings += _fleet(fleet, target)
    return fleet


def _writing(problem: str | None) -> Finding:
    if problem is not None:
        return Finding("writing", Grade.FAIL, problem, "Until it takes writes again, every process waits for it.")
    return Finding("writing", Grade.OK, "the database takes writes")


def _schema(state: SchemaState) -> Finding:
    if state.is_foreign:
        return _failed("schema", foreign_schema())
    if state.is_current:
        return Finding("schema", Grade.OK, f"up to date ({counted(len(state.applied), 'migration')})")
    unknown, missing = list(state.unknown), list(state.missing)
    what = f"unknown migrations {unknown}" if unknown else f"missing migrations {missing}"
    remedy = "Install the version that made them." if unknown else "Apply them with: holdfast migrate"
    return Finding("schema", Grade.FAIL, what if state.applied else "this database has no schema of ours", remedy)


def _server_version(server: Server) -> Finding:
    text = f"Postgres {server.version}, database {server.database}, {server.size_bytes / 1e6:,.0f} MB"
    if server.version_number // 10_000 < OLDEST_POSTGRES:
        return Finding("database", Grade.FAIL, text, f"Use Postgres {OLDEST_POSTGRES} or newer.")
    return Finding("database", Grade.OK, text)


def _clock(server: Server) -> Finding:
    skew = server.clock_skew_seconds
    if abs(skew) > SKEW_SECONDS:
        text = f"the database's clock is {duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}"
        return Finding("clock", Grade.WARN, text, "Times on both machines should come from the same source (NTP).")
    return Finding("clock", Grade.OK, f"{abs(skew) * 1000:.0f} ms between this machine and the database")


def _durability(server: Server) -> Finding:
    off = [name for name in ("fsync", "synchronous_commit") if getattr(server, name) == "off"]
    if off:
        text = f"{' and '.join(off)} off: a crash of the server may lose what was acknowledged"
        return Finding("durability", Grade.WARN, text, "Set them to on, unless this is a test.")
    return Finding("durability", Grade.OK, "commits are on disk before they are acknowledged")


def _room(server: Server) -> Finding:
    text = f"{server.connections} of {server.max_connections} connections are used"
    if server.connections > 0.8 * server.max_connections:
        return Finding("connections", Grade.WARN, text, "Raise max_connections, or find out which programs hold them.")
    return Finding("connections", Grade.OK, text)


def _fleet(fleet: Fleet, target: Target) -> Iterator[Finding]:
    for text in orchestrator_texts(fleet):
        yield Finding("orchestrator", Grade.OK, text)
    if not fleet.orchestrators:
        remedy = f"Start one with: {target.command('up')}"
        yield Finding("orchestrator", Grade.WARN, "none is running: submitted jobs wait", remedy)
    for worker in fleet.workers:
        yield Finding("worker", Grade.OK, worker_text(worker))
        if worker.changed_files:
            older = f"{worker.name} runs older code than {', '.join(worker.changed_files)}"
            yield Finding("worker", Grade.WARN, older, "Restart it.")
    if not fleet.workers:
        remedy = f"Start one with: {start('up', [one.handler for one in fleet.unserved], target)}"
        yield Finding("worker", Grade.WARN, "none is running: tasks wait", remedy)
    for jobs in fleet.without_owner:
        yield Finding("jobs", Grade.WARN, without_owner_text(jobs), without_owner_remedy(fleet, target))
    for tasks in fleet.unserved:
        yield Finding("queue", Grade.WARN, unserved_text(tasks), unserved_remedy(tasks, target))


def _delays(delays: Delays) -> Iterator[Finding]:
    if delays.unread_signals:
        text = f"{counted(delays.unread_signals, 'signal')} unread, the oldest since {age(delays.unread_since)}"
        yield Finding("inbox", Grade.WARN, text, "Check that an orchestrator is running, and look at its log.")
    else:
        yield Finding("inbox", Grade.OK, "no signal waits")
    for holder in delays.locks:
        began = age(holder.since) or "some time ago"
        text = f"{holder.name} (pid {holder.pid}, {holder.state}) keeps rows of {', '.join(holder.tables)} locked; its"
        text += f" transaction began {began}: {holder.query}"
        yield Finding("locks", Grade.WARN, text, f"What needs these rows waits; end it with: {holder.ending}")
    for one in delays.transactions:
        if one.pid in {holder.pid for holder in delays.locks}:
            continue
        name = one.application or "unnamed"
        text = f"{name} (pid {one.pid}, {one.state}) has a transaction open for {duration(one.seconds)}"
        remedy = f"It slows the queue down; end it with: select pg_terminate_backend({one.pid})"
        yield Finding("transactions", Grade.WARN, text, remedy)
