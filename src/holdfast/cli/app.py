"""The command line: all commands together. Runs one and returns its exit code."""

from __future__ import annotations

import copy
import gc
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.models import CommandInfo

from holdfast import tracing
from holdfast.cli.commands import (
    data,
    files,
    gates,
    installation,
    notify,
    overview,
    reading,
    run,
    schedules,
    service,
    verbs,
)
from holdfast.cli.options import APPS, ASKED, WIDEST_HELP, GroupedCommands
from holdfast.cli.problems import report
from holdfast.cli.streams import answer, close_streams, open_streams
from holdfast.environment import is_set
from holdfast.errors import ExitCode, InvalidInput
from holdfast.version import __version__

app = typer.Typer(
    name="holdfast",
    cls=GroupedCommands,
    rich_markup_mode=None,
    help="Durable workflows on Postgres. After any failure it knows what survived and how to continue.",
    epilog="Begin with: holdfast demo, or holdfast init my-project",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP},
)

for part in (run, service, reading, data, overview, verbs, gates, notify, schedules, files, installation):
    # In the order in which the help lists them.
    app.registered_commands += part.commands.registered_commands


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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    # Imports make no garbage, and looking for it takes a tenth of their time. `begin` looks again.
    gc.disable()
    words = list(sys.argv[1:] if arguments is None else arguments)
    open_streams()
    if is_set(ASKED):
        complete_words()
    code = execute(words)
    # Before the end: the interpreter's own end may not come.
    tracing.stop()
    close_streams()
    # The interpreter would wait for threads that handlers have left running.
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


def complete_words() -> NoReturn:
    """Answer a shell that asks which words may follow."""
    from holdfast.cli.completion import complete

    complete(app, add_apps)
    sys.exit(ExitCode.DONE)


def execute(arguments: list[str]) -> int:
    """Run one command. An exception becomes a message on stderr and an exit code."""
    try:
        for argument in arguments:
            _refuse_broken_text(argument)
        add_apps(arguments)
        returned: Any = _only_what_is_asked(arguments)(
            arguments or ["--help"], prog_name="holdfast", standalone_mode=False
        )
    except (Exception, KeyboardInterrupt) as error:
        return report(error, as_json="--json" in arguments)
    return returned if isinstance(returned, int) else ExitCode.DONE


def _only_what_is_asked(arguments: list[str]) -> typer.Typer:
    """The app with the one command of ours that the first word names: typer prepares every command that it has."""
    asked = [command for command in app.registered_commands if arguments and _name_of(command) == arguments[0]]
    if not asked:
        return app
    smaller = copy.copy(app)
    smaller.registered_commands, smaller.registered_groups = asked, []
    return smaller


def _name_of(command: CommandInfo) -> str:
    return command.name or (command.callback.__name__ if command.callback else "")


def add_apps(arguments: list[str]) -> None:
    """Add the sub-commands of installed apps, but only if the command may be one of them: looking for them is slow."""
    own = {_name_of(command) for command in app.registered_commands}
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    if wanted in own:
        return
    from holdfast.cli.apps import Unavailable, installed_apps

    known = own | {group.name for group in app.registered_groups}
    for name, installed in installed_apps(wanted):
        if name in known:
            continue
        if isinstance(installed, Unavailable):
            options = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
            command = app.command(name, help=installed.help, rich_help_panel=APPS, context_settings=options)
            command(installed.fail)
        else:
            app.add_typer(installed, name=name, rich_help_panel=APPS)


def _refuse_broken_text(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError:
        shown = argument.encode("utf-8", "replace").decode()
        raise InvalidInput(f"The argument '{shown}' is not valid UTF-8.") from None
