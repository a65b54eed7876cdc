"""The arguments and flags that commands share, and how their help looks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

RUN, LOOK, STEER, WRITE, INSTALL, APPS = (
    "Run workflows",
    "See what happens",
    "Change what happens",
    "Write workflows",
    "Look after the installation",
    "Apps",
)


MAX_NUMBER = 2_147_483_647
"""The largest count that fits into a row."""


class PlainCommand(TyperCommand):
    """The help shows arguments under the names of the documentation, without braces and Python's types."""

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
        for kind, entries in rows.items():
            if entries:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(entries)


class GroupedCommands(TyperGroup):
    """Lists the commands by purpose. Plain text: formatted help takes half a second to import."""

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


Json = Annotated[bool, typer.Option("--json", help="Answer as JSON; problems too, on stderr.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="Postgres to use, else HOLDFAST_DATABASE_URL, else our own."),
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="TENANT", help="Tenant whose jobs are meant, else HOLDFAST_TENANT, else default."),
]
UnusedDatabaseUrl = Annotated[str | None, typer.Option("--database-url", metavar="URL", hidden=True)]
Handlers = Annotated[
    list[str], typer.Option("--handlers", metavar="MODULE", help="Module with handlers; may be repeated.")
]
Input = Annotated[list[str], typer.Option("--input", metavar="NAME=VALUE", help="One input; may be repeated.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Node, or the number of its stage.")]
Items = Annotated[list[str], typer.Option("--item", metavar="N", help="Only this item; may be repeated.")]
FailureCode = Annotated[str | None, typer.Option("--code", metavar="CODE", help="Only tasks with this code.")]
Fingerprint = Annotated[
    str | None, typer.Option("--fingerprint", metavar="F", help="Only tasks that failed in this way.")
]
Only = Annotated[bool, typer.Option("--only", help="Leave what follows as it is, although it becomes stale.")]
ShowPlan = Annotated[bool, typer.Option("--plan", help="Show what would be done, and do nothing.")]
PlanId = Annotated[str | None, typer.Option("--plan-id", metavar="ID", help="Do exactly this plan, or nothing.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored with the job.")]
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
