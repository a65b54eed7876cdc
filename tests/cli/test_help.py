"""The help of every command: at the width of the terminal, with examples that can be typed, and colours on request."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer.main

from holdfast.cli import streams
from holdfast.cli.app import add_apps, app
from holdfast.cli.examples import EXAMPLES, examples_of
from tests.cli.conftest import Command

COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-9]|9[0-9])[0-9;]*m")


def every_command() -> dict[str, Any]:
    """All commands by what is typed after `holdfast`, those of our apps too."""
    add_apps([])
    group: Any = typer.main.get_command(app)
    found = {name: command for name, command in group.commands.items() if not command.hidden}
    for name, command in list(found.items()):
        found |= {f"{name} {inner}": one for inner, one in getattr(command, "commands", {}).items()}
        if hasattr(command, "commands") and not command.invoke_without_command:
            del found[name]
    return found


def test_every_command_has_examples_that_its_help_shows(command: Command) -> None:
    commands = every_command()
    assert set(EXAMPLES) <= set(commands)
    for name, one in commands.items():
        examples = examples_of(name, one.epilog)
        assert 1 <= len(examples) <= 3, name
        shown = command(*name.split(), "--help").out
        heading = "Example" if len(examples) == 1 else "Examples"
        assert shown.endswith(f"\n{heading}:\n" + "".join(f"  {line}\n" for line in examples)), shown


def test_every_example_can_be_typed() -> None:
    commands = every_command()
    group: Any = typer.main.get_command(app)
    for name, described in commands.items():
        for line in examples_of(name, described.epilog):
            assert f"holdfast {name}" in line
            words = shlex.split(line.partition("holdfast ")[2].partition(" > ")[0].rstrip(")"))
            parse(group, words)


def parse(group: Any, words: list[str]) -> None:
    """Parse a command without running it: an unknown option or a value that does not fit raises an error."""
    parent = group.make_context("holdfast", words)
    name, one, left = group.resolve_command(parent, words)
    while hasattr(one, "commands") and left and not left[0].startswith("-"):
        parent = one.make_context(name, left, parent=parent)
        name, one, left = one.resolve_command(parent, left)
    one.make_context(name, left, parent=parent)


def test_an_example_with_a_mistake_would_be_noticed() -> None:
    every_command()
    group: Any = typer.main.get_command(app)
    for line in ("status --sinse 2h", "stac find --jobs 1a2b3c4d", "graph flow.yaml --format png", "retry 1a2b3c4d"):
        with pytest.raises(Exception, match=r"(?i)no such option|is not one of|missing"):
            parse(group, line.split())


def test_help_uses_the_width_of_the_terminal_and_cuts_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = [[], *([name.partition(" ")[0]] for name in every_command() if " " in name)]
    for columns, longest in ((80, 80), (140, 120)):
        monkeypatch.setenv("COLUMNS", str(columns))
        for words in lists:
            shown = command(*words, "--help").out
            assert "..." not in shown.replace("[ARGS]...", "")
            assert max(map(len, shown.splitlines())) <= longest
            # No first sentence needs a second line, which would begin with many spaces.
            assert not re.search(r"^ {6,}\S", shown, re.M), shown
    narrow = command("submit", "--help").out
    monkeypatch.setenv("COLUMNS", "80")
    assert len(command("submit", "--help").out.splitlines()) > len(narrow.splitlines())


def test_no_color_is_honoured_by_answers_errors_and_help(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    database("run", "failing.yaml")

    def printed() -> str:
        streams.answers.cache_clear()
        streams.asides.cache_clear()
        commands = (["status"], ["status", "last"], ["why"], ["status", "nonsense"], ["--help"], ["events"])
        return "".join(answer.out + answer.err for answer in (database(*words) for words in commands))

    try:
        assert not COLOUR.search(printed())
        monkeypatch.delenv("NO_COLOR")
        assert COLOUR.search(printed())
    finally:
        streams.answers.cache_clear()
        streams.asides.cache_clear()
