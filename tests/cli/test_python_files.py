"""Workflows in Python files: `run`, `submit`, `validate` and `graph` take them like YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, finished, spawn

SQUARES = """
from holdfast import Workflow, handler, workflow


@handler
def square(number: int) -> int:
    return number * number


@handler("squares.report", isolation="process")
def report(total: int) -> str:
    return f"the sum is {total}"


@workflow("squares", inputs={"numbers": {"type": "array", "default": [1, 2, 3]}})
def squares(flow: Workflow) -> None:
    flow.fan_out("each", source="{{ inputs.numbers }}", handler=square, params={"number": "{{ item }}"})
    flow.fan_in("total", aggregation="sum", after="each")
    flow.task("report", handler=report, params={"total": "{{ nodes.total.output.total }}"}, after="total")
"""

WRONG = "from holdfast import Workflow\nflow = Workflow('w')\nflow.task('a', handler='echo', after='b')\n"


def test_run_takes_a_python_file_with_its_handlers(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "squares_flow.py").write_text(SQUARES)
    words = ["run", "flows/squares_flow.py", "--input", "numbers=[3, 4]", "--json"]
    answer = finished(spawn(*words, HOLDFAST_DATABASE_URL=database_url))
    assert answer.code == 0, answer.err
    assert answer.json["result"] == "the sum is 25"


def test_submit_validate_and_graph_take_a_python_file(tmp_path: Path, database: Command) -> None:
    (tmp_path / "checked_flow.py").write_text(SQUARES)
    assert database("validate", "checked_flow.py").out == "ok: checked_flow.py: squares, version 1, 3 nodes\n"
    assert "each" in database("graph", "checked_flow.py").out
    assert database("submit", "checked_flow.py", "--json").json["workflow_id"] == "squares"
    assert database("submit", "checked_flow.py:squares", "--json").json["answer"] == "already_processing"


def test_the_next_command_names_the_file_of_the_handlers(tmp_path: Path, database: Command) -> None:
    broken = SQUARES.replace("return number * number", "raise ValueError('no')")
    (tmp_path / "broken_flow.py").write_text(broken.replace('"squares", ', '"squares", retry={"max_retries": 0}, '))
    answer = database("run", "broken_flow.py")
    assert answer.code == 1
    assert "--handlers broken_flow.py" in answer.out


def test_a_file_with_several_workflows_needs_a_name(tmp_path: Path, command: Command) -> None:
    (tmp_path / "two_flows.py").write_text(
        "from holdfast import Workflow\n"
        "day = Workflow('by_day')\nday.task('a', handler='echo')\n"
        "night = Workflow('by_night')\nnight.task('a', handler='echo')\nsame = night\n"
    )
    answer = command("graph", "two_flows.py")
    assert answer.code == 2
    assert "error: The file two_flows.py defines several workflows: 'day', 'same'." in answer.err
    assert "→ Name one of them: two_flows.py:day" in answer.err
    assert command("graph", "two_flows.py:night", "--json").json["workflow_id"] == "by_night"
    assert command("graph", "two_flows.py:by_day", "--json").json["workflow_id"] == "by_day"
    answer = command("graph", "two_flows.py:nigt")
    assert "defines no workflow 'nigt'. It defines 'day', 'night', 'same'." in answer.err
    assert "→ Did you mean 'night'?" in answer.err


@pytest.mark.parametrize("words", [["run"], ["submit"], ["validate"], ["graph"]])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("plain_file", "x = 1\n", "The file {file} defines no workflow."),
        ("breaks_file", "\n1 / 0\n", "cannot be imported: {file}, line 2: ZeroDivisionError: division by zero"),
        ("yaml_file", "workflow_id: x\nnodes: {a: {handler: echo}\n", "its name must end with .yaml."),
        ("wrong_file", WRONG, "'b'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_python_file_is_said(
    tmp_path: Path, command: Command, words: list[str], name: str, text: str, message: str
) -> None:
    file = f"{name}_{words[0]}.py"
    (tmp_path / file).write_text(text)
    answer = command(*words, file)
    assert answer.code == 2
    assert message.format(file=file) in answer.err


def test_an_unknown_handler_of_a_python_file_is_a_mistake_for_validate(tmp_path: Path, command: Command) -> None:
    (tmp_path / "lacking_flow.py").write_text(SQUARES + "squares.task('more', handler='sqare', after='report')\n")
    assert command("validate", "lacking_flow.py").code == 0
    answer = command("validate", "lacking_flow.py", "--handlers", "lacking_flow")
    assert answer.code == 2
    assert "lacking_flow.py: There is no handler 'sqare'." in answer.err


def test_a_file_of_the_other_language_is_called_by_its_name(tmp_path: Path, command: Command) -> None:
    (tmp_path / "flow_in_python.yaml").write_text(SQUARES)
    answer = command("run", "flow_in_python.yaml")
    assert answer.code == 2
    assert "flow_in_python.yaml: This is Python, not YAML. Its name must end with .py." in answer.err
    (tmp_path / "inputs.py").write_text("x = 1\n")
    answer = command("run", "flow.yaml", "--inputs", "inputs.py")
    assert "The inputs file inputs.py is a Python file." in answer.err
    assert "There is no file missing.py." in command("run", "missing.py").err
