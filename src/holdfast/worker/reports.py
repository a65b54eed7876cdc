"""How an attempt ended, as its report: from what the handler returned or raised, or from what its process sent."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any

import orjson

from holdfast.core.signals import Outcome
from holdfast.define.contract import Contract
from holdfast.define.registry import ContractViolation, Result
from holdfast.errors import Code, DependencyDown, ErrorCode, FailureClass, HandlerFailure, RetryAfter
from holdfast.masking import masked, without_task_secrets
from holdfast.store.payloads import LIMIT_BYTES
from holdfast.store.records import Report
from holdfast.worker.causes import attribute, causes, waitable
from holdfast.worker.context import Attempt, LeaseLost
from holdfast.worker.isolation import ProcessDied
from holdfast.worker.messages import Malformed, Received
from holdfast.worker.tracebacks import without_engine
from holdfast.worker.values import (
    ARTIFACT_NAME_BYTES,
    NotStorable,
    check_name,
    checked,
    encoded,
    failure_code,
    plain,
    storable,
    word,
)

LOG_LIMIT = 128 * 1024
"""Of a log, in characters: more than an attempt's output makes."""


def interrupted(attempt: Attempt) -> Report | None:
    """The attempt was cancelled from outside: by its time limit, a lost lease, or a worker that stops."""
    if attempt.timed_out:
        seconds = attempt.limit_seconds or attempt.lease.timeout_seconds
        return failed(attempt, Code.TIMEOUT, f"the attempt took longer than its {seconds:g} s")
    if attempt.lost:
        return None
    return given_back(attempt)


def done(attempt: Attempt, returned: Any, limit_bytes: int = LIMIT_BYTES) -> Report | None:
    """What the handler returned, if it can be stored. None after it saw `ctx.cancelled` gives the task back."""
    output = returned.output if isinstance(returned, Result) else returned
    if output is None and attempt.saw_cancelled:
        # The handler saw that it should stop and has no result: it stopped early.
        return interrupted(attempt)
    try:
        extra = _extra_of(returned, limit_bytes) if isinstance(returned, Result) else {}
        return _done(attempt, encoded(output, limit_bytes), extra, limit_bytes)
    except NotStorable as problem:
        return _not_storable(attempt, problem)


def received(attempt: Attempt, answer: Received, limit_bytes: int) -> Report | None:
    """What the process of an attempt sent as its report. It is checked like what a handler returns or raises."""
    report, output = answer.message.report, answer.output
    may_give_back = attempt.cancelled or attempt.timed_out or attempt.lost
    if report is None and attempt.lost:
        return None
    if report is None:
        return malformed(attempt, Malformed("reported a lost lease, but its worker holds the lease"))
    data, attempt.calls = report.data, dict(report.data.calls)
    if report.outcome is Outcome.FAILED:
        details: dict[str, Any] = {
            "class": data.failure_class,
            "declared_class": data.declared_class,
            "exit_code": data.exit_code,
            "retry_after_seconds": data.retry_after_seconds,
            "down": word(data.down) if data.down is not None else None,
        }
        return failed(attempt, data.code, data.message or "no message", **details)
    if report.outcome is Outcome.GIVEN_BACK and may_give_back:
        return given_back(attempt)
    if report.outcome is not Outcome.DONE:
        return malformed(attempt, Malformed(f"reported '{report.outcome}', for which its worker did not ask"))
    if output is None:
        return malformed(attempt, Malformed("reported success without an output"))
    try:
        for artifact in data.artifacts:
            check_name("an artifact", artifact.artifact, ARTIFACT_NAME_BYTES)
            attempt.artifacts[artifact.artifact] = artifact.model_dump()
        extra = data.extra.model_dump() if data.extra is not None else {}
        return _done(attempt, checked(output, limit_bytes), extra, limit_bytes)
    except NotStorable as problem:
        return _not_storable(attempt, problem)
    except HandlerFailure as problem:
        return malformed(attempt, Malformed(f"reported a file, but {problem}"))


def malformed(attempt: Attempt, problem: Malformed) -> Report:
    """The process of the attempt sent something that no process of ours sends."""
    message = f"the process of handler {attempt.lease.handler} {problem}"
    return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)


def _not_storable(attempt: Attempt, problem: NotStorable) -> Report:
    return failed(attempt, problem.code, f"the output of {attempt.lease.handler} {problem}", permanent=True)


def _done(attempt: Attempt, output: bytes, extra: dict[str, Any], limit_bytes: int) -> Report:
    """The limit holds for the output, the rest of the result and the list of published files together."""
    data: dict[str, Any] = {"extra": extra} if extra else {}
    if attempt.artifacts:
        data["artifacts"] = list(attempt.artifacts.values())
    if data and (size := len(output) + len(encoded(data, limit_bytes))) > limit_bytes:
        raise NotStorable(f"has {size:,} bytes; at most {limit_bytes:,} can be stored", Code.PAYLOAD_REFUSED)
    return _report(attempt, Outcome.DONE, output, data | _log(attempt))


def _extra_of(result: Result, limit_bytes: int) -> dict[str, Any]:
    """The warnings, deliverables and metrics of a result; empty if it has none of them."""
    extra = {"warnings": result.warnings, "deliverables": result.deliverables, "metrics": result.metrics}
    for name, kinds in (("warnings", (list, tuple)), ("deliverables", (dict,)), ("metrics", (dict,))):
        if not isinstance(extra[name], kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise NotStorable(f"cannot be stored: its {name} must be a {wanted}, not {type(extra[name]).__name__}")
    return plain(extra, limit_bytes, "") if any(extra.values()) else {}


def held_to_contract(attempt: Attempt, contract: Contract, report: Report) -> Report:
    """The report itself, or a permanent failure if its output breaks the contract: a retry would return the same."""
    breach = contract.breach(report.output) if report.output is not None else None
    if breach is None:
        return report
    message = f"the output of {attempt.lease.node} does not match its output_schema: {breach}"
    return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)


def raised(attempt: Attempt, error: BaseException, codes: Mapping[str, ErrorCode]) -> Report | None:
    """What the handler's exception means. A cancel or a lost lease that the worker itself decided is no failure;
    everything else that a handler raises is one, and spends a retry."""
    try:
        if isinstance(error, asyncio.CancelledError) and (attempt.cancelled or attempt.timed_out or attempt.lost):
            return interrupted(attempt)
        if isinstance(error, LeaseLost) and attempt.lost:
            return None
        if isinstance(error, ContractViolation):
            return failed(attempt, Code.CONTRACT_VIOLATION, str(error), permanent=True)
        if isinstance(error, HandlerFailure):
            return _failed_as_declared(attempt, error, codes)
        return _crashed(attempt, error)
    except BaseException as problem:
        message = f"{attempt.lease.handler} raised an exception that cannot be read: {type(problem).__name__}"
        return failed(attempt, Code.HANDLER_ERROR, message)


def _failed_as_declared(attempt: Attempt, failure: HandlerFailure, codes: Mapping[str, ErrorCode]) -> Report:
    """A failure that describes itself. A subclass may have set none of the attributes, or set them to anything."""
    message = str(attribute(failure, "message") or failure) or "no message"
    details: dict[str, Any] = {}
    failure_class = attribute(failure, "failure_class")
    if isinstance(failure_class, str) and failure_class in tuple(FailureClass):
        details["class"] = FailureClass(failure_class)
    if isinstance(failure, RetryAfter) and (seconds := waitable(attribute(failure, "seconds"))) is not None:
        details["retry_after_seconds"] = seconds
    if isinstance(failure, DependencyDown):
        details["down"] = word(attribute(failure, "name"))
    own_code, note = failure_code(attribute(failure, "code"))
    code = own_code
    if (declared := codes.get(own_code)) is not None:
        details["declared_class"] = declared.failure_class
        code = declared.public_code
        if code != own_code:
            attempt.write(f"{own_code}, seen by others as {code}: {message}\n")
    return failed(attempt, code, message, note=note, **causes(failure) | details)


def _crashed(attempt: Attempt, error: BaseException) -> Report:
    """An exception that does not describe itself: rules judge it by its message; the log keeps the traceback."""
    _write_traceback(attempt, error)
    try:
        words = str(error)
    except BaseException:
        words = ""
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return failed(attempt, Code.HANDLER_ERROR, message, **causes(error))


def _write_traceback(attempt: Attempt, error: BaseException) -> None:
    """Part by part, so that an endless message is built once and not once per frame."""
    trace = traceback.TracebackException.from_exception(error)
    without_engine(trace)
    for part in trace.format():
        attempt.write(part)


def failed(
    attempt: Attempt, code: str, message: str, *, note: str = "", permanent: bool = False, **details: Any
) -> Report:
    """A failure with its code and message. The owner judges it by the `details` too; None stands for unknown."""
    code, more = failure_code(code)
    data: dict[str, Any] = {"code": code, "message": storable(message) + storable(note + more)}
    if permanent:
        data["class"] = FailureClass.PERMANENT
    data |= {name: value for name, value in details.items() if value is not None}
    return _report(attempt, Outcome.FAILED, None, data | _log(attempt))


def given_back(attempt: Attempt) -> Report:
    """The task goes back to the queue and spends no retry."""
    return _report(attempt, Outcome.GIVEN_BACK, None, _log(attempt))


def died(attempt: Attempt, death: ProcessDied) -> Report:
    """The process of the attempt ended without a report."""
    data = {"code": str(Code.WORKER_LOST), "message": str(death)} | _log(attempt)
    return _report(attempt, Outcome.LOST, None, data)._replace(alone=death.died_in_own_process)


def _log(attempt: Attempt) -> dict[str, Any]:
    if attempt.output is None:
        return {}
    text, times = attempt.output.log()
    return {"log": storable(text, LOG_LIMIT), "log_times": times}


def _report(attempt: Attempt, outcome: Outcome, output: bytes | None, data: dict[str, Any]) -> Report:
    lease = attempt.lease
    if attempt.calls:
        data = data | {"calls": attempt.calls}
    if data:
        # Masked here and not where a message is made: a child process makes some, and does not know every secret.
        data = data | {name: masked(data[name]) for name in ("message", "log") if name in data}
        data |= {name: without_task_secrets(data[name]) for name in ("down", "extra", "calls") if name in data}
    return Report(
        lease.job_id,
        lease.node,
        lease.item,
        lease.epoch,
        lease.attempt,
        str(outcome),
        attempt.started_at,
        output,
        orjson.dumps(data) if data else None,
        lease.owner,
    )


def by_reference(report: Report, digest: str, size: int) -> Report:
    """The report with a reference to its output, which is in the object store."""
    data = orjson.loads(report.data) if report.data is not None else {}
    return report._replace(output=None, data=orjson.dumps(data | {"output_ref": digest, "output_bytes": size}))
