"""Workers without a database: they register, claim tasks, report, and say that they live."""

from __future__ import annotations

from fastapi import Response

from holdfast.errors import InvalidInput, NotFound, PayloadUnavailable, Unauthenticated, WorkerGone
from holdfast.operations.attempt_work import SentOutput, SentProgress
from holdfast.operations.identity import Permission
from holdfast.operations.scope import Scope
from holdfast.service.call import Call, CallContext
from holdfast.service.table import RouteTable
from holdfast.service.worker_bodies import (
    Checkpoint,
    Claim,
    Leave,
    Probed,
    ProbeWish,
    Progress,
    Register,
    Renew,
    Report,
    SentReport,
)
from holdfast.views import work

table = RouteTable("worker")


def scope_of(call: CallContext) -> Scope:
    """For the tenant of the key. A worker of the installation serves every tenant, unless it names one."""
    return call.installation_client.scope


@table.post("/worker/register", Permission.WORK, answers=work.Registration, status=201, errors=(WorkerGone,))
async def register_worker(call: Call, body: Register) -> Response:
    """Begin as a worker, bound to the key of the request.

    The worker gets tasks of the key's tenant; one with a key of the installation gets those of all tenants. The same
    `registration_id` again is the same worker.
    """
    registration = await call.state.desk.register(
        scope_of(call),
        body.name,
        body.handlers,
        lease_seconds=body.lease_seconds,
        queues=body.queues,
        concurrency=body.concurrency,
        version=body.version,
        registration_id=body.registration_id,
    )
    return call.answer(registration, 201)


@table.post("/worker/claim", Permission.WORK, answers=work.Claim, errors=(NotFound, WorkerGone, PayloadUnavailable))
async def claim_tasks(call: Call, body: Claim) -> Response:
    """Claim tasks, and wait for the first of them.

    The same `claim_id` again is answered with the same tasks, without those that were reported meanwhile. A claim that
    waits asks the database nothing until work is announced.
    """

    async def check() -> None:
        if await call.request.is_disconnected():
            raise InvalidInput("The connection has ended.")
        if not await call.state.is_still_valid(call.identity):
            raise Unauthenticated("The credential has ended.")

    claim = await call.state.desk.claim(
        scope_of(call),
        body.worker_id,
        body.claim_id,
        free=body.free,
        slots=body.slots,
        reports=[report.made() for report in body.reports],
        wait_seconds=body.wait_seconds,
        inputs_once=body.inputs_once,
        check=check,
    )
    return call.answer(claim)


@table.post("/worker/renew", Permission.WORK, answers=work.RenewedWorker, errors=(NotFound, WorkerGone))
async def renew_worker(call: Call, body: Renew) -> Response:
    """Renew the worker's lease, and learn which of its tasks are lost or cancelled.

    What the worker has claimed before and does not list goes back to the queue at no cost.
    """
    renewed = await call.state.desk.renew(
        scope_of(call),
        body.worker_id,
        body.leases,
        claimed_at=body.claimed_at,
        begin=body.begin,
        changed_files=body.changed_files,
    )
    return call.answer(renewed)


@table.post("/worker/report", Permission.WORK, answers=work.Reported, errors=(NotFound, PayloadUnavailable))
async def report_tasks(call: Call, body: Report) -> Response:
    """Say how attempts have ended.

    A report is `taken` if the worker held the lease; sent again, it is `taken` if it was. One that is `rejected`
    changes nothing. One that is `locked` can be sent again.
    """
    reports = [report.made() for report in body.reports]
    return call.answer(await call.state.desk.report(scope_of(call), body.worker_id, reports))


@table.post("/worker/checkpoint", Permission.WORK, answers=work.SavedCheckpoint, errors=(NotFound,))
async def save_checkpoint(call: Call, body: Checkpoint) -> Response:
    """Save a point from which a later attempt can continue. It can be sent again under its number."""
    attempts = call.state.desk.attempts
    return call.answer(
        await attempts.save_checkpoint(scope_of(call), body.worker_id, body.lease, body.seq, body.name, body.data)
    )


@table.post("/worker/progress", Permission.WORK, answers=work.Noted, errors=(NotFound,))
async def note_progress(call: Call, body: Progress) -> Response:
    """Show how far attempts have got, and what they have printed."""
    noted = await call.state.desk.attempts.note(
        scope_of(call),
        body.worker_id,
        [SentProgress(one.lease, one.done, one.total, one.text) for one in body.progress],
        [SentOutput(one.lease, one.part, one.started_at, one.log, one.log_times) for one in body.printed],
        body.ended,
    )
    return call.answer(noted)


@table.post("/worker/probe", Permission.WORK, answers=work.Probe, errors=(NotFound,))
async def claim_probe(call: Call, body: ProbeWish) -> Response:
    """Get an open breaker whose probe is due, if there is one that the worker can probe."""
    return call.answer(await call.state.desk.attempts.claim_probe(scope_of(call), body.worker_id, body.seconds))


@table.post("/worker/probed", Permission.WORK, answers=work.Noted, errors=(NotFound,))
async def note_probe(call: Call, body: Probed) -> Response:
    """Say how a probe has ended. Without a problem the first tasks may try again."""
    attempts = call.state.desk.attempts
    return call.answer(await attempts.probed(scope_of(call), body.worker_id, body.breaker, body.problem))


@table.post("/worker/leave", Permission.WORK, answers=work.Left, errors=(NotFound,))
async def leave_work(call: Call, body: Leave) -> Response:
    """End the worker. What it still holds goes back to the queue at no cost."""
    return call.answer(await call.state.desk.leave(scope_of(call), body.worker_id))


@table.post("/callbacks/task-result", Permission.WORK, answers=work.Callback, errors=(PayloadUnavailable,))
async def report_by_lease(call: Call, body: SentReport) -> Response:
    """Say how one attempt has ended, in place of the worker that holds it.

    A program that has the token of the lease may do so, with any key of the tenant: a worker can pass a token on to a
    program that calls back when it is done. The worker renews the lease until then.
    """
    return call.answer(await call.state.desk.report_by_lease(scope_of(call), body.made()))
