"""Every verb in one way: understand what was typed, plan, confirm, send, wait for the owner, show.

If no orchestrator runs, the command drives the job itself.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.bootstrap import open_client
from holdfast.cli.asking import confirmed
from holdfast.cli.correcting import TypedCorrection
from holdfast.cli.data_files import read_data
from holdfast.cli.ending import end_with, follow_to_the_end, naming, say_unreadable
from holdfast.cli.fleet import handlers_of, start
from holdfast.cli.planning import plan_table, show_plan
from holdfast.cli.problems import Interrupted
from holdfast.cli.run import follow_served, refuse_unknown_handlers
from holdfast.cli.session import Target, begin_on, drive, find_job, known_handlers
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, short
from holdfast.client import Client
from holdfast.define.definition import UNREADABLE_REMEDY
from holdfast.define.registry import Registry
from holdfast.errors import Code, ExitCode, InvalidInput, Refused
from holdfast.operations.verbs import Plan, Verb, VerbRequest, VerbResult
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.jobs import Job
from holdfast.views.verbs import items_text

if TYPE_CHECKING:
    from holdfast.services import Services

_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Typed:
    """A verb as it was typed. Items become numbers when the job is known: an error then says how many there are."""

    request: VerbRequest
    items: tuple[str, ...] = ()
    output_file: Path | None = None
    params_file: Path | None = None
    correction: TypedCorrection | None = None

    @property
    def verb(self) -> Verb:
        return self.request.verb

    @property
    def flags(self) -> tuple[str, ...]:
        """What a command needs that the request does not know: a file with an output or params, and a correction."""
        files = (("--output", self.output_file), ("--params", self.params_file))
        flags = [f"{name} {shlex.quote(str(file))}" for name, file in files if file is not None]
        return (*flags, *(self.correction.flags if self.correction is not None else ()))


@dataclass(frozen=True, slots=True)
class How:
    """The flags that all verbs share."""

    target: Target
    as_json: bool = False
    only_plan: bool = False
    reason: str = ""
    handlers: Sequence[str] = ()
    yes: bool = False
    detach: bool = False
    wait: bool = False

    def __post_init__(self) -> None:
        if self.wait and self.detach:
            raise InvalidInput(
                "--wait and --detach exclude each other.",
                remedy="--wait follows the job to its end; --detach does not even wait for the answer.",
            )


def typed(
    verb: str,
    node: str | None = None,
    items: Sequence[str] = (),
    code: str | None = None,
    fingerprint: str | None = None,
    *,
    only: bool = False,
    plan_id: str | None = None,
    output: Path | None = None,
    tolerated: bool = False,
    params: Path | None = None,
    correction: TypedCorrection | None = None,
) -> Typed:
    """What was typed, checked as far as that is possible without the job."""
    known = Verb(verb)
    if not known.takes_node and (node is not None or items or code or fingerprint or only):
        raise InvalidInput(
            f"{verb} is about the whole job: it takes no node and nothing that chooses tasks.",
            remedy="Run a part of it again with: holdfast clear JOB NODE, or holdfast rerun JOB --from NODE",
        )
    if known.needs_node and node is None:
        name = "--from NODE" if known is Verb.RERUN else "NODE"
        raise InvalidInput(f"`{verb}` needs a node.", remedy=f"Name it: holdfast plan JOB {verb} {name}")
    if known is not Verb.CLEAR and (items or code or fingerprint):
        raise InvalidInput(
            f"{verb} is about the whole node: it takes no --item, --code or --fingerprint.",
            remedy="Run some of its tasks again with: holdfast clear JOB NODE --item N",
        )
    if known is Verb.UNDO and only:
        raise InvalidInput("undo takes no --only.", remedy="It undoes a node and what follows it: --from NODE")
    if known.is_by_hand and only:
        raise InvalidInput(f"{verb} takes no --only.", remedy="What follows the node is decided again; leave it out.")
    if (known is Verb.SET) != (output is not None):
        problem = "`set` needs an output." if output is None else f"{verb} takes no --output."
        raise InvalidInput(problem, remedy="Set the result of a node with: holdfast set JOB NODE --output FILE")
    if tolerated and known is not Verb.RESUME:
        raise InvalidInput(
            f"{verb} takes no --tolerated.",
            remedy="Run the failed items of a node again with: holdfast retry JOB NODE",
        )
    data = read_data(output, "output file") if output is not None else None
    given = _read_params(known, params) if params is not None else None
    request = VerbRequest(known, node, (), code, fingerprint, only, plan_id, data, tolerated, params=given)
    return Typed(request, tuple(items), output, params, correction)


def _read_params(verb: Verb, file: Path) -> dict[str, Any]:
    if verb is not Verb.CLEAR:
        raise InvalidInput(
            f"{verb} takes no --params.",
            remedy="Give other params to one task with: holdfast clear JOB NODE --item N --params FILE",
        )
    params = read_data(file, "params file")
    if not isinstance(params, dict):
        raise InvalidInput(f"The params file {file} must hold an object: a value for each name.")
    return params


def run_verb(job: str, asked: Typed, how: How) -> int:
    """Carry a verb out, or only show its plan."""
    settings = begin_on(job, how.target, handlers=how.handlers or None)
    registry = known_handlers(settings) if not how.only_plan and not asked.verb.is_steering else Registry()

    async def work() -> int:
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            if how.only_plan:
                plan = await _plan(client, job_id, asked)
                await show_plan(client, plan, asked.flags, how.handlers, as_json=how.as_json, target=how.target)
                return ExitCode.DONE
            return await _Verb(client, settings, job_id, asked, how, registry).run()

    return drive(work())


async def _plan(client: Client, job_id: str, asked: Typed) -> Plan:
    if asked.correction is not None:
        correction = await asked.correction.read(client, job_id)
        return await client.plan(job_id, replace(asked.request, correction=correction))
    wrong = next((text for text in asked.items if not _NUMBER.fullmatch(text)), None)
    if wrong is None:
        return await client.plan(job_id, replace(asked.request, items=tuple(map(int, asked.items))))
    # Other mistakes come first: that there is no such node, or that it was never reached.
    await client.plan(job_id, asked.request)
    wanted = asked.request.node
    job = await client.job(job_id, whole=False)
    node = next(one for one in job.nodes if wanted in (one.node, str(one.stage)))
    raise InvalidInput(
        f"'{wrong}' is not the number of an item. {items_text(node.node, node.width)}",
        remedy="Give one number: --item 0",
        instance=job_id,
    )


class _Verb:
    """One verb on its way to the owner of its job."""

    def __init__(
        self, client: Client, settings: Settings, job_id: str, asked: Typed, how: How, registry: Registry
    ) -> None:
        self._client = client
        self._settings = settings
        self._job_id = job_id
        self._asked = asked
        self._how = how
        self._registry = registry

    async def run(self) -> int:
        job = await self._client.job(self._job_id, whole=False)
        if await self._only_needs_a_driver(job):
            await refuse_unknown_handlers(job.definition, self._registry, self._client)
            doing = "is being undone" if job.is_undone else f"is {job.status}"
            say(f"Job {self._job_id} {doing}: driving it to its end from here.")
            code = await self._drive_to_the_end(None)
            return await self._undone_or(code) if job.is_undone else code
        plan = await _plan(self._client, self._job_id, self._asked)
        if plan.refusal is not None:
            raise plan.refusal
        self._refuse_stale(plan)
        is_confirmed = self._confirm(plan, job)
        if self._may_drive and not await self._client.is_served(self._job_id):
            await self._refuse_undrivable(plan, job)
        result = await self._client.carry_out(plan, reason=self._how.reason, exactly=is_confirmed, seconds=0)
        if not self._how.detach and await self._client.is_served(self._job_id):
            result = await self._client.settle(result)
        if not result.is_applied and self._may_drive and not await self._client.is_served(self._job_id):
            # No orchestrator was running, or it ended without an answer.
            if not plan.verb.is_steering:
                to_do = "to undo" if plan.undoes else "to run"
                say(f"No orchestrator is running: driving the job from here; {plan.work} {to_do}.")
                return await self._meaning(plan, await self._drive_to_the_end(result))
            result = await self._drive_until_answered(result)
        await self._show(plan, result)
        if not self._how.wait:
            return ExitCode.DONE
        # Until the owner has answered, a job that has ended still shows its old end.
        await self._client.settle(result, seconds=None)
        code = await follow_to_the_end(
            self._client, self._job_id, as_json=self._how.as_json, target=self._how.target, handlers=self._how.handlers
        )
        return await self._meaning(plan, code)

    @property
    def _may_drive(self) -> bool:
        """Whether the command would drive the job itself. Over a URL it cannot: the verb waits for an orchestrator."""
        return not self._how.detach and self._settings.url is None

    async def _meaning(self, plan: Plan, code: int) -> int:
        return await self._undone_or(code) if plan.undoes else code

    async def _undone_or(self, code: int) -> int:
        """A job that is undone is cancelled; the undo itself is done if nothing was left."""
        job = await self._client.job(self._job_id, whole=False)
        is_whole = job.error is not None and job.error.code == Code.UNDONE
        return ExitCode.DONE if is_whole else code

    async def _only_needs_a_driver(self, job: Job) -> bool:
        """A resume of an open job, or an undo of one that is being undone, that no orchestrator drives.

        If one does, the plan is refused.
        """
        request = self._asked.request
        goes_on = request.verb is Verb.RESUME or (request.verb is Verb.UNDO and job.is_undone and request.node is None)
        is_plain = goes_on and request.plan_id is None and self._asked.correction is None
        if not is_plain or not self._may_drive or job.is_terminal:
            return False
        return not await self._client.is_served(self._job_id)

    def _refuse_stale(self, plan: Plan) -> None:
        """A quick refusal; the owner compares again, and its answer counts."""
        if self._asked.request.plan_id in (None, plan.plan_id):
            return
        again = " ".join([plan.request.words(short(plan.job_id)), *self._asked.flags, "--plan"])
        raise Refused(
            f"Job {plan.job_id} was not changed: the job has changed since this plan was made.",
            remedy=f"Look at the plan again: {self._how.target.command(again)}",
            instance=plan.job_id,
        )

    def _confirm(self, plan: Plan, job: Job) -> bool:
        """Ask where the plan says so; True if a person has seen this very plan of tasks to run."""
        if self._how.yes or not (plan.asks or plan.verb is Verb.CANCEL):
            return False
        what, question = _question(plan, job, self._asked.output_file)
        if not sys.stdin.isatty():
            raise Refused(
                f"Job {plan.job_id} was not changed: {what}, and there is no terminal to ask on.",
                remedy="See what would be done with --plan. Confirm with --yes.",
                instance=plan.job_id,
            )
        if plan.verb is not Verb.CANCEL:
            show(plan_table(plan))
        if not confirmed(question):
            raise Refused(
                f"Not confirmed; job {plan.job_id} is unchanged.",
                remedy="See what would be done with: --plan",
                instance=plan.job_id,
            )
        return plan.verb is not Verb.CANCEL

    async def _refuse_undrivable(self, plan: Plan, job: Job) -> None:
        if job.unreadable is not None:
            raise Refused(
                f"Job {plan.job_id} was not changed by {plan.verb}: no orchestrator is running, and this version"
                f" cannot drive it. {job.unreadable}",
                remedy=UNREADABLE_REMEDY,
                instance=plan.job_id,
            )
        if not plan.verb.is_steering:
            correction = self._asked.correction
            definition = correction.definition if correction is not None and correction.definition else job.definition
            await refuse_unknown_handlers(definition, self._registry, self._client)

    def _services(self, finished: asyncio.Event) -> Services:
        # Imported late, here and below: an orchestrator that is running carries the verb out.
        from holdfast.assembly import new_services

        url, done = self._client.database_url, lambda ended: finished.set()
        return new_services(url, self._settings, only_job=self._job_id, on_finished=done)

    async def _drive_until_answered(self, result: VerbResult) -> VerbResult:
        """Be the owner until the verb is answered and, if it is a cancel, until the job has ended."""
        finished = asyncio.Event()
        if result.verb is Verb.CANCEL:
            say("No orchestrator is running: driving the job to its end from here.")
        async with self._services(finished):
            result = await self._client.settle(result, seconds=None)
            if result.verb is Verb.CANCEL:
                async for job in self._client.watch(self._job_id, whole=False, wake=finished):
                    result = replace(result, status=job.status)
        return result

    async def _drive_to_the_end(self, result: VerbResult | None) -> int:
        """Work on the job here until it has ended, as `run` does. A verb must be answered first, if there is one."""
        from holdfast.assembly import new_services

        finished = asyncio.Event()
        settings, how = self._settings, self._how
        try:
            async with self._services(finished):
                # A verb that is refused has started no work that would have to be awaited.
                if result is not None:
                    await self._client.settle(result, seconds=None)
                working = new_services(
                    self._client.database_url, settings, registry=self._registry, orchestrate=False, pulse=True
                )
                async with working:
                    await follow_served(self._client, self._job_id, working, finished, settings, as_json=how.as_json)
        except asyncio.CancelledError:
            again = how.target.command(naming(f"resume {short(self._job_id)}", how.handlers))
            raise Interrupted(f"Interrupted. Job {self._job_id} stays as it is. Continue it with: {again}") from None
        return await end_with(self._client, self._job_id, as_json=how.as_json, target=how.target, handlers=how.handlers)

    async def _show(self, plan: Plan, result: VerbResult) -> None:
        job = await self._client.job(self._job_id, whole=False)
        if self._how.wait:
            if not self._how.as_json:
                say(_sentences(plan, result, job)[0])
        elif self._how.as_json:
            answer_json(to_json(result))
        else:
            sentence, remark, next_command = _sentences(plan, result, job)
            answer(sentence)
            if remark:
                say(f"  → {remark}")
            if next_command:
                say(f"  → {self._how.target.command(next_command)}")
        if result.is_applied:
            return
        if not (self._how.as_json and plan.verb.is_steering) and not await self._client.is_served(self._job_id):
            how = start("up", handlers_of(job.definition), self._how.target)
            say(f"  → No orchestrator is running. Start one with: {how}")
        say_unreadable(job)


def _sentences(plan: Plan, result: VerbResult, job: Job) -> tuple[str, str, str]:
    """What the verb has done, a remark, and the next command; the last two may be empty."""
    job_id, watch = plan.job_id, f"watch {short(plan.job_id)}"
    if result.verb is Verb.CANCEL and not result.is_applied and job.is_stopping:
        sentence = f"Job {job_id} is stopping: its last tasks run, and have the grace period to finish."
        return sentence, "If they finish, the job completes, and the cancel was too late.", watch
    if not result.is_applied:
        return f"The {result.verb} of job {job_id} is recorded; its owner has not answered yet.", "", ""
    match result.verb:
        case Verb.CANCEL if job.is_terminal:
            return f"Job {job_id} is {job.status}.", "", ""
        case Verb.CANCEL:
            return f"Job {job_id} is being cancelled; running tasks may finish within the grace period.", "", watch
        case Verb.PAUSE:
            return f"Job {job_id} is paused; running tasks continue to their end.", "", f"unpause {short(job_id)}"
        case Verb.UNPAUSE:
            return f"Job {job_id} continues.", "", watch
        case _ if plan.undoes:
            return f"Job {job_id} is being undone: {plan.work} to undo, {result.reason}.", "", watch
        case _:
            return f"Job {job_id} continues: {plan.work} to run, {result.reason}.", "", watch


def _question(plan: Plan, job: Job, output: Path | None) -> tuple[str, str]:
    """What a person must confirm, as a clause and as a question."""
    node = plan.request.node
    match plan.verb:
        case Verb.CANCEL:
            question = f"Cancel job {plan.job_id} of {job.workflow_id}? What it has finished is kept"
            return "a cancel must be confirmed", question
        case Verb.SKIP if plan.undoes:
            what = f"what could not be undone of {node} would count as undone"
            return what, f"Are the effects of {node} dealt with, so that it counts as undone?"
        case Verb.SKIP:
            return f"{node} would be skipped", f"Skip {node}?"
        case Verb.UNDO:
            names = ", ".join(dict.fromkeys(step.node for step in plan.steps if step.confirm))
            return f"{plan.work} of {names} would be undone", f"Undo {plan.work} of {names}?"
        case Verb.SET:
            source = "stdin" if str(output) == "-" else str(output)
            what = f"the result of {node} would be set to the contents of {source}"
            return what, f"Set the result of {node} to the contents of {source}?"
        case _:
            redone = [step for step in plan.steps if step.confirm]
            nodes = ", ".join(step.node for step in redone)
            number = counted(sum(step.items or 0 for step in redone), "task")
            is_counted = all(step.items is not None for step in redone)
            what = f"{number} of {nodes} had completed" if is_counted else f"tasks of {nodes} had completed"
            return f"{what} and would run again", f"{what[0].upper()}{what[1:]}. Run them again?"
