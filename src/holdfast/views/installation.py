"""A database as an operator sees it: the server, the schema, and what slows it down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.views.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Server:
    """The Postgres server and its settings that matter."""

    version_number: int
    version: str
    database: str
    size_bytes: int
    fsync: str
    synchronous_commit: str
    connections: int
    max_connections: int
    clock_skew_seconds: float
    """How far its clock is ahead of this machine's."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The migrations that the database has, and those that this version knows and it lacks."""

    applied: tuple[int, ...]
    missing: tuple[int, ...]
    unknown: tuple[int, ...]
    is_foreign: bool
    """Whether another application has made a schema of our name."""
    is_current: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a process."""

    name: str
    """The variable that sets it."""
    value: str | None
    """Without secrets; None: it has no value."""
    is_default: bool
    """Whether neither a flag, nor a variable, nor the project file gives it."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table of the schema; `bytes` counts its indexes, too."""

    table: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A session that keeps rows of our tables locked; `query` is shortened and without literals."""

    pid: int
    name: str
    state: str | None
    since: datetime | None
    query: str
    tables: tuple[str, ...]
    ending: str
    """The statement that ends it."""


@dataclass(frozen=True, slots=True)
class LongTransaction:
    """A transaction that keeps the database from cleaning up behind the queue."""

    pid: int
    application: str
    state: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Delays:
    """What keeps the work from going on."""

    unread_signals: int = 0
    unread_since: datetime | None = None
    locks: tuple[LockHolder, ...] = ()
    transactions: tuple[LongTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    """The state of a database. `fleet` and `delays` need a current schema."""

    server: Server
    write_problem: str | None
    schema: SchemaState
    fleet: Fleet | None
    delays: Delays | None
