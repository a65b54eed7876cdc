"""The verbs: the commands that stop a job, hold it, or run a part of it again, and the plan of each.

One table: every verb has the same shared flags, and some of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import (
    LOOK,
    STEER,
    DatabaseUrl,
    Detach,
    FailureCode,
    Fingerprint,
    Handlers,
    Items,
    JobName,
    Json,
    NodeName,
    Only,
    PlainCommand,
    PlanId,
    Reason,
    ShowPlan,
    Tenant,
    Wait,
    Yes,
)

commands = typer.Typer()

REQUIRED = inspect.Parameter.empty
FromNode = Annotated[str, typer.Option("--from", metavar="NODE", help="Node or stage number to begin with.")]
AskedJob = Annotated[
    str | None, typer.Argument(metavar="JOB", show_default=False, help="Job id, or its last 6 characters or more.")
]
OfWorkflow = Annotated[
    str | None, typer.Option("--workflow", metavar="ID", help="All jobs of a workflow that have not ended.")
]
OfQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="QUEUE", help="The queue: whether its tasks start, of all jobs and tenants."),
]
Everything = Annotated[bool, typer.Option("--all", help="All jobs that have not ended.")]
YesForMany = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than one job is changed.")]
Output = Annotated[
    Path, typer.Option("--output", metavar="FILE", help="JSON or YAML file with the node's output; - is stdin.")
]
Tolerated = Annotated[
    bool,
    typer.Option("--tolerated", help="Run tolerated failures of completed nodes again, too."),
]
Params = Annotated[
    Path | None,
    typer.Option("--params", metavar="FILE", help="Give this one task other params: a JSON or YAML file; - is stdin."),
]
CorrectedFile = Annotated[
    Path | None,
    typer.Option("--workflow", metavar="FILE", help="Follow this corrected workflow file from now on."),
]
CorrectedInput = Annotated[
    list[str], typer.Option("--input", metavar="NAME=VALUE", help="Correct an input; may be repeated.")
]
CorrectedInputs = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE", help="JSON or YAML file with inputs to correct; - is stdin."),
]
StaleWork = StrEnum("StaleWork", {"KEEP": "keep", "RERUN": "rerun"})
OfStale = Annotated[
    StaleWork | None,
    typer.Option(
        "--stale",
        metavar="keep|rerun",
        help="Completed work that a correction concerns: keep its results, or run it again.",
    ),
]
UndoneFrom = Annotated[
    str | None, typer.Option("--from", metavar="NODE", help="Undo only this node, and what follows it.")
]
ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "job": (JobName, REQUIRED),
    "node": (NodeName, REQUIRED),
    "from_node": (FromNode, REQUIRED),
    "undone_from": (UndoneFrom, None),
    "output": (Output, REQUIRED),
    "item": (Items, []),
    "code": (FailureCode, None),
    "fingerprint": (Fingerprint, None),
    "only": (Only, False),
    "tolerated": (Tolerated, False),
    "params": (Params, None),
    "corrected_input": (CorrectedInput, []),
    "corrected_inputs": (CorrectedInputs, None),
    "corrected_file": (CorrectedFile, None),
    "stale": (OfStale, None),
    "show": (ShowPlan, False),
    "plan_id": (PlanId, None),
    "reason": (Reason, ""),
    "handlers": (Handlers, []),
    "yes": (Yes, False),
    "yes_for_many": (YesForMany, False),
    "asked_job": (AskedJob, None),
    "workflow": (OfWorkflow, None),
    "queue": (OfQueue, None),
    "everything": (Everything, False),
    "wait": (Wait, False),
    "detach": (Detach, False),
    "as_json": (Json, False),
    "tenant": (Tenant, None),
    "database_url": (DatabaseUrl, None),
}
"""All arguments and flags with their defaults."""
SAME_NAME = {"asked_job": "job", "yes_for_many": "yes", "undone_from": "from_node"}
"""Those that are the same to a verb, and have another help or default."""
SHARED = ("detach", "as_json", "tenant", "database_url")
STEERING = ("job", "show", "plan_id", "reason")
CORRECTION = ("corrected_input", "corrected_inputs", "corrected_file", "stale")
PAUSING = ("asked_job", "workflow", "queue", "everything", "show", "plan_id", "reason", "yes_for_many", *SHARED)
RECOVERY = ("show", "plan_id", "reason", "handlers", "yes", "wait", *SHARED)
VERBS: dict[str, tuple[tuple[str, ...], str]] = {
    "cancel": ((*STEERING, "yes", *SHARED), "Stop a job; what it has finished is kept."),
    "resume": (
        ("job", "tolerated", *CORRECTION, *RECOVERY),
        "Continue a job that did not complete, or one that you correct. What completed stays.",
    ),
    "retry": (
        ("job", "node", "only", *CORRECTION, *RECOVERY),
        "Run a failed stage again, and what follows it. Give its name or its number.",
    ),
    "retry-stage": (("job", "node", "only", *CORRECTION, *RECOVERY), "The same as retry: run a failed stage again."),
    "clear": (
        ("job", "node", "item", "code", "fingerprint", "params", "only", *RECOVERY),
        "Run some tasks of a node again, and what depends on them. This works also while the job runs.",
    ),
    "rerun": (
        ("job", "from_node", "only", *CORRECTION, *RECOVERY),
        "Run a node and everything after it again, however it ended.",
    ),
    "skip": (
        ("job", "node", *RECOVERY),
        "Continue a job without a node; it ends partial. Of a fan-out, what has completed stays.",
    ),
    "set": (("job", "node", "output", *RECOVERY), "Set a node's result by hand; the history names who did it."),
    "undo": (
        ("job", "undone_from", *RECOVERY),
        "Undo what a job has completed, from its end to its beginning.",
    ),
    "pause": (PAUSING, "Start no more tasks of a job, of many jobs or of a queue."),
    "unpause": (PAUSING, "Let a paused job, many jobs or a queue continue."),
}
"""Each verb with its arguments in the order of its help, and what it does."""
PlannedVerb = StrEnum("PlannedVerb", {name.upper().replace("-", "_"): name for name in VERBS})  # type: ignore[misc]
RESUME = PlannedVerb("resume")
LISTED = "|".join(name for name in VERBS if name != "retry-stage")


def _command(name: str, arguments: tuple[str, ...]) -> Callable[..., int]:
    """A function with the signature that typer reads the options from."""

    def run(**values: Any) -> int:
        return _run(name, values)

    named = {SAME_NAME.get(one, one): ARGUMENTS[one] for one in arguments}
    parameters = [
        inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for one, (annotation, default) in named.items()
    ]
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {one: annotation for one, (annotation, _) in named.items()}
    return run


def _run(name: str, values: dict[str, Any]) -> int:
    from holdfast.cli.correcting import typed_correction
    from holdfast.cli.pausing import check_target, steer_jobs, steer_queue
    from holdfast.cli.session import Target
    from holdfast.cli.verbs import How, run_verb, typed
    from holdfast.operations.verbs import Verb

    how = How(
        Target(values["database_url"], values["tenant"]),
        as_json=values["as_json"],
        only_plan=values["show"],
        reason=values.get("reason", ""),
        handlers=values.get("handlers", ()),
        yes=values.get("yes", False),
        detach=values.get("detach", False),
        wait=values.get("wait", False),
    )
    if "everything" in values:
        workflow, queue, everything = values["workflow"], values["queue"], values["everything"]
        check_target(name, values["job"], workflow, queue, everything=everything, plan_id=values["plan_id"])
        if queue is not None:
            return steer_queue(name, queue, how)
        if values["job"] is None:
            return steer_jobs(name, workflow, how)
    verb = "retry" if name == "retry-stage" else name
    correction = typed_correction(
        Verb(verb),
        values.get("corrected_input", ()),
        values.get("corrected_inputs"),
        values.get("corrected_file"),
        values.get("stale"),
    )
    asked = typed(
        verb,
        values.get("node") or values.get("from_node"),
        values.get("item", ()),
        values.get("code"),
        values.get("fingerprint"),
        only=values.get("only", False),
        plan_id=values.get("plan_id"),
        output=values.get("output"),
        tolerated=values.get("tolerated", False),
        params=values.get("params"),
        correction=correction,
    )
    return run_verb(values["job"], asked, how)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def plan(
    job: JobName,
    verb: Annotated[PlannedVerb, typer.Argument(metavar=LISTED, help="What would be done. Default: resume.")] = RESUME,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="Node that the verb is about.")] = None,
    from_node: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="The same, for rerun and undo.")
    ] = None,
    item: Items = [],  # noqa: B006
    code: FailureCode = None,
    fingerprint: Fingerprint = None,
    only: Only = False,
    tolerated: Tolerated = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="For set: the node's output.")] = None,
    params: Params = None,
    corrected_input: CorrectedInput = [],  # noqa: B006
    corrected_inputs: CorrectedInputs = None,
    corrected_file: CorrectedFile = None,
    stale: OfStale = None,
    handlers: Handlers = [],  # noqa: B006
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what a verb would keep and run again, and change nothing."""
    values = dict(locals())
    return _run(values.pop("verb").value, values | {"show": True})


for _name, (_arguments, _help) in VERBS.items():
    commands.command(_name, cls=PlainCommand, rich_help_panel=STEER, help=_help)(_command(_name, _arguments))
