"""The whole exception tree and the canonical codes.

HoldfastError                something that a person can act on; becomes the problem object
├── InvalidDefinition        a workflow file or builder is wrong (all its errors at once)
├── InvalidInput             inputs, flags or settings are wrong
├── Refused                  the job's state does not allow it, or the key belongs to another submission
│   ├── BacklogFull          a tenant has reached its limit of open jobs
│   └── QueueRefused         a tenant may not use a queue that the workflow names
├── JobFailed                a job that `holdfast.run` waited for failed or was cancelled
├── NotFound                 no such job, workflow or file
├── Unauthenticated          a request brings no credential, or one that is not valid
├── Forbidden                the role of the identity does not allow the request
│   └── ForeignOrigin        a page of another origin writes with the cookie of its visitor
├── TooManyRequests          a key or an address asks more often than it may
├── PayloadRefused           a value is larger than the limit
├── PayloadUnavailable       a large value cannot be written to or read from the object store
├── Unreachable              the database or server does not answer
│   ├── SchemaMismatch       it answers, but its schema belongs to another version
│   ├── Locked               it answers, but another session holds a lock
│   └── TooSlow              it was asked for more than it finds in the time that a read may take
├── NeedsDatabase            a client over a URL was asked for what only one at the database can do
├── Unusable                 a directory, a file or a stream that the command needs cannot be used
└── TemplateError            an expression failed while a job ran
LostRace                     another process was first; this one forgets what it read and reads again
├── Fenced                   this process is no longer the owner or the holder
├── DefaultsChanged          a person has changed the defaults that a submission was made with
└── HistoryChanged           the database may lack commits that this process remembers
HandlerFailure               raised by handlers, on purpose
├── Permanent                never tried again
├── Transient                tried again while retries are left
│   └── RetryAfter           tried again after a number of seconds
└── DependencyDown           tried again when the dependency works again; uses no retry
Bug                          our own mistake; never caught, never hidden
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from holdfast.masking import masked
from holdfast.remedies import Remedy

CODE_LENGTH = 64
CODE_PATTERN = re.compile(rf"^[A-Z][A-Z0-9_]{{0,{CODE_LENGTH - 1}}}\Z")
CODE_RULE = f"a code has at most {CODE_LENGTH} characters, like NOT_READY: A-Z, 0-9 and '_'"
QUOTED_LENGTH = 100
"""How many characters of a name or value a message quotes."""
SENTENCE_LENGTH = 2000


def cut(text: str, length: int = QUOTED_LENGTH) -> str:
    """The text, shortened for a message."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


class Code(StrEnum):
    """Why an attempt, a node or a job failed. A code never changes its meaning."""

    HANDLER_ERROR = "HANDLER_ERROR"
    TIMEOUT = "TIMEOUT"
    QUEUE_TIMEOUT = "QUEUE_TIMEOUT"
    JOB_TIMEOUT = "JOB_TIMEOUT"
    LEASE_LOST = "LEASE_LOST"
    REQUEUE_LIMIT = "REQUEUE_LIMIT"
    WORKER_LOST = "WORKER_LOST"
    QUARANTINED = "QUARANTINED"
    TEMPLATE_ERROR = "TEMPLATE_ERROR"
    CONTRACT_VIOLATION = "CONTRACT_VIOLATION"
    PAYLOAD_REFUSED = "PAYLOAD_REFUSED"
    HANDLER_UNKNOWN = "HANDLER_UNKNOWN"
    DEPENDENCY_DOWN = "DEPENDENCY_DOWN"
    REPEATED_FAILURE = "REPEATED_FAILURE"
    CANCELLED = "CANCELLED"
    UPSTREAM_FAILED = "UPSTREAM_FAILED"
    COUNTERS_DISAGREE = "COUNTERS_DISAGREE"
    UNDONE = "UNDONE"
    UNDO_INCOMPLETE = "UNDO_INCOMPLETE"
    SECRET_MISSING = "SECRET_MISSING"
    SECRET_UNREADABLE = "SECRET_UNREADABLE"


class FailureClass(StrEnum):
    """Whether another attempt may succeed."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"


class ExitCode:
    """What the command line's exit codes mean."""

    DONE = 0
    JOB_FAILED = 1
    BAD_USAGE = 2
    JOB_PARTIAL = 3
    REFUSED = 4
    NOT_FOUND = 5
    UNREACHABLE = 6
    JOB_CANCELLED = 7
    BUG = 70
    INTERRUPTED = 130
    TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Detail:
    """One mistake: where it is, what is wrong, and what was probably meant."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None
    suggestion: str | None = None

    def __post_init__(self) -> None:
        """Shortens texts that quote too much."""
        for name in ("message", "path", "suggestion"):
            text = getattr(self, name)
            if text is not None and len(text) > SENTENCE_LENGTH:
                object.__setattr__(self, name, cut(text, SENTENCE_LENGTH))

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "message": self.message,
            "suggestion": self.suggestion,
        }

    def masked(self) -> Detail:
        return replace(
            self,
            message=masked(self.message),
            file=_masked(self.file),
            path=_masked(self.path),
            suggestion=_masked(self.suggestion),
        )

    def __str__(self) -> str:
        place = ":".join(str(p) for p in (self.file, self.line, self.column) if p is not None)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} {self.suggestion}" if self.suggestion else text


def _masked(text: str | None) -> str | None:
    return masked(text) if text is not None else None


class HoldfastError(Exception):
    """Says what happened, to what, and what to do next."""

    code: ClassVar[str] = "ERROR"
    title: ClassVar[str] = "Something went wrong"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = ExitCode.BAD_USAGE

    def __init__(
        self,
        message: str,
        *,
        remedy: Remedy | str | None = None,
        errors: Sequence[Detail] = (),
        instance: str | None = None,
    ) -> None:
        # Masked once for all readers: the terminal, a log, a job's reason, a program that catches the error.
        self.message = cut(masked(message), SENTENCE_LENGTH)
        super().__init__(self.message)
        self.remedy = cut(masked(str(remedy)), SENTENCE_LENGTH) if remedy is not None else None
        self.errors = tuple(one.masked() for one in errors)
        self.instance = _masked(instance)

    def to_problem(self) -> dict[str, Any]:
        """The problem object: what an API answers and what `--json` prints when a command fails."""
        return {
            "type": f"urn:holdfast:{self.code}",
            "title": self.title,
            "status": self.http_status,
            "detail": self.message,
            "instance": self.instance,
            "code": self.code,
            "remedy": self.remedy,
            "errors": [e.to_json() for e in self.errors],
        }


class InvalidDefinition(HoldfastError):
    code = "INVALID_DEFINITION"
    title = "The workflow definition is not valid"
    http_status = 422

    def __str__(self) -> str:
        """With its mistakes: a traceback shows no more than this text."""
        return "\n  ".join([self.message, *map(str, self.errors)])


class InvalidInput(HoldfastError):
    code = "INVALID_INPUT"
    title = "The input is not valid"
    http_status = 422


class Refused(HoldfastError):
    code = "REFUSED"
    title = "The request was refused"
    http_status = 409
    exit_code = ExitCode.REFUSED


class DefinitionChanged(Refused):
    code = "DEFINITION_CHANGED"
    title = "The workflow has changed since the job was made"


class BacklogFull(Refused):
    code = "BACKLOG_FULL"
    title = "The tenant has reached its limit of open jobs"
    http_status = 429


class WorkerGone(Refused):
    code = "WORKER_GONE"
    title = "The worker's lease has ended"


class LeaseEnded(Refused):
    code = "LEASE_ENDED"
    title = "The lease is not held"


class QueueRefused(Refused):
    code = "QUEUE_REFUSED"
    title = "The tenant may not use this queue"
    http_status = 403


class JobFailed(HoldfastError):
    """A job did not complete; `job` is the view of it, as it ended."""

    code = "JOB_FAILED"
    title = "The job failed"
    http_status = 422
    exit_code = ExitCode.JOB_FAILED

    def __init__(self, message: str, *, remedy: str | None = None, job: Any = None) -> None:
        super().__init__(message, remedy=remedy, instance=job.job_id if job is not None else None)
        self.job = job

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.remedy}" if self.remedy else self.message


class NotFound(HoldfastError):
    code = "NOT_FOUND"
    title = "Not found"
    http_status = 404
    exit_code = ExitCode.NOT_FOUND


class Unauthenticated(HoldfastError):
    code = "UNAUTHENTICATED"
    title = "A valid credential is needed"
    http_status = 401
    exit_code = ExitCode.REFUSED


class Forbidden(HoldfastError):
    code = "FORBIDDEN"
    title = "The role does not allow this"
    http_status = 403
    exit_code = ExitCode.REFUSED


class ForeignOrigin(Forbidden):
    code = "FOREIGN_ORIGIN"
    title = "The request comes from another site"


class TooManyRequests(HoldfastError):
    """Asked more often than it may be; it may ask again after `seconds`."""

    code = "TOO_MANY_REQUESTS"
    title = "Too many requests"
    http_status = 429
    exit_code = ExitCode.REFUSED

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message, remedy=f"Try again in {max(1, round(seconds))} s.")
        self.seconds = seconds


class PayloadRefused(HoldfastError):
    code = Code.PAYLOAD_REFUSED
    title = "The payload is too large"
    http_status = 413


class PayloadUnavailable(HoldfastError):
    code = "PAYLOAD_UNAVAILABLE"
    title = "A payload cannot be read or written"
    http_status = 503
    exit_code = ExitCode.UNREACHABLE


class Unreachable(HoldfastError):
    code = "UNREACHABLE"
    title = "The database or server cannot be reached"
    http_status = 503
    exit_code = ExitCode.UNREACHABLE


class SchemaMismatch(Unreachable):
    code = "SCHEMA_MISMATCH"
    title = "The database's schema does not fit this version"


class Locked(Unreachable):
    code = "LOCKED"
    title = "Another session keeps a row locked"


class TooSlow(Unreachable):
    code = "READ_TOO_SLOW"
    title = "A read takes too long"


class NeedsDatabase(HoldfastError):
    code = "NEEDS_A_DATABASE"
    title = "This needs the database itself"


class Unusable(HoldfastError):
    code = "UNUSABLE"
    title = "A directory, a file or a stream cannot be used"
    exit_code = ExitCode.UNREACHABLE


class TemplateError(HoldfastError):
    """An expression could not be evaluated; it carries the expression, never the data."""

    code = Code.TEMPLATE_ERROR
    title = "A template could not be evaluated"

    def __init__(self, message: str, *, expression: str) -> None:
        super().__init__(message)
        self.expression = expression


class LostRace(Exception):
    """Another process was first. Forget what was read, and read it again."""


class Fenced(LostRace):
    """This process is no longer the owner or the holder: it must write nothing more."""


class DefaultsChanged(LostRace):
    """A person has changed the defaults that a submission was made with; nothing was submitted."""


class HistoryChanged(LostRace):
    """The database may lack commits that this process remembers: everything has to be read again."""


class Bug(Exception):
    """A state that our own code must never produce."""


class HandlerFailure(Exception):
    """What a handler raises to say how it failed. By itself it does not say whether another attempt may succeed."""

    failure_class: ClassVar[FailureClass | None] = None

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        # A handler may pass anything; the worker makes a code of it.
        given: Any = code
        is_empty = given is None or (isinstance(given, str) and not given)
        self.code: str = str(Code.HANDLER_ERROR) if is_empty else given


class Permanent(HandlerFailure):
    """The same attempt would fail again: it is not retried."""

    failure_class = FailureClass.PERMANENT


class Transient(HandlerFailure):
    """Another attempt may succeed: it is retried while retries are left."""

    failure_class = FailureClass.TRANSIENT


class RetryAfter(Transient):
    """Another attempt may succeed, but not before `seconds` have passed."""

    def __init__(self, seconds: float, message: str = "asked to come back later", code: str | None = None) -> None:
        super().__init__(message, code)
        self.seconds = seconds


class DependencyDown(HandlerFailure):
    """A dependency of the task is down: the task waits, behind its breaker if it has one, and uses no retry."""

    failure_class = FailureClass.TRANSIENT

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"{name} is down", Code.DEPENDENCY_DOWN)
        self.name = name


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A failure code that an app declares in a module of handlers: whether it is retried, and the message people see.

    `raise NOT_PDF()` or `raise NOT_PDF("it begins with GIF89a")`. A code for operators only names the
    `public` code that other people see instead.
    """

    code: str
    failure_class: FailureClass
    message: str
    public: str | None = None

    def __post_init__(self) -> None:
        given: list[Any] = [self.code, *([self.public] if self.public is not None else [])]
        for name in given:
            if not isinstance(name, str) or not CODE_PATTERN.match(name):
                raise InvalidInput(f"{cut(repr(name))} is not a code.", remedy=f"Correct it: {CODE_RULE}.")
        if self.code in Code.__members__:
            raise InvalidInput(f"{self.code} is a code of the engine.", remedy="Give yours another name.")
        if self.failure_class not in tuple(FailureClass):
            raise InvalidInput(
                f"The class of {self.code} is '{self.failure_class}'.", remedy="Use 'transient' or 'permanent'."
            )

    def __call__(self, message: str = "") -> HandlerFailure:
        return HandlerFailure(message or self.message, self.code)

    @property
    def public_code(self) -> str:
        return self.public or self.code
