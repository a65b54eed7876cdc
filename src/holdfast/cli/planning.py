"""How a plan is shown: node by node, in a sentence, and as the command that does exactly that."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.table import Table

from holdfast.cli.ending import with_handlers
from holdfast.cli.fleet import not_installed
from holdfast.cli.given import handlers_of
from holdfast.cli.session import command
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.streams import show as show_table
from holdfast.cli.words import counted, cut, short
from holdfast.core.plans import Action, Step
from holdfast.core.steering import Change, SteeringVerb
from holdfast.errors import Refused
from holdfast.store.reading import Reader
from holdfast.views.plans import AnyPlan, JobPlan, SteeringPlan


async def tell_plan(
    reader: Reader, plan: AnyPlan, *, flags: Sequence[str], handlers: Sequence[str], as_json: bool, url: str | None
) -> None:
    """Tell what would be done; `flags` and `handlers` were given, and what carries it out needs them, too."""
    if as_json:
        answer_json(plan.to_json(*flags, *(f"--handlers {shlex.quote(module)}" for module in handlers)))
        return
    show_table(plan_table(plan))
    answer(f"{_sentence(plan)} Plan {plan.plan_id}; nothing was changed.")
    text = plan.command(short(plan.job_id), *flags)
    if not isinstance(plan, JobPlan):
        say(f"  → Do exactly this with: {command(text, url)}")
        return
    definition = (await reader.snapshot(plan.job_id, whole=False)).definition
    say(f"  → Do exactly this with: {await with_handlers(reader, text, definition, url, handlers)}")
    missing = not_installed(handlers_of(definition))
    if missing and not handlers and not await reader.orchestrators(plan.job_id):
        told = f"that command runs the tasks itself. MODULE is the one that has {', '.join(missing)}."
        say(f"  → No orchestrator is alive: {told}")


def moved(plan: AnyPlan, url: str | None, *flags: str) -> Refused:
    """The plan that was named is no longer the one that would be carried out."""
    again = " ".join([plan.words(short(plan.job_id)), *flags, "--plan"])
    return Refused(
        f"Job {plan.job_id} was not changed: it has moved since the plan was made.",
        remedy=f"Look at the plan again: {command(again, url)}",
        instance=plan.job_id,
    )


def declined(job_id: str, what: str) -> Refused:
    """Asked, a person has said no."""
    remedy = "See what would be done with: --plan"
    return Refused(f"Job {job_id} was not {what}: you did not say yes.", remedy=remedy, instance=job_id)


def plan_table(plan: AnyPlan) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("node", "action"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("tasks", justify="right")
    table.add_column("why", overflow="fold")
    for step in plan.steps:
        style = None if step.action in (Action.KEEP, Change.KEEP) else "yellow"
        redone = isinstance(step, Step) and step.redone
        note = f"{step.reason}; it had completed" if redone else step.reason
        tasks = "?" if step.items is None else f"{step.items:,}" if step.items else ""
        table.add_row(cut(step.node, 40), str(step.action), tasks, note, style=style)
    return table


def _sentence(plan: AnyPlan) -> str:
    if isinstance(plan, JobPlan) and plan.evaluates_result:
        return "No task would run; the workflow's result would be evaluated again."
    if isinstance(plan, JobPlan):
        return f"{plan.work} would run."
    assert isinstance(plan, SteeringPlan)
    tasks = counted(plan.tasks, "task")
    running = counted(plan.plan.running, "task")
    match plan.plan.verb:
        case SteeringVerb.CANCEL:
            return f"{tasks} would be archived, and {running} that run would have the grace period to finish."
        case SteeringVerb.PAUSE:
            return f"{tasks} would be held back, and {running} that run would go on to their end."
        case SteeringVerb.UNPAUSE:
            return f"{tasks} that were held back would go on, beside {running} that run."
