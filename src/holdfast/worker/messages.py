"""The messages that a handler's process may send to its worker. All are checked here: the process runs unknown code.

Anything that is not a valid message fails the attempt and affects nothing else.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.core.signals import Outcome
from holdfast.errors import FailureClass
from holdfast.worker.causes import EXIT_CODE_LIMIT, RETRY_AFTER_LIMIT_SECONDS
from holdfast.worker.dependencies import CALLS_LIMIT
from holdfast.worker.frames import LENGTH
from holdfast.worker.values import CHECKPOINT_BYTES

FRAME_SLACK_BYTES = 2 * CHECKPOINT_BYTES + (1 << 20)
"""How much larger than the largest payload a message may be: for a checkpoint with escaped quotes, or a log record."""

Name = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00]*\z")]
Calls = Annotated[list[bool], Field(max_length=CALLS_LIMIT)]


class Malformed(Exception):
    """The process sent an invalid message. The text continues a sentence whose subject is the process."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class PublishedFile(_Strict):
    artifact: Name
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
    bytes: Annotated[int, Field(ge=0, lt=2**63)]


class ResultExtra(_Strict):
    warnings: list[Any]
    deliverables: dict[str, Any]
    metrics: dict[str, Any]


class ReportData(_Strict):
    code: str = ""
    message: str = ""
    failure_class: Annotated[FailureClass | None, Field(alias="class")] = None
    declared_class: FailureClass | None = None
    exit_code: Annotated[int | None, Field(ge=0, le=EXIT_CODE_LIMIT + 128)] = None
    retry_after_seconds: Annotated[float | None, Field(ge=0, le=RETRY_AFTER_LIMIT_SECONDS)] = None
    down: str | None = None
    extra: ResultExtra | None = None
    artifacts: list[PublishedFile] = []
    calls: dict[Name, Calls] = {}


class SentReport(_Strict):
    """How an attempt ended, as its process says."""

    outcome: Outcome
    data: ReportData
    output_bytes: Annotated[int | None, Field(ge=0)]


class SentProgress(_Strict):
    done: Any
    total: Any
    text: str


class SentRecord(_Strict):
    name: Name
    level: Annotated[int, Field(ge=0, le=1000)]
    text: str


class Message(_Strict):
    """One of the fields says which message it is. The worker answers questions in their order."""

    begun: bool | None = None
    progress: SentProgress | None = None
    record: SentRecord | None = None
    report: SentReport | None = None
    is_fit: bool = False
    checkpoint: str | None = None
    seq: Annotated[int, Field(ge=1, lt=2**31)] = 1
    data: str = ""
    results: str | None = None
    range: tuple[int, int, int] = (-2, 0, 0)
    breaker: str | None = None
    store: str | None = None
    fetch: str | None = None
    into: str = ""


class Received(NamedTuple):
    """A message, and the output that follows a report."""

    message: Message
    output: bytes | None = None

    @property
    def is_report(self) -> bool:
        return "report" in self.message.model_fields_set


async def next_message(reader: asyncio.StreamReader, limit_bytes: int) -> Received | None:
    """The next message; None if the process has closed its end. A message above the limit is not read."""
    try:
        size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
        if size > limit_bytes + FRAME_SLACK_BYTES:
            raise Malformed(
                f"announced a message of {size:,} bytes; at most {limit_bytes + FRAME_SLACK_BYTES:,} are read"
            )
        message = _parsed(await reader.readexactly(size))
        announced = message.report.output_bytes if message.report is not None else None
        if announced is None:
            return Received(message)
        if announced > limit_bytes:
            raise Malformed(f"announced an output of {announced:,} bytes; at most {limit_bytes:,} are read")
        return Received(message, await reader.readexactly(announced))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _parsed(body: bytes) -> Message:
    try:
        message = Message.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Malformed(f"sent an invalid message{f', at {place}' if place else ''}: {first['msg']}") from None
    if not message.model_fields_set:
        raise Malformed("sent an empty message")
    return message
