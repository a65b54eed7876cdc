"""`validate`, `graph`, `schema`, `init`: workflow files without a database."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command, finished, spawn


def test_right_files_are_listed_on_stdout(command: Command) -> None:
    answer = command("validate", "flow.yaml", "slow.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split(":")[1].strip() for line in answer.out.splitlines()] == ["flow.yaml", "slow.yaml"]


def test_all_errors_of_all_files_are_listed_with_their_places(command: Command, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("workflow_id: one\nnodes:\n  a: {handlr: echo}\n  b: {handler: echo, nxt: a}\n")
    (tmp_path / "two.yaml").write_text("workflow_id: two\nnodes:\n  a: {handler: echo, next: zzz}\n")
    answer = command("validate", "one.yaml", "flow.yaml", "two.yaml")
    assert answer.code == 2
    assert "ok: flow.yaml" in answer.out
    for place in ("one.yaml:3:", "one.yaml:4:", "two.yaml:3:"):
        assert any(line.startswith(place) for line in answer.err.splitlines()), place


def test_an_unknown_handler_is_an_error_only_when_handlers_are_given(command: Command, tmp_path: Path) -> None:
    (tmp_path / "known_to_validate.py").write_text(
        "from holdfast import handler\n\n@handler('mine')\ndef mine() -> None: ...\n"
    )
    (tmp_path / "w.yaml").write_text("workflow_id: w\nnodes: {a: {handler: mien}}\n")
    assert command("validate", "w.yaml").code == 0
    answer = command("validate", "w.yaml", "--handlers", "known_to_validate")
    assert answer.code == 2
    assert "There is no handler 'mien'. Did you mean 'mine'?" in answer.err


def test_params_that_a_handler_does_not_take_are_errors_of_validate_and_of_run(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "signed_handlers.py").write_text(
        "from holdfast import handler\n\n@handler('sales.report')\ndef report(day: str, files: int) -> None: ...\n"
    )
    (tmp_path / "w.yaml").write_text(
        "workflow_id: w\nnodes:\n  r:\n    handler: sales.report\n    params: {date: '{{ inputs.d }}', files: 1}\n"
    )
    (tmp_path / "flow.py").write_text(
        "from holdfast import Workflow\nfrom signed_handlers import report\n"
        "flow = Workflow('f')\nflow.task('r', handler=report, params={'day': 1, 'files': 1})\n"
    )
    unknown = "w.yaml:5:14: The handler sales.report of node 'r' has no parameter 'date'. Did you mean 'day'?"
    wrong = "flow.py: A param of node 'r' does not fit: handler sales.report: 'day' must be str, not int."
    assert command("validate", "w.yaml").code == 0
    answer = command("validate", "w.yaml", "flow.py", "--handlers", "signed_handlers")
    assert answer.code == 2
    assert [unknown, wrong] == answer.err.splitlines()[1:]
    refused = command("run", "w.yaml", "--handlers", "signed_handlers", "--json")
    assert (refused.code, refused.problem["code"]) == (2, "INVALID_DEFINITION")
    assert [(one["line"], one["path"]) for one in refused.problem["errors"]] == [
        (5, "nodes.r.params"),
        (5, "nodes.r.params.date"),
    ]
    assert not (tmp_path / ".holdfast").exists()
    assert wrong in command("run", "flow.py").err


def test_a_refused_file_names_the_check_that_finds_the_same_mistakes(command: Command, tmp_path: Path) -> None:
    (tmp_path / "strict_handlers.py").write_text(
        "from holdfast import handler\n\n@handler('strict')\ndef strict(day: str) -> None: ...\n"
    )
    (tmp_path / "my flow.yaml").write_text("workflow_id: w\nnodes: {r: {handler: strict, params: {date: x}}}\n")
    (tmp_path / "flow.py").write_text(
        "from holdfast import Workflow\nfrom strict_handlers import strict\n"
        "flow = Workflow('f')\nflow.task('r', handler=strict, params={'day': 1})\n"
    )
    (tmp_path / "torn.yaml").write_text("workflow_id: w\nnodes: {r: {handlr: strict}}\n")
    for words in (
        ["run", "my flow.yaml", "--handlers", "strict_handlers"],
        ["run", "flow.py"],
        ["run", "torn.yaml", "--handlers", "strict_handlers"],
        ["submit", "torn.yaml"],
    ):
        refused = command(*words)
        assert refused.code == 2
        advised = shlex.split(refused.err.partition("check with: holdfast ")[2])
        assert advised[:2] == ["validate", words[1]]
        assert advised[2:] == (words[2:] or (["--handlers", "flow.py"] if words[1] == "flow.py" else []))
        mistakes = [line.strip() for line in refused.err.splitlines()[1:-1]]
        assert command(*advised).err.splitlines() == mistakes


def test_warnings_are_shown_and_are_errors_with_strict(command: Command, tmp_path: Path) -> None:
    (tmp_path / "vain.yaml").write_text(
        "workflow_id: vain\nnodes:\n  a: {handler: echo, retry: {max_retries: 0, jitter: none}}\n"
    )
    what = "'jitter' has no effect: with 'max_retries: 0' nothing is tried again."
    answer = command("validate", "vain.yaml", "flow.yaml")
    assert (answer.code, len(answer.out.splitlines())) == (0, 2)
    assert answer.out.startswith("ok: vain.yaml: vain, version 1, 1 node\n")
    assert answer.err == f"vain.yaml:3:46: warning: {what} Remove the key, or allow retries.\n"
    found = command("validate", "vain.yaml", "flow.yaml", "--json").json
    assert [one["file"] for one in found["files"]] == ["vain.yaml", "flow.yaml"]
    assert found["warnings"] == [
        {
            "file": "vain.yaml",
            "line": 3,
            "column": 46,
            "path": "nodes.a.retry.jitter",
            "message": what,
            "suggestion": "Remove the key, or allow retries.",
        }
    ]
    strict = command("validate", "vain.yaml", "flow.yaml", "--strict")
    assert (strict.code, strict.err) == (2, f"vain.yaml:3:46: {what} Remove the key, or allow retries.\n")
    assert strict.out.startswith("ok: flow.yaml") and "vain" not in strict.out
    problem = command("validate", "vain.yaml", "--strict", "--json").problem
    assert [one["message"] for one in problem["errors"]] == [what]


def test_validate_as_json(command: Command) -> None:
    files = command("validate", "flow.yaml", "--json").json["files"]
    assert files[0]["workflow_id"] == "flow"


@pytest.mark.parametrize(("form", "mark"), [("text", "fan_out"), ("mermaid", "flowchart"), ("svg", "<svg")])
def test_a_file_is_drawn_in_every_format(command: Command, form: str, mark: str) -> None:
    answer = command("graph", "flow.yaml", "--format", form)
    assert answer.code == 0
    assert mark in answer.out
    assert mark in command("graph", "flow.yaml", "--format", form, "--json").json["drawing"]


def test_the_schema_is_json_schema(command: Command) -> None:
    assert command("schema").json["$schema"].startswith("https://json-schema.org")
    assert command("schema", "--json").json == command("schema").json


def test_what_init_writes_runs_as_it_is(
    command: Command, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = command("init", "new project", "--json").json
    assert written["next"] == "cd 'new project' && holdfast run workflow.yaml"
    monkeypatch.chdir(tmp_path / "new project")
    answer = finished(spawn("run", "workflow.yaml", "--json", HOLDFAST_DATABASE_URL=database_url))
    assert answer.code == 0, answer.err
    assert answer.json["result"] == {"message": "9 words in 3 texts"}
    assert finished(spawn("validate", "workflow.yaml")).code == 0


def test_init_overwrites_nothing(command: Command, tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("mine")
    answer = command("init", ".")
    assert answer.code == 4
    assert (tmp_path / "handlers.py").read_text() == "mine"
    assert not (tmp_path / "workflow.yaml").exists()


def test_init_does_not_write_into_a_clone_of_holdfast(command: Command, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "src/holdfast/cli/starter").mkdir(parents=True)
    (clone / "pyproject.toml").touch()
    answer = command("init", "clone/projects/weather")
    assert answer.code == 4
    assert f"lies in a clone of Holdfast, {clone}" in answer.err
    assert f"→ Make the project outside of it: holdfast init {tmp_path / 'weather'}" in answer.err
    assert not (clone / "projects").exists()
