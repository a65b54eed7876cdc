"""Completion as shells ask for it: a real bash, and the others where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import HOLDFAST, Command

ASKED = {
    "holdfast sta": {"status", "stats", "stac"},
    "holdfast status --st": {"--status"},
    "holdfast graph flow.yaml --format ''": {"text", "mermaid", "svg"},
    "holdfast demo flood --re": {"--region"},
    "holdfast plan 01a1de9a uns": set(),
    # No word may follow: bash completes names of files.
    "holdfast run fl": set(),
}
_ASK = """
source <(holdfast completion bash)
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _holdfast_completion holdfast; }
"""


def in_shell(*words: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(HOLDFAST[0]).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PATH": path}, timeout=60)


def test_bash_completes_commands_options_and_values_without_a_message() -> None:
    lines = [f'ask {line}; echo "${{COMPREPLY[*]}}"' for line in ASKED]
    # `-o default` is what makes bash complete files where no word fits.
    answer = in_shell("bash", "--norc", "-c", "\n".join([_ASK, *lines, "complete -p holdfast"]))
    assert (answer.returncode, answer.stderr) == (0, "")
    *shown, registered = answer.stdout.splitlines()
    assert [set(line.split()) for line in shown] == list(ASKED.values())
    assert registered == "complete -o default -F _holdfast_completion holdfast"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_can_read_its_script(shell: str, command: Command, tmp_path: Path) -> None:
    script = command("completion", shell)
    assert (script.code, script.err) == (0, "")
    assert f"_HOLDFAST_COMPLETE=complete_{shell}" in script.out
    assert command("completion", shell, "--json").json == {"shell": shell, "script": script.out.rstrip("\n")}
    if shutil.which(shell):
        (tmp_path / "script").write_text(script.out)
        assert in_shell(shell, "-n", str(tmp_path / "script")).returncode == 0


def test_an_unknown_shell_is_refused_with_the_known_ones(command: Command) -> None:
    refused = command("completion", "tcsh")
    assert refused.code == 2
    assert "fish" in refused.err


def test_a_tab_imports_no_more_than_the_help_does_and_survives_a_broken_line() -> None:
    code = (
        "import sys\nfrom holdfast.cli.app import main\n"
        "try: main([])\nexcept SystemExit as end: code = end.code\n"
        "heavy = {'psycopg', 'pydantic', 'rich.console', 'asyncio'} & set(sys.modules)\n"
        "print(code, heavy, file=sys.stderr)"
    )
    asked = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": "holdfast sta", "COMP_CWORD": "no number"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | asked)
    assert (ran.stdout, ran.stderr) == ("", "0 set()\n")
