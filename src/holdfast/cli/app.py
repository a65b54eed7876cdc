"""The words of the command line: commands, flags, and their help. What they do is imported when it is asked for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from holdfast.cli.problems import report
from holdfast.cli.streams import answer, survive_any_encoding
from holdfast.errors import ExitCode, InvalidInput
from holdfast.version import __version__

RUN, LOOK, STEER, WRITE, INSTALL, APPS = (
    "Run workflows",
    "See what happens",
    "Change what happens",
    "Write workflows",
    "Look after the installation",
    "Apps",
)


class PlainCommand(TyperCommand):
    """Arguments stand in the help under the names of the documentation, without braces and Python's types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        named = [(f"{a.metavar}{'' if a.nargs == 1 else '…'}", a.required) for a in arguments]
        return [*(name if required else f"[{name}]" for name, required in named), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                name = str(parameter.metavar) if is_argument else record[0]
                rows[parameter.param_type_name].append((name, record[1].removesuffix("  [required]")))
        for kind, found in rows.items():
            if found:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(found)


class GroupedCommands(TyperGroup):
    """Lists the commands by what one wants to do. Plain text: formatted help takes half a second to import."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel in (RUN, LOOK, STEER, WRITE, INSTALL, APPS):
            rows = [
                (name, command.get_short_help_str(limit=formatter.width - 16))
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == panel and not command.hidden
            ]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


app = typer.Typer(
    name="holdfast",
    cls=GroupedCommands,
    rich_markup_mode=None,
    help="Durable workflows on Postgres. After any failure it knows what survived and how to continue.",
    epilog="Begin with: holdfast init my-project",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class DrawingFormat(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


class BreakerVerb(StrEnum):
    OPEN = "open"
    CLOSE = "close"
    RESET = "reset"


class LimitVerb(StrEnum):
    SET = "set"
    DROP = "drop"


class RecoveryVerb(StrEnum):
    RESUME = "resume"
    RETRY = "retry"
    CLEAR = "clear"
    RERUN = "rerun"
    SKIP = "skip"
    SET = "set"


class FinishedStatus(StrEnum):
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


Json = Annotated[bool, typer.Option("--json", help="Answer as JSON; problems too, on stderr.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="Postgres to use, else HOLDFAST_DATABASE_URL, else our own."),
]
UnusedDatabaseUrl = Annotated[str | None, typer.Option("--database-url", metavar="URL", hidden=True)]
Handlers = Annotated[
    list[str], typer.Option("--handlers", metavar="MODULE", help="Module with handlers; may be repeated.")
]
Input = Annotated[list[str], typer.Option("--input", metavar="NAME=VALUE", help="One input; may be repeated.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Node, or the number of its stage.")]
Items = Annotated[list[int], typer.Option("--item", metavar="N", help="Only this item; may be repeated.")]
FailureCode = Annotated[str | None, typer.Option("--code", metavar="CODE", help="Only tasks with this code.")]
Fingerprint = Annotated[
    str | None, typer.Option("--fingerprint", metavar="F", help="Only tasks that failed in this way.")
]
Only = Annotated[bool, typer.Option("--only", help="Leave what follows as it is, although it is stale then.")]
ShowPlan = Annotated[bool, typer.Option("--plan", help="Show what would be done, and do nothing.")]
PlanId = Annotated[str | None, typer.Option("--plan-id", metavar="ID", help="Do exactly this plan, or nothing.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the job.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Detach = Annotated[bool, typer.Option("--detach", help="Only record it; do not wait for the answer.")]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE", help="JSON or YAML file with inputs; - is stdin.")
]
Queues = Annotated[
    list[str], typer.Option("--queue", metavar="QUEUE", help="Serve this queue only; may be repeated. Default: all.")
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", min=1, max=10_000, help="Tasks at a time. Default: 16.")
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="Job id, or its last 6 characters or more.")]
WorkflowFile = Annotated[Path, typer.Argument(metavar="FILE", help="Workflow file.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        answer(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def holdfast(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(cls=PlainCommand, rich_help_panel=RUN)
def run(
    file: WorkflowFile,
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    handlers: Handlers = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run a workflow file to its end, here, as a new job."""
    from holdfast.cli.run import run_file

    return run_file(
        file,
        assignments=input,
        inputs_file=inputs,
        handlers=handlers,
        concurrency=concurrency,
        as_json=as_json,
        database_url=database_url,
    )


@app.command(cls=PlainCommand, rich_help_panel=RUN)
def submit(
    workflow: Annotated[
        str, typer.Argument(metavar="FILE|WORKFLOW", help="Workflow file, or the id of a known workflow.")
    ],
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Name of this submission; the same key is the same job.")
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", min=-1000, max=1000, help="Tasks of higher ones are taken first.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; the exit code tells how it ended.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="If the same submission has failed before, go on where it stopped.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make a new job although the same submission has made one; that one stays.")
    ] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Hand a job in; the same submission twice is one job."""
    from holdfast.cli.submit import submit_job

    return submit_job(
        workflow,
        assignments=input,
        inputs_file=inputs,
        key=key,
        priority=priority,
        wait=wait,
        resume=resume,
        force=force,
        as_json=as_json,
        database_url=database_url,
    )


@app.command(cls=PlainCommand, rich_help_panel=RUN)
def up(
    handlers: Handlers = [],  # noqa: B006
    queue: Queues = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Serve jobs until stopped: orchestrator and worker in one process."""
    from holdfast.cli.serve import serve

    return serve(
        "up", handlers=handlers, queues=queue, concurrency=concurrency, as_json=as_json, database_url=database_url
    )


@app.command(cls=PlainCommand, rich_help_panel=RUN)
def worker(
    handlers: Handlers = [],  # noqa: B006
    queue: Queues = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run tasks until stopped; takes only tasks whose handler it has."""
    from holdfast.cli.serve import serve

    return serve(
        "worker", handlers=handlers, queues=queue, concurrency=concurrency, as_json=as_json, database_url=database_url
    )


@app.command(cls=PlainCommand, rich_help_panel=RUN)
def orchestrator(as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Decide what runs next until stopped; runs no tasks itself."""
    from holdfast.cli.serve import serve

    return serve("orchestrator", handlers=[], queues=[], concurrency=None, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=LOOK)
def status(
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="Job id, or its last 6 characters or more. Default: list.")
    ] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show one job, or list the newest ones."""
    from holdfast.cli.show import show_status

    return show_status(job, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=LOOK)
def watch(job: JobName, as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Follow a job to its end; the exit code tells how it ended."""
    from holdfast.cli.show import watch_job

    return watch_job(job, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=LOOK)
def events(
    job: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Only events after this number.")] = 0,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only events of this node.")] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show everything that happened to a job, in order."""
    from holdfast.cli.show import show_events

    return show_events(job, follow=follow, after=after, node=node, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=LOOK)
def why(job: JobName, as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Say why a job is not finished, or why it ended as it did, and what helps."""
    from holdfast.cli.why import explain

    return explain(job, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=LOOK)
def logs(
    job: JobName,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only attempts of this node.")] = None,
    item: Annotated[int | None, typer.Option("--item", metavar="N", min=0, help="Only this item of a fan-out.")] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what handlers printed and how attempts failed, attempt by attempt."""
    from holdfast.cli.show import show_logs

    return show_logs(job, node=node, item=item, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=LOOK)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command("set", cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
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


@app.command(cls=PlainCommand, rich_help_panel=STEER)
def breakers(
    verb: Annotated[
        BreakerVerb | None,
        typer.Argument(
            metavar="open|close|reset", help="Hold it open, close it, or forget its failures. Default: list."
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Breaker to change.")] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the breaker.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show which dependencies are held to be down; open and close breakers by hand."""
    from holdfast.cli.breakers import change_breaker, list_breakers

    if verb is None:
        return list_breakers(as_json=as_json, database_url=database_url)
    return change_breaker(verb.value, name, reason=reason, yes=yes, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=STEER)
def limits(
    verb: Annotated[
        LimitVerb | None,
        typer.Argument(metavar="set|drop", help="Set a limit, or take it away. Default: list."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="queue:QUEUE, tenant, or as listed: node:WORKFLOW.NODE, key:KEY."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", min=1, help="Tasks that may run at once.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N/SECONDS", help="Tasks that may begin in so many seconds.")
    ] = None,
    backlog: Annotated[
        int | None, typer.Option("--backlog", metavar="N", min=1, help="Jobs of a tenant that may be open.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="Whose limit; default is the tenant default.")
    ] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show how many tasks may run, and what waits for that; set limits by hand."""
    from holdfast.cli.limits import drop_limit, list_limits, set_limit

    if verb is None:
        return list_limits(as_json=as_json, database_url=database_url)
    if verb is LimitVerb.DROP:
        return drop_limit(name, tenant=tenant, as_json=as_json, database_url=database_url)
    return set_limit(
        name,
        tenant=tenant,
        concurrency=concurrency,
        rate=rate,
        backlog=backlog,
        as_json=as_json,
        database_url=database_url,
    )


@app.command(cls=PlainCommand, rich_help_panel=WRITE)
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to make or to fill.")],
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Write a small project to begin with."""
    from holdfast.cli.starting import write_project

    return write_project(directory, as_json=as_json)


@app.command(cls=PlainCommand, rich_help_panel=WRITE)
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Workflow files.")],
    handlers: Handlers = [],  # noqa: B006
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Check workflow files; with --handlers an unknown handler is an error too."""
    from holdfast.cli.files import validate_files

    return validate_files(files, handlers=handlers, as_json=as_json)


@app.command(cls=PlainCommand, rich_help_panel=WRITE)
def graph(
    file: WorkflowFile,
    format: Annotated[
        DrawingFormat, typer.Option("--format", metavar="FORMAT", help="text, mermaid or svg.")
    ] = DrawingFormat.TEXT,
    handlers: Handlers = [],  # noqa: B006
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Draw a workflow file."""
    from holdfast.cli.files import draw_file

    return draw_file(file, drawing=format.value, handlers=handlers, as_json=as_json)


@app.command(cls=PlainCommand, rich_help_panel=WRITE)
def schema(as_json: Json = False, database_url: UnusedDatabaseUrl = None) -> int:
    """Print the JSON Schema of workflow files, for editors."""
    from holdfast.cli.files import print_schema

    return print_schema(as_json=as_json)


@app.command(cls=PlainCommand, rich_help_panel=INSTALL)
def doctor(as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Check the installation and say what to do about what is wrong."""
    from holdfast.cli.doctor import examine

    return examine(as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=INSTALL)
def janitor(
    once: Annotated[bool, typer.Option("--once", help="Look at everything now and have it repaired.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at everything now and change nothing.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what was found wrong and repaired; look now with --once."""
    from holdfast.cli.janitor import tidy

    return tidy(once=once, dry_run=dry_run, as_json=as_json, database_url=database_url)


@app.command(cls=PlainCommand, rich_help_panel=INSTALL)
def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Jobs that finished so long ago: 90s, 12h, 30d, 4w.")
    ] = "30d",
    status: Annotated[
        list[FinishedStatus],
        typer.Option("--status", metavar="STATUS", help="Only jobs that ended so; may be repeated. Default: all."),
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Delete finished jobs that are old, with their payloads."""
    from holdfast.cli.prune import prune_jobs

    return prune_jobs(
        older_than,
        [one.value for one in status],
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
        database_url=database_url,
    )


@app.command(cls=PlainCommand, rich_help_panel=INSTALL)
def migrate(
    ddl: Annotated[bool, typer.Option("--ddl", help="Print the statements; touch no database.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Bring the database's schema up to date."""
    from holdfast.cli.schema import apply_migrations, print_ddl

    return print_ddl(as_json=as_json) if ddl else apply_migrations(as_json=as_json, database_url=database_url)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    survive_any_encoding()
    code = execute(given)
    # A handler that ignores its end would keep the interpreter waiting for its thread.
    if any(thread.name.startswith("holdfast-handler") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def execute(arguments: list[str]) -> int:
    """Run one command; whatever it raises is told on stderr and becomes an exit code."""
    try:
        for argument in arguments:
            _refuse_broken_text(argument)
        add_apps(arguments)
        returned: Any = app(arguments or ["--help"], prog_name="holdfast", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return report(error, as_json="--json" in arguments)
    return returned if isinstance(returned, int) else ExitCode.DONE


def add_apps(arguments: list[str]) -> None:
    """Sub-commands of installed apps; looked for only when the command may be one of them."""
    own = {
        command.name or (command.callback.__name__ if command.callback else "") for command in app.registered_commands
    }
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    if wanted in own:
        return
    from holdfast.cli.apps import Unavailable, installed_apps

    known = own | {group.name for group in app.registered_groups}
    for name, found in installed_apps(wanted):
        if name in known:
            continue
        if isinstance(found, Unavailable):
            options = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
            command = app.command(name, help=found.help, rich_help_panel=APPS, context_settings=options)
            command(found.tell)
        else:
            app.add_typer(found, name=name, rich_help_panel=APPS)


def _refuse_broken_text(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError:
        shown = argument.encode("utf-8", "replace").decode()
        raise InvalidInput(f"The argument '{shown}' is not valid UTF-8.") from None
