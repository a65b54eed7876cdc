"""The arguments and flags that commands share, and how their help looks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from holdfast.cli.examples import examples_of
from holdfast.errors import InvalidInput
from holdfast.service_address import checked_url, is_service_url

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
WIDEST_HELP = 120
"""Columns; longer lines are hard to read, however wide the terminal is."""
LAST = "last"
"""What stands for the newest job in the place of an id."""
DATABASE = "database_url"
"""The parameter of --database-url."""
ASKED = "_HOLDFAST_COMPLETE"
"""The variable by which a shell asks which words may follow, under the name that typer gives it."""


_with_last = typer.Typer(add_completion=False)


@_with_last.command()
def _newest(last: Annotated[bool, typer.Option("--last", help="The newest job, instead of JOB.")] = False) -> None:
    """The flag that every command with JOB has."""


_with_url = typer.Typer(add_completion=False)


@_with_url.command()
def _served(
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="HTTP service to use, else HOLDFAST_URL. Needs HOLDFAST_API_KEY."),
    ] = None,
) -> None:
    """The flag that every command with --database-url has."""


def write_examples(command: Any, ctx: Any, formatter: Any) -> None:
    """The examples of a command, one on each line however long: they are there to be copied."""
    lines = examples_of(ctx.command_path.partition(" ")[2], command.epilog)
    if lines:
        with formatter.section("Example" if len(lines) == 1 else "Examples"):
            formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in lines))


def _one_address(database_url: str | None, url: str | None) -> str | None:
    if database_url is not None and url is not None:
        raise InvalidInput(
            "--url and --database-url exclude each other.",
            remedy="Name the HTTP service with --url, or the database itself with --database-url.",
        )
    if database_url is not None and is_service_url(database_url):
        raise InvalidInput("--database-url names an HTTP service.", remedy=f"Name it with: --url {database_url}")
    return checked_url(url) if url is not None else database_url


def write_commands(title: str, commands: list[tuple[str, Any]], formatter: Any) -> None:
    """The commands with their first sentences, which are never cut."""
    if commands:
        with formatter.section(title):
            formatter.write_dl([(name, one.get_short_help_str(limit=MAX_NUMBER)) for name, one in commands])


class PlainCommand(TyperCommand):
    """The help shows arguments under the names of the documentation, without braces and Python's types.

    It ends with examples. A command that takes JOB also takes --last in its place, and one that takes --database-url
    also takes --url.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self._takes_job:
            flag: Any = get_command(_with_last).params[0]
            # The words are exchanged before they are parsed: the function of the command gets JOB alone.
            flag.expose_value = False
            self.params.insert(sum(one.param_type_name == "argument" for one in self.params), flag)
        names = [one.name for one in self.params]
        if DATABASE in names:
            place = names.index(DATABASE)
            served: Any = get_command(_with_url).params[0]
            served.hidden = getattr(self.params[place], "hidden", False)
            self.params.insert(place + 1, served)

    @property
    def _takes_job(self) -> bool:
        return any(one.param_type_name == "argument" and one.name == "job" for one in self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = args[: args.index("--")] if "--" in args else args
        if self._takes_job and "--last" in flags:
            # JOB is the first argument: nodes that follow it stay in their places.
            args = [LAST, *(one for one in args if one != "--last")]
        left = super().parse_args(ctx, args)
        if DATABASE in ctx.params:
            # The function of the command gets one address, whichever it is of: `Target` knows.
            ctx.params[DATABASE] = _one_address(ctx.params[DATABASE], ctx.params.pop("url", None))
        return left

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

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_examples(self, ctx, formatter)


class PlainGroup(TyperGroup):
    """The command of an app: lists its sub-commands with whole sentences, and ends with examples."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = [(name, command) for name, command in self.commands.items() if not command.hidden]
        write_commands("Commands", shown, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_examples(self, ctx, formatter)


class GroupedCommands(TyperGroup):
    """Lists the commands by purpose. Plain text: formatted help takes half a second to import."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel in (RUN, LOOK, STEER, WRITE, INSTALL, APPS):
            shown = [
                (name, command)
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == panel and not command.hidden
            ]
            write_commands(panel, shown, formatter)


Json = Annotated[bool, typer.Option("--json", help="Answer as JSON; problems too, on stderr.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="Postgres to use, else HOLDFAST_DATABASE_URL, else our own."),
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="TENANT", help="Tenant to work for, else HOLDFAST_TENANT, else default."),
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
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Continue a list where it ended.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; the exit code says how it ended.")]
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
Host = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="Address of the HTTP service. Default: 127.0.0.1.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="PORT", min=0, max=65_535, help="Its port; 0 is any free one. Default: 8321."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", metavar="PORT", min=0, max=65_535, help="Serve metrics on this port; 0 is any free one."
    ),
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="Job id, or its last 6 characters or more.")]
NewestJob = Annotated[
    str,
    typer.Argument(
        metavar="JOB", show_default=False, help="Job id, or its last 6 characters or more. Default: the newest job."
    ),
]
Labels = Annotated[list[str], typer.Option("--label", metavar="NAME=VALUE", help="Label of the job; may be repeated.")]
WorkflowFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Workflow file: YAML, or Python (flow.py, flow.py:NAME).")
]
CorrelationId = Annotated[
    str | None,
    typer.Option("--correlation-id", metavar="ID", help="What you call the things of one cause, to find the job."),
]
ExternalIds = Annotated[
    list[str],
    typer.Option("--external-id", metavar="NAMESPACE=VALUE", help="Id of the job in another system; may be repeated."),
]
CallbackUrl = Annotated[
    str | None,
    typer.Option("--callback-url", metavar="URL", help="Address to call back when the job has ended."),
]
Notify = Annotated[
    list[str],
    typer.Option(
        "--notify",
        metavar="RECEIVER[=EVENT,…]",
        help="Mail address or webhook that gets events, by default partial and failed; may be repeated.",
    ),
]
Priority = Annotated[
    int,
    typer.Option("--priority", metavar="N", min=-1000, max=1000, help="Tasks of jobs with a higher number run first."),
]
AllowBootstrap = Annotated[
    bool,
    typer.Option("--allow-bootstrap", help="Let administrators of the installation make and drop the schema by HTTP."),
]
