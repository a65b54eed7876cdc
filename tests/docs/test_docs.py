"""The examples of the documentation are correct: files are valid, code runs, commands print the shown output."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from holdfast.define.load import check_read, read_text
from holdfast.define.program import compile_definition
from holdfast.define.traps import traps
from holdfast.define.yaml import read_yaml
from holdfast.settings import load_settings
from tests.docs.pages import ROOT, Block, all_pages, blocks, steps
from tests.docs.shell import Shell

BLOCKS = [block for page in all_pages() for block in blocks(page)]
LANGUAGES = {"", "console", "ini", "json", "mermaid", "python", "sh", "toml", "yaml"}


def of(language: str) -> pytest.MarkDecorator:
    params = [pytest.param(block, id=block.place) for block in BLOCKS if block.language == language]
    return pytest.mark.parametrize("block", params)


def runnable_pages() -> list[Path]:
    """Pages with at least one command that a test can run."""
    return [
        page
        for page in all_pages()
        if any(b.page == page and b.language == "console" and "not run" not in b.marks for b in BLOCKS)
    ]


def test_every_block_has_a_known_language() -> None:
    unknown = [f"{block.place}: {block.language}" for block in BLOCKS if block.language not in LANGUAGES]
    assert unknown == []


def test_few_commands_are_not_run_and_each_gives_a_reason() -> None:
    commands = [block for block in BLOCKS if block.language in ("console", "sh")]
    left_out = [block for block in commands if "not run" in block.marks]
    assert all(block.marks["not run"] for block in left_out)
    assert len(left_out) <= 20
    assert all("not run" in block.marks for block in commands if block.language == "sh"), "run it as a console block"


@of("yaml")
def test_workflows_are_valid(block: Block) -> None:
    if "fragment" in block.marks:
        assert read_yaml(block.body)[1] == []
    else:
        source, problems = read_text(block.body, block.place)
        definition, problems = check_read(source, problems)
        assert [str(problem) for problem in problems] == []
        assert definition is not None and source is not None
        assert [str(warning) for warning in traps(compile_definition(definition), source)] == []


@of("python")
def test_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fragment must only parse; the page itself runs the tests of its project."""
    tree = ast.parse(block.body, block.place)
    is_test = Path(block.marks.get("file", "")).name.startswith("test_")
    if "fragment" not in block.marks and not is_test:
        monkeypatch.chdir(tmp_path)
        exec(compile(tree, block.place, "exec"), {"__name__": "shown"})


@of("ini")
def test_shown_settings_are_accepted(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the proxy and of the identity provider, which no command of their pages uses."""
    monkeypatch.chdir(tmp_path)
    shown = dict(re.findall(r"^(?:Environment=)?(HOLDFAST_\w+)=(.*)$", block.body, re.M))
    for name, value in shown.items():
        monkeypatch.setenv(name, value)
    given = load_settings().model_fields_set
    assert {f"HOLDFAST_{name.upper()}" for name in given} >= set(shown)


@of("json")
def test_json_is_json(block: Block) -> None:
    if "fragment" not in block.marks:
        for line in [block.body] if block.body.startswith("{\n") else block.body.splitlines():
            json.loads(line)


@pytest.mark.parametrize("page", runnable_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    shell = Shell(tmp_path, environment)
    try:
        for block in blocks(page):
            if "file" in block.marks:
                target = tmp_path / block.marks["file"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.body, encoding="utf-8")
            elif block.language == "console" and "not run" not in block.marks:
                run(shell, block)
    finally:
        shell.close()


def run(shell: Shell, block: Block) -> None:
    commands = list(steps(block))
    assert commands, f"{block.place}: a console block without a command"
    for step, following in zip(commands, [*commands[1:], None], strict=True):
        if "background" in block.marks:
            shell.run_in_background(step)
        else:
            shell.run(step, may_fail=following is not None and following.command == "echo $?")
