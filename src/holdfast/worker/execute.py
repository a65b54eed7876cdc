"""Running one attempt: arguments, handler, time limit, captured output; always ends in a report, never in a raise."""

from __future__ import annotations

import asyncio
import contextvars
import io
import re
import sys
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

import orjson

from holdfast import failpoint
from holdfast.core.signals import Outcome
from holdfast.define.contract import Contract
from holdfast.define.registry import PROCESS, ContractViolation, Handler, Registry, Result
from holdfast.errors import Code, DependencyDown, ErrorCode, FailureClass, HandlerFailure, HoldfastError, RetryAfter
from holdfast.store.interface import JobFacts, Lease, Report
from holdfast.store.payloads import LIMIT_BYTES, Payloads
from holdfast.worker.causes import causes, waitable
from holdfast.worker.context import AsyncContext, Attempt, Context, LeaseLost, Means
from holdfast.worker.isolation import CannotBeIsolated, Isolation, ProcessDied
from holdfast.worker.processes import NotStarted

NO_FACTS = JobFacts(1, {})
SPARE_THREADS = 8
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_current: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("holdfast_attempt", default=None)


class _Captured(io.TextIOBase):
    """Stands in for stdout and stderr: what a handler prints goes to its attempt, all else where it always went."""

    def __init__(self, real: TextIO) -> None:
        self.real = real

    def write(self, text: str) -> int:
        attempt = _current.get()
        if attempt is None:
            return self.real.write(text)
        attempt.write(text)
        return len(text)

    def flush(self) -> None:
        self.real.flush()

    def fileno(self) -> int:
        return self.real.fileno()

    def isatty(self) -> bool:
        return self.real.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.real.encoding


def capture_output() -> None:
    """Route prints of handlers to their attempts, for the rest of this process; harmless to repeat."""
    if not isinstance(sys.stdout, _Captured):
        sys.stdout = _Captured(sys.stdout)
    if not isinstance(sys.stderr, _Captured):
        sys.stderr = _Captured(sys.stderr)


class Executor:
    """Runs attempts: async handlers on the loop, plain ones in threads, isolated ones in processes of their own."""

    def __init__(self, registry: Registry, means: Means, payloads: Payloads, threads: int) -> None:
        self._registry = registry
        self._means = means
        self._payloads = payloads
        self._isolation = Isolation(registry, means, payloads)
        # A thread cannot be ended: one whose attempt timed out stays busy, so there are more of them than slots.
        self._threads = ThreadPoolExecutor(threads * SPARE_THREADS, thread_name_prefix="holdfast-handler")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._isolation.close()

    async def end_children(self) -> None:
        """Kill what runs in processes of its own; each attempt is interrupted as any other would be."""
        await self._isolation.end()

    def is_isolated(self, lease: Lease) -> bool:
        """As its handler asks; and a task whose worker vanished, which might have been what killed it.

        Of those, a function that no other process finds still runs here: that its worker vanished is not its fault.
        """
        handler = self._registry.get(lease.handler)
        if handler is None:
            return False
        return handler.isolation == PROCESS or (lease.suspect and self._registry.place(handler) is not None)

    async def run(self, attempt: Attempt) -> Report | None:
        """The attempt's report; None if its lease is lost and there is nobody to report to.

        Large params are read before and a large output is stored after the handler: rows and reports stay small.
        """
        try:
            if attempt.lease.params_ref is not None:
                params = await self._payloads.get(attempt.lease.job_id, attempt.lease.params_ref)
                attempt.lease = attempt.lease._replace(params=orjson.loads(params))
            report = await self._run(attempt)
            if report is not None and attempt.contract is not None:
                report = _kept(attempt, attempt.contract, report)
            if report is not None and report.output is not None:
                size = len(report.output)
                if size > self._payloads.inline_bytes:
                    digest = await self._payloads.put(report.job_id, report.output)
                    await failpoint.hit("run.stored")
                    report = _by_reference(report, digest, size)
            return report
        except asyncio.CancelledError:
            return self._interrupted(attempt)
        except HoldfastError as problem:
            # Where it lies is for operators: a message tells no path.
            attempt.write(f"{problem}\n")
            return failed(attempt, Code.HANDLER_ERROR, f"{problem} {problem.remedy or ''}")

    async def _run(self, attempt: Attempt) -> Report | None:
        lease = attempt.lease
        handler = self._registry.get(lease.handler)
        if handler is None:
            return failed(attempt, Code.HANDLER_UNKNOWN, f"this worker has no handler {lease.handler}")
        if self.is_isolated(lease):
            return await self._run_isolated(handler, attempt)
        try:
            arguments = handler.arguments(lease.params)
        except ContractViolation as problem:
            return failed(attempt, Code.CONTRACT_VIOLATION, str(problem), permanent=True)
        try:
            await failpoint.hit("run.before")
            returned = await self._call(handler, attempt, arguments)
            await failpoint.hit("run.after")
        except asyncio.CancelledError:
            return self._interrupted(attempt)
        except Exception as error:
            return raised(attempt, error, self._registry.codes)
        return done(attempt, returned, self._payloads.limit_bytes)

    async def _run_isolated(self, handler: Handler, attempt: Attempt) -> Report | None:
        try:
            told = await self._isolation.run(handler, attempt)
        except asyncio.CancelledError:
            return self._interrupted(attempt)
        except CannotBeIsolated as problem:
            return failed(attempt, Code.CONTRACT_VIOLATION, str(problem), permanent=True)
        except NotStarted as problem:
            return failed(attempt, Code.HANDLER_ERROR, str(problem))
        except ProcessDied as death:
            return _lost(attempt, death)
        if told is None:
            return None
        return _report(attempt, Outcome(told["outcome"]), told["output"], told["data"] | _log(attempt))

    async def _call(self, handler: Handler, attempt: Attempt, arguments: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        if handler.is_async:
            if handler.context_parameter is not None:
                arguments[handler.context_parameter] = AsyncContext(attempt, self._means)
            token = _current.set(attempt)
            try:
                return await handler.function(**arguments)
            finally:
                _current.reset(token)
        if handler.context_parameter is not None:
            arguments[handler.context_parameter] = Context(
                attempt, self._means, lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
            )
        context = contextvars.copy_context()
        context.run(_current.set, attempt)
        return await loop.run_in_executor(self._threads, lambda: context.run(handler.function, **arguments))

    @staticmethod
    def _interrupted(attempt: Attempt) -> Report | None:
        """Cancelled from outside: by the time limit, a lost lease, or a worker that leaves."""
        if attempt.timed_out:
            seconds = attempt.limit_seconds or attempt.lease.timeout_seconds
            return failed(attempt, Code.TIMEOUT, f"the attempt took longer than its {seconds:g} s")
        if attempt.lost:
            return None
        return given_back(attempt)


def done(attempt: Attempt, returned: Any, limit_bytes: int = LIMIT_BYTES) -> Report:
    """What a handler returned, if it can be stored. Nothing, after it saw `ctx.cancelled`, gives the task back."""
    extra = None
    if isinstance(returned, Result):
        extra = {
            "warnings": list(returned.warnings),
            "deliverables": returned.deliverables,
            "metrics": returned.metrics,
        }
        returned = returned.output
    if returned is None and attempt.saw_cancelled:
        # It saw that it should stop, and had nothing to show: it has stopped early.
        return given_back(attempt)
    try:
        output, told = orjson.dumps(returned), orjson.dumps(extra) if extra else b""
    except (TypeError, ValueError) as error:
        message = f"the output of {attempt.lease.handler} cannot be stored as JSON: {error}"
        return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)
    if len(output) + len(told) > limit_bytes:
        message = f"the output has {len(output) + len(told):,} bytes; at most {limit_bytes:,} can be stored"
        return failed(attempt, Code.PAYLOAD_REFUSED, message, permanent=True)
    if _has_nul(output) or _has_nul(told):
        message = "the output contains a NUL character, which Postgres cannot store"
        return failed(attempt, Code.PAYLOAD_REFUSED, message, permanent=True)
    data = _log(attempt)
    if extra and any(extra.values()):
        data["extra"] = extra
    if attempt.artifacts:
        data["artifacts"] = list(attempt.artifacts.values())
    return _report(attempt, Outcome.DONE, output, data)


def _kept(attempt: Attempt, contract: Contract, report: Report) -> Report:
    """The report, or what it failed by: the handler would return the same again, so it is not asked again."""
    breach = contract.breach(report.output) if report.output is not None else None
    if breach is None:
        return report
    message = f"the output of {attempt.lease.node} does not keep its output_schema: {breach}"
    return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)


def _has_nul(json: bytes) -> bool:
    """Whether a string in it has a NUL; the text of such an escape, behind an escaped backslash, is harmless."""
    return b"\\u0000" in json and _NUL.search(json) is not None


def raised(attempt: Attempt, error: Exception, codes: Mapping[str, ErrorCode]) -> Report | None:
    """What a handler's exception means; None if it says that the lease is lost."""
    if isinstance(error, LeaseLost):
        return None
    return _failed_as_told(attempt, error, codes) if isinstance(error, HandlerFailure) else _crashed(attempt, error)


def _failed_as_told(attempt: Attempt, failure: HandlerFailure, codes: Mapping[str, ErrorCode]) -> Report:
    told: dict[str, Any] = {"class": failure.failure_class}
    if isinstance(failure, RetryAfter) and (seconds := waitable(failure.seconds)) is not None:
        told["retry_after_seconds"] = seconds
    if isinstance(failure, DependencyDown):
        told["down"] = _storable(str(failure.name))
    code, declared = failure.code, codes.get(failure.code)
    if declared is not None:
        told["declared_class"] = declared.failure_class
        code = declared.public_code
        if code != failure.code:
            attempt.write(f"{failure.code}, seen by others as {code}: {failure.message}\n")
    return failed(attempt, code, str(failure.message), **causes(failure) | told)


def _crashed(attempt: Attempt, error: Exception) -> Report:
    """An exception that says nothing about itself is for the rules to judge; operators keep the whole traceback."""
    attempt.write("".join(traceback.format_exception(error)))
    try:
        words = str(error)
    except Exception:
        words = ""
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return failed(attempt, Code.HANDLER_ERROR, message, **causes(error))


def failed(attempt: Attempt, code: str, message: str, *, permanent: bool = False, **told: Any) -> Report:
    """`told` is what else the owner may judge by; what is None was not told."""
    data: dict[str, Any] = {"code": _storable(str(code)), "message": _storable(message)}
    if permanent:
        data["class"] = FailureClass.PERMANENT
    data |= {name: value for name, value in told.items() if value is not None}
    return _report(attempt, Outcome.FAILED, None, data | _log(attempt))


def given_back(attempt: Attempt) -> Report:
    return _report(attempt, Outcome.GIVEN_BACK, None, _log(attempt))


def _lost(attempt: Attempt, death: ProcessDied) -> Report:
    data = {"code": str(Code.WORKER_LOST), "message": str(death)} | _log(attempt)
    return _report(attempt, Outcome.LOST, None, data)._replace(alone=death.alone)


def _log(attempt: Attempt) -> dict[str, Any]:
    return {"log": _storable("".join(attempt.log_lines))} if attempt.log_lines else {}


def _report(attempt: Attempt, outcome: Outcome, output: bytes | None, data: dict[str, Any]) -> Report:
    lease = attempt.lease
    if attempt.calls:
        data = data | {"calls": attempt.calls}
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


def _by_reference(report: Report, digest: str, size: int) -> Report:
    """The report without its output, which lies in the object store by now."""
    data = orjson.loads(report.data) if report.data is not None else {}
    told = orjson.dumps(data | {"output_ref": digest, "output_bytes": size})
    return report._replace(output=None, data=told)


def _storable(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def begin(lease: Lease, facts: JobFacts = NO_FACTS) -> Attempt:
    return Attempt(lease, facts, time.time(), time.monotonic(), checkpoint_seq=lease.checkpoint_seq)
