"""The verbs: the commands that stop a job, hold it, or have a part of it run again, and the plan of each."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.grammar import (
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
    Yes,
)

commands = typer.Typer()


class PlannedVerb(StrEnum):
    RESUME = "resume"
    RETRY = "retry"
    RETRY_STAGE = "retry-stage"
    CLEAR = "clear"
    RERUN = "rerun"
    SKIP = "skip"
    SET = "set"
    CANCEL = "cancel"
    PAUSE = "pause"
    UNPAUSE = "unpause"


VERBS = "|".join(verb for verb in PlannedVerb if verb is not PlannedVerb.RETRY_STAGE)
UnusedYes = Annotated[bool, typer.Option("--yes", "-y", help="Every verb takes it; this one asks nothing.")]
Output = Annotated[
    Path, typer.Option("--output", metavar="FILE", help="JSON or YAML file with the node's output; - is stdin.")
]


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def cancel(
    job: JobName,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Stop a job; what it has finished is kept."""
    if show:
        return _show_steering(job, "cancel", as_json=as_json, database_url=database_url)
    from holdfast.cli.cancel import cancel_job

    return cancel_job(
        job, plan_id=plan_id, reason=reason, yes=yes, detach=detach, as_json=as_json, database_url=database_url
    )


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def plan(
    job: JobName,
    verb: Annotated[
        PlannedVerb, typer.Argument(metavar=VERBS, help="What would be done. Default: resume.")
    ] = PlannedVerb.RESUME,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="Node that the verb is about.")] = None,
    from_node: Annotated[str | None, typer.Option("--from", metavar="NODE", help="The same, for rerun.")] = None,
    item: Items = [],  # noqa: B006
    code: FailureCode = None,
    fingerprint: Fingerprint = None,
    only: Only = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="For set: the node's output.")] = None,
    handlers: Handlers = [],  # noqa: B006
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what a verb would keep and what it would run again; change nothing."""
    from holdfast.cli.recover import asked, refuse_parts, show_plan

    named = node or from_node
    if verb in (PlannedVerb.CANCEL, PlannedVerb.PAUSE, PlannedVerb.UNPAUSE):
        refuse_parts(verb, named, item, code, fingerprint, only=only)
        return _show_steering(job, verb, as_json=as_json, database_url=database_url)
    known = PlannedVerb.RETRY if verb is PlannedVerb.RETRY_STAGE else verb
    typed = asked(known, named, item, code, fingerprint, only=only, output=output)
    return show_plan(job, typed, handlers=handlers, as_json=as_json, database_url=database_url)


def _show_steering(job: str, verb: str, *, as_json: bool, database_url: str | None) -> int:
    from holdfast.cli.pause import show_steering
    from holdfast.core.steering import SteeringVerb

    return show_steering(job, SteeringVerb(verb), as_json=as_json, database_url=database_url)


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def resume(
    job: JobName,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    handlers: Handlers = [],  # noqa: B006
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Continue a job that failed, is partial or was cancelled; what completed stays."""
    from holdfast.cli.recover import asked, recover_job

    return recover_job(
        job, asked("resume", plan_id=plan_id), show=show, reason=reason, handlers=handlers, yes=yes, detach=detach,
        as_json=as_json, database_url=database_url,
    )  # fmt: skip


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def retry(
    job: JobName,
    node: NodeName,
    only: Only = False,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    handlers: Handlers = [],  # noqa: B006
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run a failed stage again, by its name or number, and what follows it."""
    from holdfast.cli.recover import asked, recover_job

    return recover_job(
        job, asked("retry", node, only=only, plan_id=plan_id), show=show, reason=reason, handlers=handlers, yes=yes,
        detach=detach, as_json=as_json, database_url=database_url,
    )  # fmt: skip


commands.command(
    "retry-stage", cls=PlainCommand, rich_help_panel=STEER, help="The same as retry: run a failed stage again."
)(retry)


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def clear(
    job: JobName,
    node: NodeName,
    item: Items = [],  # noqa: B006
    code: FailureCode = None,
    fingerprint: Fingerprint = None,
    only: Only = False,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    handlers: Handlers = [],  # noqa: B006
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run some tasks of a node again, and what depends on them; also while the job runs."""
    from holdfast.cli.recover import asked, recover_job

    return recover_job(
        job, asked("clear", node, item, code, fingerprint, only=only, plan_id=plan_id), show=show, reason=reason,
        handlers=handlers, yes=yes, detach=detach, as_json=as_json, database_url=database_url,
    )  # fmt: skip


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def rerun(
    job: JobName,
    from_node: Annotated[str, typer.Option("--from", metavar="NODE", help="Node or stage number to begin with.")],
    only: Only = False,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    handlers: Handlers = [],  # noqa: B006
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run a node and everything after it again, whatever became of it."""
    from holdfast.cli.recover import asked, recover_job

    return recover_job(
        job, asked("rerun", from_node, only=only, plan_id=plan_id), show=show, reason=reason, handlers=handlers,
        yes=yes, detach=detach, as_json=as_json, database_url=database_url,
    )  # fmt: skip


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def skip(
    job: JobName,
    node: NodeName,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    handlers: Handlers = [],  # noqa: B006
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Let a job go on without a node, or without what a fan-out has not completed; it ends partial."""
    from holdfast.cli.recover import asked, recover_job

    return recover_job(
        job, asked("skip", node, plan_id=plan_id), show=show, reason=reason, handlers=handlers, yes=yes, detach=detach,
        as_json=as_json, database_url=database_url,
    )  # fmt: skip


@commands.command("set", cls=PlainCommand, rich_help_panel=STEER)
def set_result(
    job: JobName,
    node: NodeName,
    output: Output,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    handlers: Handlers = [],  # noqa: B006
    yes: Yes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Give a node's result by hand; it is kept with who gave it."""
    from holdfast.cli.recover import asked, recover_job

    return recover_job(
        job, asked("set", node, plan_id=plan_id, output=output), show=show, reason=reason,
        handlers=handlers, yes=yes, detach=detach, as_json=as_json, database_url=database_url,
    )  # fmt: skip


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def pause(
    job: JobName,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    yes: UnusedYes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Let nothing new of a job begin; what runs goes on to its end."""
    if show:
        return _show_steering(job, "pause", as_json=as_json, database_url=database_url)
    from holdfast.cli.pause import pause_job
    from holdfast.core.steering import SteeringVerb

    return pause_job(
        job, SteeringVerb.PAUSE, plan_id=plan_id, reason=reason, detach=detach, as_json=as_json,
        database_url=database_url,
    )  # fmt: skip


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def unpause(
    job: JobName,
    show: ShowPlan = False,
    plan_id: PlanId = None,
    reason: Reason = "",
    yes: UnusedYes = False,
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Let a paused job go on."""
    if show:
        return _show_steering(job, "unpause", as_json=as_json, database_url=database_url)
    from holdfast.cli.pause import pause_job
    from holdfast.core.steering import SteeringVerb

    return pause_job(
        job, SteeringVerb.UNPAUSE, plan_id=plan_id, reason=reason, detach=detach, as_json=as_json,
        database_url=database_url,
    )  # fmt: skip
