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


class RecoveryVerb(StrEnum):
    RESUME = "resume"
    RETRY = "retry"
    CLEAR = "clear"
    RERUN = "rerun"
    SKIP = "skip"
    SET = "set"


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def cancel(
    job: JobName,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the job.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Only record it; do not wait for the answer.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Stop a job; what it has finished is kept."""
    from holdfast.cli.cancel import cancel_job

    return cancel_job(job, reason=reason, yes=yes, detach=detach, as_json=as_json, database_url=database_url)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def plan(
    job: JobName,
    verb: Annotated[
        RecoveryVerb,
        typer.Argument(metavar="resume|retry|clear|rerun|skip|set", help="What would be done. Default: resume."),
    ] = RecoveryVerb.RESUME,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="Node that the verb is about.")] = None,
    from_node: Annotated[str | None, typer.Option("--from", metavar="NODE", help="The same, for rerun.")] = None,
    item: Items = [],  # noqa: B006
    code: FailureCode = None,
    fingerprint: Fingerprint = None,
    only: Only = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what a verb would keep and what it would run again; change nothing."""
    from holdfast.cli.recover import asked, show_plan

    request = asked(verb, node or from_node, item, code, fingerprint, only=only)
    return show_plan(job, request, as_json=as_json, database_url=database_url)


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
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="JSON or YAML file with the node's output; - is stdin.")
    ],
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
    from holdfast.cli.given import read_data
    from holdfast.cli.recover import asked, recover_job

    given = read_data(output, "output file")
    return recover_job(
        job, asked("set", node, plan_id=plan_id, output=given), show=show, reason=reason,
        handlers=handlers, yes=yes, detach=detach, as_json=as_json, database_url=database_url,
    )  # fmt: skip


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def pause(
    job: JobName,
    reason: Reason = "",
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Let nothing new of a job begin; what runs goes on to its end."""
    from holdfast.cli.pause import pause_job

    return pause_job(job, is_paused=True, reason=reason, detach=detach, as_json=as_json, database_url=database_url)


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def unpause(
    job: JobName,
    reason: Reason = "",
    detach: Detach = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Let a paused job go on."""
    from holdfast.cli.pause import pause_job

    return pause_job(job, is_paused=False, reason=reason, detach=detach, as_json=as_json, database_url=database_url)
