"""Completion in shells: the script that a shell loads, and the words that it asks for at each Tab.

A shell waits for each answer, so this imports no more than the help does. It names commands, options and their fixed
values; the shell itself completes names of files. It never names jobs: that would take a database.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

from holdfast.cli.options import ASKED
from holdfast.cli.streams import answer, answer_json
from holdfast.environment import foreign

NAME = "holdfast"
LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables with the words so far: of bash, and of the others."""


def print_script(shell: str, *, as_json: bool) -> int:
    """The script for a shell, to be loaded in its start-up file."""
    script = get_completion_script(prog_name=NAME, complete_var=ASKED, shell=shell)
    if as_json:
        answer_json({"shell": shell, "script": script})
    else:
        answer(script)
    return 0


def complete(app: typer.Typer, add_apps: Callable[[list[str]], None]) -> None:
    """Print the words that may follow. Whatever goes wrong, a shell in the middle of a line must see no message."""
    with suppress(Exception):
        line = next((foreign(name) for name in LINES if foreign(name)), "")
        add_apps(line.split()[1:])
        completion_init()
        app(prog_name=NAME, complete_var=ASKED)
