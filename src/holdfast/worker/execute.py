"""Running one attempt: arguments, handler, time limit, large values. It ends in a report and raises nothing."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import orjson

from holdfast import failpoint
from holdfast.define.registry import PROCESS, Handler, Registry
from holdfast.define.secrets import AmbiguousSecret, SecretParams
from holdfast.errors import Code, ErrorCode, HoldfastError
from holdfast.store.payloads import Payloads
from holdfast.store.records import JobFacts, Lease, Report
from holdfast.worker.containing import contain_tasks, current
from holdfast.worker.context import AsyncContext, Attempt, Context, HandlerServices, LeaseLost
from holdfast.worker.isolation import CannotBeIsolated, Isolation, ProcessDied
from holdfast.worker.messages import Malformed
from holdfast.worker.processes import NotStarted
from holdfast.worker.reports import (
    by_reference,
    died,
    done,
    failed,
    held_to_contract,
    interrupted,
    malformed,
    raised,
    received,
)
from holdfast.worker.secrets import NoSecret, SecretValues

NO_FACTS = JobFacts(1, {})
SPARE_THREADS = 8


class Executor:
    """Runs attempts: coroutines on the event loop, plain functions in threads, isolated handlers in processes."""

    def __init__(
        self,
        registry: Registry,
        services: HandlerServices,
        payloads: Payloads,
        threads: int,
        secrets: SecretValues | None = None,
    ) -> None:
        self._registry = registry
        self._services = services
        self._services_without_database = replace(services, database_url=None)
        self._payloads = payloads
        self._secrets = secrets or SecretValues(None)
        self._isolation = Isolation(registry, services, payloads, self._secrets.folder)
        # A thread cannot be killed: it stays busy after its attempt timed out, so there are more threads than slots.
        self._threads = ThreadPoolExecutor(threads * SPARE_THREADS, thread_name_prefix="holdfast-handler")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._isolation.close()

    async def end_children(self) -> None:
        """Kill the processes of isolated handlers and interrupt their attempts."""
        await self._isolation.end()

    async def remove_workdir(self, attempt: Attempt) -> None:
        await asyncio.to_thread(self._services.workplace.remove, attempt.lease)

    def time_limit(self, lease: Lease) -> float:
        """How many seconds an attempt may take: the node's timeout, or the handler's own if that is shorter."""
        handler = self._registry.get(lease.handler)
        own = handler.timeout_seconds if handler is not None else None
        return lease.timeout_seconds if own is None else min(own, lease.timeout_seconds)

    def runs_on_loop(self, lease: Lease) -> bool:
        """Whether the handler is a coroutine in this process, which can be cancelled at once."""
        handler = self._registry.get(lease.handler)
        return handler is not None and handler.is_async and not self._is_isolated(handler, lease)

    def _is_isolated(self, handler: Handler, lease: Lease) -> bool:
        """Whether the task runs in a process: its handler asks for that, or the task may have killed a worker.

        A suspect whose function no other process can import still runs here: it may be innocent.
        """
        return handler.isolation == PROCESS or (lease.suspect and self._registry.place(handler) is not None)

    async def run(self, attempt: Attempt) -> Report | None:
        """The attempt's report; None if its lease is lost: then no report would be accepted.

        Reads large params before and stores a large output after the handler, so that rows and reports stay small.
        Needs an asyncio task of its own: a coroutine runs in it, may cancel it, and may set its context variables.
        """
        try:
            if attempt.lease.params_ref is not None or attempt.lease.output_ref is not None:
                attempt.lease = await self._with_large_params(attempt.lease)
            lease = attempt.lease
            handler = self._registry.get(lease.handler)
            if handler is None:
                return failed(attempt, Code.HANDLER_UNKNOWN, f"this worker has no handler {lease.handler}")
            if attempt.secrets is not None:
                await self._fill_in(attempt, attempt.secrets)
            if self._is_isolated(handler, lease):
                report = await self._run_isolated(handler, attempt)
            else:
                await failpoint.hit("run.before")
                report = await self._call(handler, attempt)
                await failpoint.hit("run.after")
            if report is not None and attempt.contract is not None:
                report = held_to_contract(attempt, attempt.contract, report)
            if report is not None and report.output is not None and len(report.output) > self._payloads.inline_bytes:
                report = await self._stored(attempt, report, report.output)
            return report
        except asyncio.CancelledError:
            return interrupted(attempt)
        except NoSecret as problem:
            return failed(attempt, problem.code, str(problem), permanent=problem.code is Code.SECRET_MISSING)
        except AmbiguousSecret as problem:
            return failed(attempt, Code.CONTRACT_VIOLATION, str(problem), permanent=True)
        except HoldfastError as problem:
            # The log is for operators and shows where the object is; the message, for everyone else, does not.
            attempt.write(f"{problem}\n")
            return failed(attempt, Code.HANDLER_ERROR, f"{problem} {problem.remedy or ''}")

    async def _fill_in(self, attempt: Attempt, secrets: SecretParams) -> None:
        """Put the values of secrets into what the handler gets; the lease, and all that is kept, has the references."""
        values = await self._secrets.of(attempt.facts.tenant, secrets.names)
        params = attempt.lease.params
        if attempt.lease.is_undo:
            attempt.filled = {**params, "params": secrets.filled(params["params"], values)}
        else:
            attempt.filled = secrets.filled(params, values)
        attempt.values = list(values.values())

    async def _with_large_params(self, lease: Lease) -> Lease:
        """What is too large for a row is read from the object store."""
        if lease.params_ref is not None:
            params = orjson.loads(await self._payloads.get(lease.job_id, lease.params_ref))
            lease = lease._replace(params={**lease.params, "params": params} if lease.is_undo else params)
        if lease.output_ref is not None:
            output = orjson.loads(await self._payloads.get(lease.job_id, lease.output_ref))
            lease = lease._replace(params={**lease.params, "output": output})
        return lease

    async def _stored(self, attempt: Attempt, report: Report, output: bytes) -> Report:
        digest = await _despite_handler(attempt, self._payloads.put(report.job_id, output))
        await failpoint.hit("run.stored")
        return by_reference(report, digest, len(output))

    async def _run_isolated(self, handler: Handler, attempt: Attempt) -> Report | None:
        try:
            answer = await self._isolation.run(handler, attempt)
        except CannotBeIsolated as problem:
            return failed(attempt, Code.CONTRACT_VIOLATION, str(problem), permanent=True)
        except NotStarted as problem:
            return failed(attempt, Code.HANDLER_ERROR, str(problem))
        except ProcessDied as death:
            return died(attempt, death)
        except LeaseLost:
            return None
        except Malformed as problem:
            return malformed(attempt, problem)
        limit = self._payloads.limit_bytes
        if answer.output is not None and len(answer.output) > self._payloads.inline_bytes:
            return await asyncio.to_thread(received, attempt, answer, limit)
        return received(attempt, answer, limit)

    async def _call(self, handler: Handler, attempt: Attempt) -> Report | None:
        """Makes the report where the handler runs: reading what it returned or raised may run the handler's code."""
        loop, codes, limit = asyncio.get_running_loop(), self._registry.codes, self._payloads.limit_bytes
        services = self._services if handler.database else self._services_without_database
        if handler.is_async:
            contain_tasks(loop)
            current.set(attempt)
            report = await concluded(handler, attempt, AsyncContext(attempt, services), codes, limit)
            current.set(None)
            task = attempt.task or asyncio.current_task(loop)
            if task is not None and task.cancelling():
                await _forget_cancels(task)
            return report

        def call() -> Any:
            def wait(work: Coroutine[Any, Any, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(work, loop).result()

            keywords = arguments(handler, attempt, Context(attempt, services, wait))
            # Checked in the handler's thread: the call may have waited long for a free thread.
            attempt.require_lease("the beginning")
            return handler.function(**keywords)

        context = contextvars.copy_context()
        context.run(current.set, attempt)
        return await loop.run_in_executor(self._threads, context.run, conclude, attempt, call, codes, limit)


def arguments(handler: Handler, attempt: Attempt, context: Context | AsyncContext) -> dict[str, Any]:
    """The task's params, checked, and the context if the handler takes one. A handler that undoes the task gets its
    params and its output, as far as it names them."""
    given = attempt.filled if attempt.filled is not None else attempt.lease.params
    if attempt.lease.is_undo and not handler.takes_anything:
        given = {name: value for name, value in given.items() if name in handler.checks}
    params = handler.arguments(given)
    return params | {handler.context_parameter: context} if handler.context_parameter is not None else params


def conclude(
    attempt: Attempt, call: Callable[[], Any], codes: Mapping[str, ErrorCode], limit_bytes: int
) -> Report | None:
    """Call a plain handler and turn what it returns or raises into a report. Nothing is raised from here."""
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
    """Call a coroutine handler and turn what it returns or raises into a report."""
    try:
        keywords = arguments(handler, attempt, context)
        attempt.require_lease("the beginning")
        return done(attempt, await handler.function(**keywords), limit_bytes)
    except BaseException as error:
        return raised(attempt, error, codes)


async def _forget_cancels(task: asyncio.Task[Any]) -> None:
    """Drop cancels that came in the handler's last step, from itself or a time limit: its result counts."""
    while task.uncancel() > 0:
        pass
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def _despite_handler(attempt: Attempt, work: Coroutine[Any, Any, str]) -> str:
    """Finish the work although a timeout that the handler made by hand may still cancel its task: after the handler
    has ended, only the worker's cancels count."""
    working = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            if attempt.cancelled or attempt.timed_out or attempt.lost or working.cancelled():
                working.cancel()
                raise


def begin(lease: Lease, facts: JobFacts = NO_FACTS) -> Attempt:
    return Attempt(lease, facts, time.time(), time.monotonic(), checkpoint_seq=lease.checkpoint_seq)
