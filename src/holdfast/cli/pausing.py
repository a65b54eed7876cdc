"""`holdfast pause` and `unpause` of many jobs, or of a queue: plan, confirm, do, and say what happened."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from holdfast.bootstrap import open_client
from holdfast.cli.asking import confirmed
from holdfast.cli.session import Target, begin, drive, has_database
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.verbs import How
from holdfast.cli.words import age, aligned, counted, cut
from holdfast.client import Client
from holdfast.errors import ExitCode, InvalidInput, NotFound, Refused
from holdfast.operations.verbs import ANSWER_SECONDS, Verb
from holdfast.views.encoding import to_json
from holdfast.views.gates import Pause, PausedQueue
from holdfast.views.pausing import JobsPlan, JobsResult, RefusedJob

SHOWN_JOBS = 10
_DONE = {Verb.PAUSE: "paused", Verb.UNPAUSE: "unpaused"}


def check_target(
    verb: str, job: str | None, workflow: str | None, queue: str | None, *, everything: bool, plan_id: str | None
) -> None:
    """Refuse unless exactly one thing is named: a job, a workflow, a queue, or all jobs."""
    named = [job is not None, workflow is not None, queue is not None, everything]
    if sum(named) != 1:
        problem = "needs a job" if not any(named) else "takes one of JOB, --workflow, --queue and --all"
        remedy = f"Name the job, or take the newest: holdfast {verb} --last"
        raise InvalidInput(f"`{verb}` {problem}.", remedy=f"{remedy}; or use --workflow ID, --queue QUEUE or --all")
    if plan_id is not None and job is None:
        raise InvalidInput("--plan-id is about one job.", remedy="Leave it out; --plan shows the jobs as they are now.")


def steer_jobs(verb: str, workflow_id: str | None, how: How) -> int:
    """Pause or unpause all jobs that have not ended, or those of one workflow."""
    settings = begin(how.target)
    _refuse_without_database(has_database(settings))

    async def work() -> int:
        async with open_client(settings) as client:
            plan = await client.plan_jobs(Verb(verb), workflow_id=workflow_id)
            if how.only_plan:
                _show_plan(plan, how)
                return ExitCode.DONE
            _confirm(plan, how)
            seconds = 0.0 if how.detach or not await client.is_served() else ANSWER_SECONDS
            result = await client.change_jobs(plan, reason=how.reason, seconds=seconds)
            _show_result(result, how)
            if result.pending and not await client.is_served():
                say(f"  → No orchestrator is running. Start one with: {how.target.command('up')}")
        return ExitCode.DONE

    return drive(work())


def steer_queue(verb: str, queue: str, how: How) -> int:
    """Let no task of a queue start, or let them start again."""
    settings = begin(how.target)
    _refuse_without_database(has_database(settings))

    async def work() -> int:
        async with open_client(settings) as client:
            if how.only_plan:
                await _show_queue_plan(client, Verb(verb), queue, how)
                return ExitCode.DONE
            if verb == Verb.PAUSE:
                changed = await client.pause_queue(queue, reason=how.reason)
            else:
                changed = await client.unpause_queue(queue)
            await _show_queue(client, Verb(verb), changed, how)
        return ExitCode.DONE

    return drive(work())


def pause_sentence(queue: str, pause: Pause) -> str:
    """`Queue maps is paused, by ann@laptop 4.0 s ago: CRM maintenance`"""
    because = f": {cut(pause.reason, 400)}" if pause.reason else ""
    return f"Queue {queue} is paused, by {pause.by} {age(pause.since)}{because}"


def unpause_command(queue: str, target: Target) -> str:
    return target.command(f"unpause --queue {shlex.quote(queue)}")


def _refuse_without_database(is_there: bool) -> None:
    if not is_there:
        raise NotFound(
            "There is no job and no queue: there is no database yet.",
            remedy="Make one with: holdfast run FILE, or: holdfast up",
        )


def _confirm(plan: JobsPlan, how: How) -> None:
    """Ask before more than one job is changed."""
    if how.yes or plan.jobs <= 1:
        return
    what = f"{counted(plan.jobs, 'job')} would be {_DONE[plan.verb]}"
    if not sys.stdin.isatty():
        raise Refused(
            f"No job was changed: {what}, and there is no terminal to ask on.",
            remedy="See which jobs with --plan. Confirm with --yes.",
        )
    for line in _by_workflow(plan):
        say(line)
    if not confirmed(f"{plan.verb.capitalize()} {counted(plan.jobs, 'job')}?"):
        raise Refused("Not confirmed; no job was changed.", remedy="See which jobs with: --plan")


def _show_plan(plan: JobsPlan, how: How) -> None:
    if how.as_json:
        answer_json(to_json(plan))
        return
    for line in _by_workflow(plan):
        answer(line)
    for job_id in plan.job_ids[:SHOWN_JOBS]:
        answer(f"  {job_id}")
    if plan.jobs > SHOWN_JOBS:
        answer(f"  … and {counted(plan.jobs - SHOWN_JOBS, 'more job')}")
    answer(f"{counted(plan.jobs, 'job')} would be {_DONE[plan.verb]}{_rest(plan)}; nothing was changed.")
    _say_refused(plan.refused)
    which = f"--workflow {plan.workflow_id}" if plan.workflow_id is not None else "--all"
    if plan.jobs:
        say(f"  → Do it with: {how.target.command(f'{plan.verb} {which} --yes')}")


def _by_workflow(plan: JobsPlan) -> list[str]:
    rows = [[workflow, counted(number, "job")] for workflow, number in plan.workflows.items()]
    return aligned([["workflow", "jobs"], *rows]) if rows else []


def _show_result(result: JobsResult, how: How) -> None:
    if how.as_json:
        answer_json(to_json(result))
        return
    answer(f"{counted(result.jobs, 'job')} {'is' if result.jobs == 1 else 'are'} {_DONE[result.verb]}{_rest(result)}.")
    if result.ended:
        say(f"{counted(result.ended, 'job')} ended before that.")
    if result.pending:
        say(
            f"The {result.verb} of {counted(len(result.pending), 'job')} is recorded; the owners have not answered yet."
        )
    _say_refused(result.refused)
    if result.verb is Verb.PAUSE and result.jobs:
        which = f"--workflow {result.workflow_id}" if result.workflow_id is not None else "--all"
        say("Running tasks continue to their end.")
        say(f"  → {how.target.command(f'unpause {which}')}")


def _rest(outcome: JobsPlan | JobsResult) -> str:
    already = "paused already" if outcome.verb is Verb.PAUSE else "not paused"
    return f", {outcome.already:,} {already}, {len(outcome.refused):,} refused"


def _say_refused(refused: Sequence[RefusedJob]) -> None:
    for one in refused[:SHOWN_JOBS]:
        say(f"Job {one.job_id} was not changed: {one.reason}.")
    if len(refused) > SHOWN_JOBS:
        say(f"{counted(len(refused) - SHOWN_JOBS, 'more job')} refused; --json lists all of them.")


async def _show_queue_plan(client: Client, verb: Verb, queue: str, how: How) -> None:
    known = {one.queue: one for one in await client.queues()}
    found = known.get(queue)
    waiting, running = (found.queued + found.held, found.running) if found is not None else (0, 0)
    pause = found.paused if found is not None else None
    if how.as_json:
        answer_json({"verb": verb} | to_json(PausedQueue(queue, pause, waiting, running)))
    elif (pause is None) == (verb is Verb.UNPAUSE):
        answer(f"Queue {queue} is not paused." if pause is None else f"{pause_sentence(queue, pause)}.")
    else:
        effect = "would wait" if verb is Verb.PAUSE else "could start"
        answer(f"{counted(waiting, 'task')} {effect}, beside {running:,} that run; nothing was changed.")
        say(f"  → Do it with: {how.target.command(f'{verb} --queue {queue}')}")


async def _show_queue(client: Client, verb: Verb, changed: PausedQueue, how: How) -> None:
    if how.as_json:
        answer_json({"verb": verb} | to_json(changed))
        return
    waiting = f"{counted(changed.waiting, 'task')} {'waits' if changed.waiting == 1 else 'wait'}"
    if verb is Verb.UNPAUSE:
        answer(f"Queue {changed.queue} is unpaused; {waiting} in it.")
        return
    answer(f"Queue {changed.queue} is paused; {waiting} in it, and {changed.running:,} that run continue to their end.")
    if not changed.waiting and not changed.running:
        queues = ", ".join(one.queue for one in await client.queues() if one.since is not None or one.running)
        say(f"No task is in the queue {changed.queue} now." + (f" Queues with tasks: {queues}" if queues else ""))
    say(f"  → {unpause_command(changed.queue, how.target)}")
