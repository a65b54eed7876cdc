"""Changing what holds tasks back: breakers, limits and pauses; and letting the janitor look."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import Field

from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.operations.gates import BreakerVerb
from holdfast.operations.identity import Permission
from holdfast.operations.pauses import EVERYTHING, QUEUE, WORKFLOW
from holdfast.operations.verbs import Verb
from holdfast.service.bodies import REASON_LENGTH, Because, Body
from holdfast.service.call import Call, CallContext
from holdfast.service.routes.verbs import LONGEST_WAIT_SECONDS
from holdfast.service.table import RouteTable
from holdfast.views import gates
from holdfast.views.pausing import PauseChange
from holdfast.views.upkeep import JanitorPass

table = RouteTable("fleet")
BreakerName = Annotated[str, Path(description="The name of a breaker.", max_length=200)]
LimitName = Annotated[
    str, Path(description="`queue:QUEUE`, `tenant`, `node:WORKFLOW.NODE` or `key:KEY`.", max_length=400)
]
PauseId = Annotated[str, Path(description="`queue:QUEUE`, `workflow:ID` or `all`.", max_length=400)]
MOST = 2_147_483_647


class SetRate(Body):
    """How many tasks may begin in how many seconds."""

    limit: int = Field(ge=1, le=MOST)
    per_seconds: float = Field(gt=0, strict=False)


class SetLimit(Body):
    """What a limit allows. What is left out stays as it is."""

    concurrency: int | None = Field(None, ge=1, le=MOST)
    """How many tasks may run at once."""
    rate: SetRate | None = None
    backlog: int | None = Field(None, ge=1, le=MOST)
    """How many jobs of the tenant may be open; only for the limit `tenant`."""


class MakePause(Body):
    """What to pause: a queue, the open jobs of a workflow, or all open jobs of the tenant."""

    queue: str | None = Field(None, max_length=200)
    workflow: str | None = Field(None, max_length=200)
    all: bool = False
    reason: str = Field("", max_length=REASON_LENGTH)
    """Why; it is stored."""
    dry_run: bool = False
    """Only say which jobs would be paused."""


class RunJanitor(Body):
    """One pass of the janitor."""

    dry_run: bool = False
    """Look, and change nothing."""


def _breaker(verb: BreakerVerb, text: str) -> None:
    async def endpoint(call: Call, name: BreakerName, body: Because) -> Response:
        return call.answer(await call.client.change_breaker(name, verb, reason=body.reason))

    endpoint.__name__ = f"{verb}_breaker"
    endpoint.__doc__ = text
    table.post(f"/breakers/{{name}}/{verb}", Permission.OPERATE, answers=gates.Breaker, errors=(Refused,))(endpoint)


_breaker("open", "Hold a breaker open until a person closes it: the tasks behind it wait.")
_breaker("close", "Close a breaker: the tasks behind it continue.")
_breaker("reset", "Close a breaker, and let it forget the calls that it has counted.")


@table.put("/limits/{name:name}", Permission.OPERATE, answers=gates.Limit, errors=(NotFound,))
async def set_limit(call: Call, name: LimitName, body: SetLimit) -> Response:
    """Set a limit, or a limit otherwise than its workflow does.

    The limits of queues, and what a tenant may use, are set by administrators of the installation.
    """
    rate = (body.rate.limit, body.rate.per_seconds) if body.rate is not None else None
    changed = await call.client.set_limit(name, concurrency=body.concurrency, rate=rate, backlog=body.backlog)
    return call.answer(changed)


@table.delete("/limits/{name:name}", Permission.OPERATE, answers=gates.Limit, errors=(Refused,))
async def drop_limit(call: Call, name: LimitName) -> Response:
    """Remove a limit that a person has set. The answer shows it as it was."""
    return call.answer(await call.client.drop_limit(name))


@table.post("/pauses", Permission.OPERATE, answers=PauseChange, errors=(Refused, NotFound))
async def make_pause(
    call: Call,
    body: MakePause,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="How long to wait for the owners of the jobs.")
    ] = 0,
) -> Response:
    """Let nothing new begin: of a queue, of the open jobs of a workflow, or of all open jobs of the tenant.

    What runs continues to its end. A pause of a queue is for all tenants: only an administrator of the installation
    may make it.
    """
    if [body.queue is not None, body.workflow is not None, body.all].count(True) != 1:
        raise InvalidInput("A pause is of one thing.", remedy="Give `queue`, `workflow` or `all`.")
    if body.queue is None:
        return await _steer(call, Verb.PAUSE, body.workflow, body.reason, wait, dry_run=body.dry_run)
    if body.dry_run:
        raise InvalidInput("`dry_run` is about jobs.", remedy="Read `/queues` to see what waits in a queue.")
    paused = await call.client.pause_queue(body.queue, reason=body.reason)
    return call.answer(PauseChange(f"{QUEUE}{body.queue}", queue=paused))


@table.delete("/pauses/{pause_id}", Permission.OPERATE, answers=PauseChange, errors=(Refused,))
async def end_pause(
    call: Call,
    pause_id: PauseId,
    reason: Annotated[str, Query(max_length=REASON_LENGTH, description="Why; it is stored with the jobs.")] = "",
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="How long to wait for the owners of the jobs.")
    ] = 0,
    dry_run: Annotated[bool, Query(description="Only say which jobs would continue.")] = False,
) -> Response:
    """Let tasks begin again: of a queue, of the paused jobs of a workflow, or of all paused jobs of the tenant."""
    if pause_id == EVERYTHING:
        return await _steer(call, Verb.UNPAUSE, None, reason, wait, dry_run=dry_run)
    if pause_id.startswith(WORKFLOW):
        workflow = pause_id.removeprefix(WORKFLOW)
        return await _steer(call, Verb.UNPAUSE, workflow, reason, wait, dry_run=dry_run)
    if pause_id.startswith(QUEUE) and not dry_run:
        return call.answer(PauseChange(pause_id, queue=await call.client.unpause_queue(pause_id.removeprefix(QUEUE))))
    raise InvalidInput(f"'{pause_id}' is not the id of a pause.", remedy="List the pauses.")


async def _steer(
    call: CallContext, verb: Verb, workflow_id: str | None, reason: str, wait: float, *, dry_run: bool
) -> Response:
    id = EVERYTHING if workflow_id is None else f"{WORKFLOW}{workflow_id}"
    plan = await call.client.plan_jobs(verb, workflow_id=workflow_id)
    if dry_run:
        return call.answer(PauseChange(id, plan=plan))
    return call.answer(PauseChange(id, jobs=await call.client.change_jobs(plan, reason=reason, seconds=wait)))


@table.post("/janitor/run", Permission.OPERATE, answers=JanitorPass)
async def run_janitor(call: Call, body: RunJanitor) -> Response:
    """Look at all jobs of all tenants once, and have what is wrong repaired.

    It is for administrators of the installation. Nothing that is only old is deleted.
    """
    call.refuse_unless_installation_admin()
    return call.answer(await call.client.run_janitor(dry_run=body.dry_run))
