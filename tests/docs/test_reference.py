"""The reference is complete and exact: each page is compared with the code that it documents."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections import defaultdict
from importlib.machinery import SourceFileLoader
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.cli.app import execute
from holdfast.core.events import EventName
from holdfast.core.states import JobStatus
from holdfast.define.document import schema
from holdfast.define.filters import FILTERS
from holdfast.define.operators import OPERATORS, TESTS
from holdfast.define.registry import Registry
from holdfast.errors import Code, ExitCode
from holdfast.settings import Settings
from holdfast.worker import builtin
from holdfast.worker.context import Context
from tests.docs.pages import ROOT
from tests.simulation.event_data import SHAPES, Shape

REFERENCE = ROOT / "docs" / "reference"
_CODE = re.compile(r"`([^`\n]+)`")


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def code(name: str) -> set[str]:
    """Everything that the page formats as code."""
    return set(_CODE.findall(page(name)))


def cells(name: str) -> set[str]:
    """The code in the first cell of every row of the page's tables."""
    rows = [line.split("|")[1] for line in page(name).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in _CODE.findall(row)}


def generator() -> Any:
    loader = SourceFileLoader("docs_generator", str(ROOT / "scripts" / "docs"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_generated_parts_are_up_to_date() -> None:
    generate = generator()
    generated = list(generate.pages())
    assert {page.name for page in generated} == {
        "command-line.md",
        "failpoints.md",
        "http.md",
        "language.md",
        "logs.md",
        "metrics.md",
        "states.md",
    }
    for path in generated:
        text = path.read_text(encoding="utf-8")
        assert generate.rendered(text) == text, f"{path.name} is out of date. Run: .venv/bin/python scripts/docs"


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_of_a_job_is_explained(status: str) -> None:
    assert status in cells("states")


def test_every_command_and_every_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Compared with the real help, which leaves out hidden commands."""

    def listed(*words: str) -> list[str]:
        execute([*words, "--help"])
        shown = capsys.readouterr().out
        inner = re.findall(r"^  ([a-z][a-z-]*)  +\S", shown, re.M)
        return ["", *inner] if "[COMMAND]" in shown else inner

    assert len(listed()) >= 15
    # The command of an app has sub-commands, and may do something without one.
    commands = [f"{name} {inner}".strip() for name in listed() for inner in listed(name) or [""]]
    sections = page("command-line").split("### `holdfast ")
    documented = {section.partition("`")[0]: section for section in sections[1:]}
    assert set(commands) == set(documented)
    for command in commands:
        execute([*command.split(), "--help"])
        flags = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", capsys.readouterr().out, re.M)) - {"--help"}
        assert flags == set(re.findall(r"`(--[a-z-]+)", documented[command])), command


def keys_of(shape: Any) -> set[str]:
    """Every key that any object of the schema may have."""
    if isinstance(shape, list):
        return {key for one in shape for key in keys_of(one)}
    if not isinstance(shape, dict):
        return set()
    own = set(shape["properties"]) if isinstance(shape.get("properties"), dict) else set()
    return own | {key for one in shape.values() for key in keys_of(one)}


def test_every_key_of_the_language_is_named() -> None:
    assert {"workflow_id", "max_retries", "any_of", "condition_field"} <= keys_of(schema())
    assert keys_of(schema()) - code("language") == set()


def test_every_part_of_an_expression_is_named() -> None:
    assert set(FILTERS) == {name.partition("(")[0] for name in cells("expressions")} & set(FILTERS)
    assert {*OPERATORS, "and", "or", "not"} - code("expressions") == set()
    assert {f"is {test}" for test in (*TESTS, "defined")} - code("expressions") == set()


def test_every_setting_is_named_with_its_default() -> None:
    rows = [line for line in page("settings").splitlines() if line.startswith("| `HOLDFAST_")]
    shown = {_CODE.findall(row)[0]: row.split("|")[2].strip().strip("`") for row in rows}
    assert set(shown) == {f"HOLDFAST_{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, ()) else str(field.default)
        assert shown[f"HOLDFAST_{name.upper()}"] == default, name


def test_every_exit_code_is_named() -> None:
    codes = {str(value) for name, value in vars(ExitCode).items() if name.isupper()}
    assert codes == {cell for cell in cells("exit-codes-and-json") if cell.isdigit()}


def test_every_code_of_a_failure_is_named() -> None:
    assert {str(one) for one in Code} - code("exit-codes-and-json") == set()


def test_every_built_in_handler_is_named() -> None:
    known = Registry()
    known.add_module(builtin)
    assert {cell.partition("(")[0] for cell in cells("handlers")} == set(known.names)


def test_every_public_name_is_explained() -> None:
    named = {cell.partition("(")[0].removeprefix("@") for cell in cells("python")}
    assert set(holdfast.__all__) - named == set()


def test_every_attribute_of_the_context_is_explained() -> None:
    seen = {f"ctx.{name}" for name in dir(Context) if not name.startswith("_")}
    assert seen == {cell.partition("(")[0] for cell in cells("python") if cell.startswith("ctx.")}


def test_every_event_is_explained() -> None:
    names = {cell for cell in cells("events") if re.fullmatch(r"[a-z]+(_[a-z]+)+", cell)}
    assert {str(name) for name in EventName} - names == set()


def test_the_data_of_every_event_is_explained() -> None:
    """Where several events have the same data, one of their rows names each key."""
    rows = [line.split("|") for line in page("events").splitlines() if line.startswith("| `")]
    documented = {event: set(_CODE.findall(row[3])) for row in rows for event in _CODE.findall(row[1])}
    events_of: defaultdict[Shape, set[str]] = defaultdict(set)
    for event, shapes in SHAPES.items():
        for shape in shapes:
            events_of[shape].add(event)
    for shape, events in events_of.items():
        assert shape.keys - set().union(*(documented[event] for event in events)) == set(), events


def test_events_are_named_in_one_place() -> None:
    """A literal elsewhere in the core is a mistake. SQL writes the event of the submission."""
    literal = re.compile(r"[\"']((?:job|node|task)_[a-z]+|[a-z]+_(?:rejected|changed|lost|acted|opened|closed))[\"']")
    names = {str(name) for name in EventName}
    for source in (ROOT / "src/holdfast/core").glob("*.py"):
        if source.name != "events.py":
            assert names & set(literal.findall(source.read_text(encoding="utf-8"))) <= {"job_cancelled"}, source.name


def test_the_changelog_starts_with_the_version_of_the_package() -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert versions[0] == holdfast.__version__


def test_every_invariant_that_holds_has_a_test_or_a_checker_with_its_number() -> None:
    text = (ROOT / "docs/explanation/invariants.md").read_text(encoding="utf-8")
    sections = re.split(r"^### (\d+)\. ", text, flags=re.M)[1:]
    invariants = dict(zip(map(int, sections[::2]), sections[1::2], strict=True))
    assert list(invariants) == list(range(1, len(invariants) + 1))
    tests = "".join(test.read_text(encoding="utf-8") for test in (ROOT / "tests").rglob("test_*.py"))
    checkers = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests/simulation").glob("*checkers.py"))
    for number, section in invariants.items():
        holds = "**Holds" in section
        assert holds or "**Not yet" in section or "**Built" in section, number
        checked = re.search(rf"def test_\w*invariant_{number}(?!\d)", tests) or f'"{number}: ' in checkers
        assert checked or not holds, (
            f"invariant {number} holds according to the page, but no test or checker has its number"
        )
        for path in re.findall(r"`(tests/[\w/.]+)`", section):
            assert (ROOT / path).exists(), path


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    wanted = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *(d for e in extras for d in e),
    ]
    names = {re.split(r"[\[<>=]", one)[0] for one in wanted}
    explained = set(_CODE.findall((ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")))
    assert names - explained == set()


def test_the_demo_prints_every_step_that_the_readme_shows() -> None:
    source = (ROOT / "src" / "holdfast" / "apps" / "flood" / "demo.py").read_text(encoding="utf-8")
    calls = (call for call in ast.walk(ast.parse(source)) if isinstance(call, ast.Call))
    said = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "step"]
    patterns = [_as_pattern(text) for text in said]
    shown = re.findall(r"^==> (.+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert shown
    assert [line for line in shown if not any(re.fullmatch(pattern, line) for pattern in patterns)] == []


def _as_pattern(text: ast.expr) -> str:
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".+" for one in parts)


def test_the_functions_and_views_for_psql_are_those_of_the_schema(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        functions = connection.execute(
            "select proname || '(' || array_to_string(proargnames[1:pronargs], ', ') || ')' from pg_proc"
            " where pronamespace = 'holdfast'::regnamespace and prosecdef"
        ).fetchall()
        columns = connection.execute(
            "select v.viewname, array_agg(a.attname::text) from pg_views v"
            " join pg_attribute a on a.attrelid = ('holdfast.' || v.viewname)::regclass and a.attnum > 0"
            " where v.schemaname = 'holdfast' group by v.viewname"
        ).fetchall()
    assert {name for (name,) in functions} == {one for one in cells("psql") if "(" in one}
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##)", page("psql"), re.MULTILINE | re.DOTALL))
    assert {view: set(names) for view, names in columns} == {
        view: {name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in _CODE.findall(row)}
        for view, text in sections.items()
    }
