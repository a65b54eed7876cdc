"""What Postgres refuses, by SQLSTATE, and whether waiting cures it. Everything that speaks to Postgres asks here.

A process that meets one of these waits and comes back. Whatever is not in the table ends it: waiting cures no wrong
schema and no missing right. An error without a SQLSTATE is the connection's own, and waiting may cure that, too.
"""

from __future__ import annotations

import psycopg
import psycopg.conninfo

from holdfast.errors import Locked, TooSlow, Unreachable
from holdfast.remedies import Remedy

LOCK_NOT_AVAILABLE = "55P03"

CURED_BY_WAITING = {
    "08": "cannot be reached",
    "25006": "takes no writes",
    "25P03": "has ended a transaction that stood still",
    "25P04": "has ended a transaction that took too long",
    "40": "has undone a transaction in favour of another",
    "53": "has run out of something",
    "53100": "has no room on its disk",
    "53200": "has no memory left",
    "53300": "has no connection left",
    "55": "is not ready for that",
    LOCK_NOT_AVAILABLE: "has rows that another session keeps locked",
    "57": "was interrupted",
    "57P01": "shuts down or has ended the connection",
    "57P02": "has crashed and restarts",
    "57P03": "starts, stops or recovers",
    "58": "cannot use its files",
}
"""What the database is doing meanwhile, in words: by code, or by the first two characters for a whole class."""

ENDS_THE_CONNECTION = ("FATAL", "PANIC")


def words_for(sqlstate: str | None) -> str | None:
    """What the table says of a code; None: waiting does not cure it."""
    if sqlstate is None:
        return CURED_BY_WAITING["08"]
    return CURED_BY_WAITING.get(sqlstate) or CURED_BY_WAITING.get(sqlstate[:2])


def is_cured_by_waiting(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return words_for(error.sqlstate) is not None


def error_of(sqlstate: str, severity: str, message: str) -> psycopg.Error:
    """The error that a result speaks of; one that waiting cures is an OperationalError, which not all are by class."""
    try:
        kind = psycopg.errors.lookup(sqlstate)
    except KeyError:
        kind = psycopg.DatabaseError
    error = kind(message)
    if not isinstance(error, psycopg.OperationalError) and (
        severity in ENDS_THE_CONNECTION or words_for(sqlstate) is not None
    ):
        error = psycopg.OperationalError(message)
        error.sqlstate = sqlstate
    return error


def unreachable(url: str, error: Exception) -> Unreachable:
    """The same for people: what the database is doing, where it is, and what to look at."""
    parsed = psycopg.conninfo.conninfo_to_dict(url)
    where = f"{parsed.get('host') or 'localhost'}:{parsed.get('port') or 5432}/{parsed.get('dbname') or ''}"
    why = " ".join(str(error).split())
    sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
    message = f"The database at {where} {words_for(sqlstate) or 'cannot be reached'}: {why}"
    if sqlstate == LOCK_NOT_AVAILABLE:
        return Locked(message, remedy=Remedy("Find out which session holds the lock with", "doctor"))
    return Unreachable(
        message, remedy=Remedy("Check that it runs and that the URL is right, then look again with", "doctor")
    )


def too_slow(seconds: float) -> TooSlow:
    """The error of a read that Postgres has ended."""
    return TooSlow(
        f"The database was asked for more than it finds within {seconds:g} s.",
        remedy="Ask for less: a smaller page, a shorter time or a narrower filter.",
    )
