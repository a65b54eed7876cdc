"""How a plan is shown: node by node, in a sentence, and as the command that does exactly that."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.table import Table

from holdfast.cli.ending import with_handlers
from holdfast.cli.fleet import handlers_of, not_installed
from holdfast.cli.session import Target
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut, short
from holdfast.client import Client
from holdfast.operations.verbs import Plan, Verb
from holdfast.views.encoding import to_json


async def show_plan(
    client: Client, plan: Plan, flags: Sequence[str], handlers: Sequence[str], *, as_json: bool, target: Target
) -> None:
    """Show what would be done. The command that does it needs the same `flags` and `handlers`.

    A plan with a blocked step is shown and then refused.
    """
    if as_json:
        modules = (f"--handlers {shlex.quote(module)}" for module in handlers)
        answer_json(to_json(plan.with_flags(*flags, *modules)))
    else:
        if plan.corrected:
            answer(f"Corrected: {'; '.join(plan.corrected)}")
        show(plan_table(plan))
    if plan.refusal is not None:
        raise plan.refusal
    if as_json:
        return
    answer(f"{_sentence(plan)} Plan {plan.plan_id}; nothing was changed.")
    text = plan.words(short(plan.job_id), *flags)
    if plan.verb.is_steering:
        say(f"  → Do exactly this with: {target.command(text)}")
        return
    definition = (await client.job(plan.job_id, whole=False)).definition
    say(f"  → Do exactly this with: {await with_handlers(client, text, definition, target, handlers)}")
    missing = not_installed(handlers_of(definition))
    if missing and not handlers and not await client.is_served(plan.job_id):
        modules_note = f"that command runs the tasks itself. MODULE is the one that has {', '.join(missing)}."
        say(f"  → No orchestrator is running: {modules_note}")


def plan_table(plan: Plan) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("node", "action"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("tasks", justify="right")
    table.add_column("why", overflow="fold")
    for step in plan.steps:
        note = f"{step.reason}; it had completed" if step.redone else step.reason
        style = None if step.is_kept else "yellow"
        if step.blocked is not None:
            note, style = f"blocked: {step.blocked}", "red"
        is_unknown = step.items is None and not step.is_kept and step.action != "gone"
        tasks = "?" if is_unknown else f"{step.items:,}" if step.items else ""
        table.add_row(cut(step.node, 40), step.action, tasks, note, style=style)
    return table


def _sentence(plan: Plan) -> str:
    tasks, running = counted(plan.tasks, "task"), counted(plan.running, "task")
    match plan.verb:
        case Verb.CANCEL:
            return f"{tasks} would be archived, and {running} that run would have the grace period to finish."
        case Verb.PAUSE:
            return f"{tasks} would be held back, and {running} that run would continue to their end."
        case Verb.UNPAUSE:
            return f"{tasks} that were held back would continue, beside {running} that run."
        case Verb.UNDO:
            return f"{plan.work} would be undone, in this order."
        case Verb.SKIP if plan.undoes:
            return f"{plan.request.node} would count as undone, and {plan.work} would be undone, in this order."
        case _ if plan.evaluates_result:
            return "No task would run; the workflow's result would be evaluated again."
        case _:
            return f"{plan.work} would run."
