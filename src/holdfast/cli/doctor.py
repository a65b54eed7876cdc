"""`holdfast doctor`: one line for each thing that can be wrong, and what to do about it.

Exit code: 2 if the settings are wrong, 6 if the database or the home is out of reach or not usable, else 0, warnings or
not.
"""

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from rich.text import Text

from holdfast.bootstrap import database
from holdfast.cli.fleet import (
    orchestrator_text,
    start,
    unserved_remedy,
    unserved_text,
    without_owner_remedy,
    without_owner_text,
    worker_text,
)
from holdfast.cli.session import begin, command, drive, has_database
from holdfast.cli.streams import answer_json, harmless, show
from holdfast.cli.words import age, counted, duration
from holdfast.errors import ExitCode, HoldfastError, Unreachable
from holdfast.moments import moment
from holdfast.settings import Settings
from holdfast.store.connection import Connection, Connections, connect
from holdfast.store.fleet import NO_FLEET, Fleet
from holdfast.store.migrate import SchemaStatus, foreign_schema
from holdfast.store.migrate import status as schema_status
from holdfast.store.reading import Reader, ServerFacts
from holdfast.store.usable import refuse_shared_sessions, try_to_write
from holdfast.version import __version__
from holdfast.views.fleet import fleet_json
from holdfast.worker import landlock, network

OLDEST_POSTGRES = 15
SKEW_SECONDS = 2.0
FREE_GIGABYTES = 1.0
UNREAD_SECONDS = 10.0
TRANSACTION_SECONDS = 60.0


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


def examine(*, as_json: bool, database_url: str | None) -> int:
    return drive(_examine(as_json=as_json, database_url=database_url))


async def _examine(*, as_json: bool, database_url: str | None) -> int:
    findings: list[Finding] = [_versions()]
    fleet = NO_FLEET
    code = ExitCode.DONE
    try:
        settings = begin(database_url)
    except HoldfastError as error:
        findings.append(_failed("settings", error))
        code = ExitCode.BAD_USAGE
    else:
        findings += [*_settings(settings, database_url), _isolation()]
        fleet = await _database(settings, database_url, findings)
        if any(f.grade is Grade.FAIL for f in findings):
            code = ExitCode.UNREACHABLE
    if as_json:
        told = {"ok": code == ExitCode.DONE, "findings": [asdict(f) for f in findings]}
        answer_json(told | fleet_json(fleet))
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
        return Finding("isolation", Grade.WARN, text, "Run handlers that open what strangers have made on Linux.")
    if not landlock.version():
        text = "this kernel has no Landlock: handlers with network=False can read HOLDFAST_HOME, its password too"
        remedy = "Use Linux 5.19 or newer with Landlock, or a server of your own in HOLDFAST_DATABASE_URL."
        return Finding("isolation", Grade.WARN, text, remedy)
    text = "handlers with network=False reach neither a network, nor other processes, nor the secrets in HOLDFAST_HOME"
    return Finding("isolation", Grade.OK, text)


def _settings(settings: Settings, database_url: str | None) -> Iterator[Finding]:
    if settings.renew_seconds * 2 > settings.lease_seconds:
        yield Finding(
            "settings",
            Grade.WARN,
            f"HOLDFAST_RENEW_SECONDS ({settings.renew_seconds:g}) leaves room for one missed renewal only.",
            "Use about a third of HOLDFAST_LEASE_SECONDS.",
        )
    else:
        where = "HOLDFAST_DATABASE_URL" if settings.database_url is not None else f"our own Postgres in {settings.home}"
        if database_url is not None:
            where = "--database-url"
        yield Finding("settings", Grade.OK, f"database from {where}, {settings.concurrency} tasks at a time")
    place = _existing(settings.home.resolve())
    yield from _home(place)
    free = shutil.disk_usage(place).free / 1e9
    if free < FREE_GIGABYTES:
        yield Finding("disk", Grade.WARN, f"only {free:.1f} GB free in {place}", "Make room before it is full.")
    else:
        yield Finding("disk", Grade.OK, f"{free:.0f} GB free in {place}")


def _home(place: Path) -> Iterator[Finding]:
    """Payloads, files and working directories lie at home, wherever the database is."""
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        text = f"nothing can be written in {place}: {error.strerror}"
        remedy = "Work in a directory that is yours, or name one with HOLDFAST_HOME."
        yield Finding("home", Grade.FAIL, text, remedy)


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


async def _database(settings: Settings, database_url: str | None, findings: list[Finding]) -> Fleet:
    """Adds what there is to say about the database; returns who serves it."""
    if not has_database(settings):
        findings.append(Finding("database", Grade.OK, "none yet; the first command that needs one sets it up"))
        return NO_FLEET
    try:
        with database(settings) as url:
            async with await connect(url, "holdfast doctor") as connection:
                await refuse_shared_sessions(connection, url)
            connections = Connections(url, "holdfast doctor")
            try:
                return await _server(connections, database_url, findings)
            finally:
                await connections.close()
    except Unreachable as error:
        findings.append(_failed("database", error))
        return NO_FLEET


async def _server(connections: Connections, database_url: str | None, findings: list[Finding]) -> Fleet:
    reader = Reader(connections)
    asked = time.time()
    facts = await reader.server_facts()
    findings += [_server_version(facts), _clock(facts, (asked + time.time()) / 2), _durability(facts), _room(facts)]
    async with connections.use("reading") as connection:
        findings.append(await _writing(connection, connections.url))
        found = await schema_status(connection)
    findings.append(_schema(found))
    if not found.is_current:
        return NO_FLEET
    fleet = await reader.fleet()
    findings += _fleet(fleet, database_url)
    findings += [finding async for finding in _delays(reader)]
    return fleet


async def _writing(connection: Connection, url: str) -> Finding:
    try:
        await try_to_write(connection, url)
    except Unreachable as error:
        return Finding("writing", Grade.FAIL, error.message, "Until it takes writes again, every process waits for it.")
    return Finding("writing", Grade.OK, "the database takes writes")


def _schema(found: SchemaStatus) -> Finding:
    if found.is_foreign:
        return _failed("schema", foreign_schema())
    if found.is_current:
        return Finding("schema", Grade.OK, f"up to date ({counted(len(found.applied), 'migration')})")
    unknown, missing = list(found.unknown), list(found.missing)
    what = f"unknown migrations {unknown}" if unknown else f"missing migrations {missing}"
    remedy = "Install the version that made them." if found.unknown else "Apply them with: holdfast migrate"
    return Finding("schema", Grade.FAIL, what if found.applied else "there is none of ours in this database", remedy)


def _server_version(facts: ServerFacts) -> Finding:
    text = f"Postgres {facts.version}, database {facts.database}, {facts.size_bytes / 1e6:,.0f} MB"
    if facts.version_number // 10_000 < OLDEST_POSTGRES:
        return Finding("database", Grade.FAIL, text, f"Use Postgres {OLDEST_POSTGRES} or newer.")
    return Finding("database", Grade.OK, text)


def _clock(facts: ServerFacts, here: float) -> Finding:
    skew = facts.now - here
    if abs(skew) > SKEW_SECONDS:
        text = f"the database's clock is {duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}"
        return Finding("clock", Grade.WARN, text, "Times on both machines should come from the same source (NTP).")
    return Finding("clock", Grade.OK, f"{abs(skew) * 1000:.0f} ms between this machine and the database")


def _durability(facts: ServerFacts) -> Finding:
    off = [name for name in ("fsync", "synchronous_commit") if getattr(facts, name) == "off"]
    if off:
        text = f"{' and '.join(off)} off: a crash of the server may lose what was acknowledged"
        return Finding("durability", Grade.WARN, text, "Set them to on, unless this is a test.")
    return Finding("durability", Grade.OK, "commits are on disk before they are acknowledged")


def _room(facts: ServerFacts) -> Finding:
    text = f"{facts.connections} of {facts.max_connections} connections are used"
    if facts.connections > 0.8 * facts.max_connections:
        return Finding("connections", Grade.WARN, text, "Raise max_connections, or find out who holds them.")
    return Finding("connections", Grade.OK, text)


def _fleet(fleet: Fleet, database_url: str | None) -> Iterator[Finding]:
    for one in fleet.orchestrators:
        yield Finding("orchestrator", Grade.OK, orchestrator_text(one))
    if not fleet.orchestrators:
        remedy = f"Start one with: {command('up', database_url)}"
        yield Finding("orchestrator", Grade.WARN, "none is alive: submitted jobs wait", remedy)
    for worker in fleet.workers:
        yield Finding("worker", Grade.OK, worker_text(worker))
    if not fleet.workers:
        remedy = f"Start one with: {start('up', [one.handler for one in fleet.unserved], database_url)}"
        yield Finding("worker", Grade.WARN, "none is alive: tasks wait", remedy)
    for jobs in fleet.without_owner:
        yield Finding("jobs", Grade.WARN, without_owner_text(jobs), without_owner_remedy(fleet, database_url))
    for tasks in fleet.unserved:
        yield Finding("queue", Grade.WARN, unserved_text(tasks), unserved_remedy(tasks, database_url))


async def _delays(reader: Reader) -> AsyncIterator[Finding]:
    unread, since = await reader.unread_signals(UNREAD_SECONDS)
    if unread:
        text = f"{counted(unread, 'signal')} unread, the oldest since {age(moment(since))}"
        yield Finding("inbox", Grade.WARN, text, "Look whether an orchestrator is alive, and at its log.")
    else:
        yield Finding("inbox", Grade.OK, "no signal waits")
    holders = await reader.lock_holders()
    for holder in holders:
        began = age(moment(holder.since)) or "some time ago"
        text = f"{holder.name} (pid {holder.pid}, {holder.state}) keeps rows of {', '.join(holder.tables)} locked; its"
        text += f" transaction began {began}: {holder.shown_query}"
        yield Finding("locks", Grade.WARN, text, f"What needs these rows waits; end it with: {holder.ending}")
    for one in await reader.long_transactions(TRANSACTION_SECONDS):
        if one.pid in {holder.pid for holder in holders}:
            continue
        name = one.application or "unnamed"
        text = f"{name} (pid {one.pid}, {one.state}) has a transaction open for {duration(one.seconds)}"
        remedy = f"It slows the queue down; end it with: select pg_terminate_backend({one.pid})"
        yield Finding("transactions", Grade.WARN, text, remedy)
