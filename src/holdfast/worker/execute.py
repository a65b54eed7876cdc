"""Running one attempt: arguments, handler, time limit, captured output; always ends in a report, never in a raise."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import io
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TextIO

import orjson

from holdfast import failpoint
from holdfast.core.signals import Outcome
from holdfast.define.contract import Contract
from holdfast.define.registry import PROCESS, ContractViolation, Handler, Registry, Result
from holdfast.errors import Code, DependencyDown, ErrorCode, FailureClass, HandlerFailure, HoldfastError, RetryAfter
from holdfast.masking import masked
from holdfast.store.interface import JobFacts, Lease, Report
from holdfast.store.payloads import LIMIT_BYTES, Payloads
from holdfast.worker.causes import attribute, causes, waitable
from holdfast.worker.containing import contain_tasks, current
from holdfast.worker.context import AsyncContext, Attempt, Context, LeaseLost, Means
from holdfast.worker.isolation import CannotBeIsolated, Isolation, ProcessDied
from holdfast.worker.messages import Malformed, Received
from holdfast.worker.processes import NotStarted
from holdfast.worker.values import ARTIFACT_NAME_BYTES, NotStorable, check_name, checked, encoded, storable, word

NO_FACTS = JobFacts(1, {})
SPARE_THREADS = 8


class _Captured(io.TextIOBase):
    """Stands in for stdout and stderr: what a handler prints goes to its attempt, all else where it always went."""

    def __init__(self, real: TextIO) -> None:
        self.real = real

    def write(self, text: str) -> int:
        attempt = current.get()
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
        self._means_without_database = replace(means, database_url=None)
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

    async def remove_workdir(self, attempt: Attempt) -> None:
        await asyncio.to_thread(self._means.workplace.remove, attempt.lease)

    def time_limit(self, lease: Lease) -> float:
        """How many seconds an attempt may take: the node's timeout, or the handler's own if that is shorter."""
        handler = self._registry.get(lease.handler)
        own = handler.timeout_seconds if handler is not None else None
        return lease.timeout_seconds if own is None else min(own, lease.timeout_seconds)

    def runs_on_loop(self, lease: Lease) -> bool:
        """Whether the handler is a coroutine in this process, which can be cancelled at once."""
        handler = self._registry.get(lease.handler)
        return handler is not None and handler.is_async and not self.is_isolated(lease)

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
        It wants a task of its own: a coroutine runs in that one, may cancel it, and may set variables of its context.
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
                    digest = await _despite_handler(attempt, self._payloads.put(report.job_id, report.output))
                    await failpoint.hit("run.stored")
                    report = _by_reference(report, digest, size)
            return report
        except asyncio.CancelledError:
            return interrupted(attempt)
        except HoldfastError as problem:
            # Where it lies is for operators: a message tells no path.
            attempt.write(f"{problem}\n")
            return failed(attempt, Code.HANDLER_ERROR, f"{problem} {problem.remedy or ''}")

    async def _run(self, attempt: Attempt) -> Report | None:
        lease = attempt.lease
        handler = self._registry.get(lease.handler)
        if handler is None:
            return failed(attempt, Code.HANDLER_UNKNOWN, f"this worker has no handler {lease.handler}")
        try:
            if self.is_isolated(lease):
                return await self._run_isolated(handler, attempt)
            await failpoint.hit("run.before")
            report = await self._call(handler, attempt)
            await failpoint.hit("run.after")
        except asyncio.CancelledError:
            return interrupted(attempt)
        return report

    async def _run_isolated(self, handler: Handler, attempt: Attempt) -> Report | None:
        try:
            answer = await self._isolation.run(handler, attempt)
        except CannotBeIsolated as problem:
            return failed(attempt, Code.CONTRACT_VIOLATION, str(problem), permanent=True)
        except NotStarted as problem:
            return failed(attempt, Code.HANDLER_ERROR, str(problem))
        except ProcessDied as death:
            return _lost(attempt, death)
        except LeaseLost:
            return None
        except Malformed as problem:
            return _malformed(attempt, problem)
        limit = self._payloads.limit_bytes
        if answer.output is not None and len(answer.output) > self._payloads.inline_bytes:
            return await asyncio.to_thread(received, attempt, answer, limit)
        return received(attempt, answer, limit)

    async def _call(self, handler: Handler, attempt: Attempt) -> Report | None:
        """Its report is made where the handler runs: looking at what it returned or raised runs code of its own."""
        loop, codes, limit = asyncio.get_running_loop(), self._registry.codes, self._payloads.limit_bytes
        means = self._means if handler.database else self._means_without_database
        if handler.is_async:
            contain_tasks(loop)
            current.set(attempt)
            report = await concluded(handler, attempt, AsyncContext(attempt, means), codes, limit)
            current.set(None)
            await _forget_cancels(loop)
            return report

        def call() -> Any:
            def wait(work: Coroutine[Any, Any, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(work, loop).result()

            given = arguments(handler, attempt, Context(attempt, means, wait))
            # In the handler's thread: it may have been a long time since somebody wanted it to begin.
            attempt.require_lease("the beginning")
            return handler.function(**given)

        context = contextvars.copy_context()
        context.run(current.set, attempt)
        return await loop.run_in_executor(self._threads, context.run, conclude, attempt, call, codes, limit)


def arguments(handler: Handler, attempt: Attempt, context: Context | AsyncContext) -> dict[str, Any]:
    """The params, checked, and the context where the handler takes one."""
    given = handler.arguments(attempt.lease.params)
    return given | {handler.context_parameter: context} if handler.context_parameter is not None else given


def conclude(
    attempt: Attempt, call: Callable[[], Any], codes: Mapping[str, ErrorCode], limit_bytes: int
) -> Report | None:
    """Call a handler; whatever it returns or raises is its attempt's report and goes no further."""
    try:
        return done(attempt, call(), limit_bytes)
    except BaseException as error:
        return raised(attempt, error, codes)


async def concluded(
    handler: Handler,
    attempt: Attempt,
    context: AsyncContext,
    codes: Mapping[str, ErrorCode],
    limit_bytes: int,
) -> Report | None:
    """The same for a coroutine."""
    try:
        given = arguments(handler, attempt, context)
        attempt.require_lease("the beginning")
        return done(attempt, await handler.function(**given), limit_bytes)
    except BaseException as error:
        return raised(attempt, error, codes)


async def _forget_cancels(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels that came in the handler's last step, by itself or by a time limit: what it has come to counts."""
    task = asyncio.current_task(loop)
    if task is None or not task.cancelling():
        return
    while task.uncancel() > 0:
        pass
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def _despite_handler(attempt: Attempt, work: Coroutine[Any, Any, str]) -> str:
    """The handler is over, but a timeout that it made by hand may still cancel its task: only the worker's cancels
    count."""
    working = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            if attempt.cancelled or attempt.timed_out or attempt.lost or working.cancelled():
                working.cancel()
                raise


def interrupted(attempt: Attempt) -> Report | None:
    """Cancelled from outside: by the time limit, a lost lease, or a worker that leaves."""
    if attempt.timed_out:
        seconds = attempt.limit_seconds or attempt.lease.timeout_seconds
        return failed(attempt, Code.TIMEOUT, f"the attempt took longer than its {seconds:g} s")
    if attempt.lost:
        return None
    return given_back(attempt)


def done(attempt: Attempt, returned: Any, limit_bytes: int = LIMIT_BYTES) -> Report | None:
    """What a handler returned, if it can be stored. Nothing, after it saw `ctx.cancelled`, gives the task back."""
    output = returned.output if isinstance(returned, Result) else returned
    if output is None and attempt.saw_cancelled:
        # It saw that it should stop, and had nothing to show: it has stopped early.
        return interrupted(attempt)
    try:
        extra = _extra_of(returned) if isinstance(returned, Result) else {}
        return _done(attempt, encoded(output, limit_bytes), extra, limit_bytes)
    except NotStorable as problem:
        return _not_storable(attempt, problem)


def received(attempt: Attempt, answer: Received, limit_bytes: int) -> Report | None:
    """What the process of an attempt reports, believed no more than what a handler returns or raises."""
    report, output = answer.message.report, answer.output
    is_asked = attempt.cancelled or attempt.timed_out or attempt.lost
    if report is None and attempt.lost:
        return None
    if report is None:
        return _malformed(attempt, Malformed("reported a lost lease, but its worker holds the lease"))
    data, attempt.calls = report.data, dict(report.data.calls)
    if report.outcome is Outcome.FAILED:
        more: dict[str, Any] = {
            "class": data.failure_class,
            "declared_class": data.declared_class,
            "exit_code": data.exit_code,
            "retry_after_seconds": data.retry_after_seconds,
            "down": word(data.down) if data.down is not None else None,
        }
        return failed(attempt, data.code, data.message or "no message", **more)
    if report.outcome is Outcome.GIVEN_BACK and is_asked:
        return given_back(attempt)
    if report.outcome is not Outcome.DONE:
        return _malformed(attempt, Malformed(f"reported '{report.outcome}' without being asked for that"))
    if output is None:
        return _malformed(attempt, Malformed("reported its end without an output"))
    try:
        for artifact in data.artifacts:
            check_name("an artifact", artifact.artifact, ARTIFACT_NAME_BYTES)
            attempt.artifacts[artifact.artifact] = artifact.model_dump()
        extra = data.extra.model_dump() if data.extra is not None else {}
        return _done(attempt, checked(output, limit_bytes), extra, limit_bytes)
    except NotStorable as problem:
        return _not_storable(attempt, problem)
    except HandlerFailure as problem:
        return _malformed(attempt, Malformed(f"reported a file, but {problem}"))


def _malformed(attempt: Attempt, problem: Malformed) -> Report:
    message = f"the process of handler {attempt.lease.handler} {problem}"
    return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)


def _not_storable(attempt: Attempt, problem: NotStorable) -> Report:
    return failed(attempt, problem.code, f"the output of {attempt.lease.handler} {problem}", permanent=True)


def _done(attempt: Attempt, output: bytes, extra: dict[str, Any], limit_bytes: int) -> Report:
    """Output, what the result tells and the files that were published are bounded together."""
    data: dict[str, Any] = {"extra": extra} if extra else {}
    if attempt.artifacts:
        data["artifacts"] = list(attempt.artifacts.values())
    if data and (size := len(output) + len(encoded(data, limit_bytes))) > limit_bytes:
        raise NotStorable(f"has {size:,} bytes; at most {limit_bytes:,} can be stored", Code.PAYLOAD_REFUSED)
    return _report(attempt, Outcome.DONE, output, data | _log(attempt))


def _extra_of(result: Result) -> dict[str, Any]:
    """What a result tells beside its output; nothing if there is nothing to tell."""
    extra = {"warnings": result.warnings, "deliverables": result.deliverables, "metrics": result.metrics}
    for name, kinds in (("warnings", (list, tuple)), ("deliverables", (dict,)), ("metrics", (dict,))):
        if not isinstance(extra[name], kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise NotStorable(f"cannot be stored: its {name} must be a {wanted}, not {type(extra[name]).__name__}")
    return extra if any(extra.values()) else {}


def _kept(attempt: Attempt, contract: Contract, report: Report) -> Report:
    """The report, or what it failed by: the handler would return the same again, so it is not asked again."""
    breach = contract.breach(report.output) if report.output is not None else None
    if breach is None:
        return report
    message = f"the output of {attempt.lease.node} does not keep its output_schema: {breach}"
    return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)


def raised(attempt: Attempt, error: BaseException, codes: Mapping[str, ErrorCode]) -> Report | None:
    """What a handler's exception means. Only what the worker itself has decided (a cancel, a lost lease) is no failure:
    what a handler raises of its own accord always is one, and spends a retry."""
    try:
        if isinstance(error, asyncio.CancelledError) and (attempt.cancelled or attempt.timed_out or attempt.lost):
            return interrupted(attempt)
        if isinstance(error, LeaseLost) and attempt.lost:
            return None
        if isinstance(error, ContractViolation):
            return failed(attempt, Code.CONTRACT_VIOLATION, str(error), permanent=True)
        if isinstance(error, HandlerFailure):
            return _failed_as_told(attempt, error, codes)
        return _crashed(attempt, error)
    except BaseException as problem:
        message = f"{attempt.lease.handler} raised an exception that cannot be read: {type(problem).__name__}"
        return failed(attempt, Code.HANDLER_ERROR, message)


def _failed_as_told(attempt: Attempt, failure: HandlerFailure, codes: Mapping[str, ErrorCode]) -> Report:
    """A subclass may have set none of its attributes, or anything."""
    message = str(attribute(failure, "message") or failure) or "no message"
    told: dict[str, Any] = {}
    kind = attribute(failure, "failure_class")
    if isinstance(kind, str) and kind in tuple(FailureClass):
        told["class"] = FailureClass(kind)
    if isinstance(failure, RetryAfter) and (seconds := waitable(attribute(failure, "seconds"))) is not None:
        told["retry_after_seconds"] = seconds
    if isinstance(failure, DependencyDown):
        told["down"] = word(attribute(failure, "name"))
    code = said = word(attribute(failure, "code"))
    if (declared := codes.get(said)) is not None:
        told["declared_class"] = declared.failure_class
        code = declared.public_code
        if code != said:
            attempt.write(f"{said}, seen by others as {code}: {message}\n")
    return failed(attempt, code, message, **causes(failure) | told)


def _crashed(attempt: Attempt, error: BaseException) -> Report:
    """An exception that says nothing about itself is for the rules to judge; operators keep the whole traceback."""
    _write_traceback(attempt, error)
    try:
        words = str(error)
    except BaseException:
        words = ""
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return failed(attempt, Code.HANDLER_ERROR, message, **causes(error))


def _write_traceback(attempt: Attempt, error: BaseException) -> None:
    """Part by part: one whose message has no end is there once, and not once more for every step."""
    for part in traceback.TracebackException.from_exception(error).format():
        attempt.write(part)


def failed(attempt: Attempt, code: str, message: str, *, permanent: bool = False, **told: Any) -> Report:
    """`told` is what else the owner may judge by; what is None was not told."""
    data: dict[str, Any] = {"code": word(code) or str(Code.HANDLER_ERROR), "message": storable(message)}
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
    return {"log": storable("".join(attempt.log_lines), 2 * attempt.LOG_LIMIT)} if attempt.log_lines else {}


def _report(attempt: Attempt, outcome: Outcome, output: bytes | None, data: dict[str, Any]) -> Report:
    lease = attempt.lease
    if attempt.calls:
        data = data | {"calls": attempt.calls}
    if data:
        # Here, and not where a message is made: a child process has made some, and does not know every secret.
        data = data | {name: masked(data[name]) for name in ("message", "log") if name in data}
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


def begin(lease: Lease, facts: JobFacts = NO_FACTS) -> Attempt:
    return Attempt(lease, facts, time.time(), time.monotonic(), checkpoint_seq=lease.checkpoint_seq)
