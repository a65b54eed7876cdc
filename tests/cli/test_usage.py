"""Every mistake at the door: the right exit code, one clear line, never a traceback."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer

from holdfast import __version__
from holdfast.cli.app import app
from holdfast.cli.logs import configure_logging
from holdfast.settings import Settings
from tests.cli.conftest import Command, finished, spawn

UNREACHABLE = "postgresql://someone:hunter2@127.0.0.1:1/nowhere"
JOB = "01a1de9a-927c-7726-b453-df6ad6637022"

BAD_USAGE = [
    (["statsu"], 2, "Did you mean 'stats', 'status'"),
    (["run"], 2, "FILE"),
    (["run", "flow.yaml", "--inptu", "a=1"], 2, "Did you mean '--input'?"),
    (["run", "flow.yaml", "extra"], 2, "extra"),
    (["run", "flow.yaml", "--concurrency", "many"], 2, "--concurrency"),
    (["run", "flow.yaml", "--concurrency", "0"], 2, "--concurrency"),
    (["run", "missing.yaml"], 2, "There is no file missing.yaml."),
    (["run", "."], 2, "cannot be read"),
    (["run", "binary.yaml"], 2, "not UTF-8"),
    (["run", "empty.yaml"], 2, "empty.yaml"),
    (["run", "broken.yaml"], 2, "broken.yaml:4"),
    (["run", "typo.yaml"], 2, "Did you mean 'handler'?"),
    (["run", "flow.yaml", "--input", "numbers"], 2, "has no value"),
    (["run", "flow.yaml", "--input", "numbers=[1,"], 2, "is not JSON"),
    (["run", "flow.yaml", "--input", "numbers=7"], 2, "must be an array"),
    (["run", "flow.yaml", "--input", "nam=1"], 2, "Unknown input 'nam'. Did you mean 'name'?"),
    (["run", "flow.yaml", "--inputs", "missing.json"], 2, "There is no inputs file missing.json."),
    (["run", "flow.yaml", "--inputs", "."], 2, "cannot be read"),
    (["run", "flow.yaml", "--inputs", "binary.yaml"], 2, "not UTF-8"),
    (["run", "flow.yaml", "--inputs", "broken.json"], 2, "is not JSON"),
    (["run", "flow.yaml", "--inputs", "list.json"], 2, "must hold an object"),
    (["run", "flow.yaml", "--handlers", "no_such_module"], 2, "cannot be imported"),
    (["run", "flow.yaml", "--handlers", "raises"], 2, "ZeroDivisionError"),
    (["run", "flow.yaml", "--handlers", "json"], 2, "has no handlers"),
    (["submit", "missing.yaml"], 2, "There is no file missing.yaml."),
    (["submit", "flow.yaml", "--key", ""], 2, "1 to 500 characters"),
    (["submit", "flow.yaml", "--key", "k" * 501], 2, "1 to 500 characters"),
    (["validate"], 2, "FILE"),
    (["validate", "typo.yaml"], 2, "typo.yaml:3"),
    (["validate", "missing.yaml"], 2, "missing.yaml: There is no such file."),
    (["validate", "flow.yaml", "--handlers", "no_such_module"], 2, "cannot be imported"),
    (["graph", "flow.yaml", "--format", "png"], 2, "--format"),
    (["graph", "broken.yaml"], 2, "broken.yaml:4"),
    (["events", JOB, "--after", "-1"], 2, "--after"),
    (["events", JOB, "--after", "x"], 2, "--after"),
    (["status", JOB], 5, f"There is no job '{JOB}': "),
    (["watch", JOB], 5, "There is no job"),
    (["events", JOB], 5, "There is no job"),
    (["cancel", JOB, "--yes"], 5, "There is no job"),
    (["prune", "--older-than", "soon"], 2, "--older-than: 'soon' is not a duration."),
    (["prune", "--older-than", "30"], 2, "--older-than 30d"),
    (["prune", "--older-than", "-1d"], 2, "is not a duration"),
    (["prune", "--older-than", "99999d"], 2, "longer than a hundred years"),
    (["prune", "--status", "running"], 2, "--status"),
    (["prune", "--yes", "--database-url", UNREACHABLE], 6, "cannot be reached"),
    (["prune", "--database-url", UNREACHABLE], 4, "--dry-run"),
    (["init", "."], 4, "there already"),
    (["init", "flow.yaml/inside"], 2, "cannot be written"),
    (["status", "--database-url", "mysql://localhost/x"], 2, "The database URL is not valid."),
    (["status", "--database-url", "nonsense"], 2, "The database URL is not valid."),
    (["run", "flow.yaml", "--database-url", UNREACHABLE], 6, "cannot be reached"),
    (["submit", "flow.yaml", "--database-url", UNREACHABLE], 6, "cannot be reached"),
    (["status", "--database-url", UNREACHABLE], 6, "cannot be reached"),
    (["migrate", "--database-url", UNREACHABLE], 6, "cannot be reached"),
    (["up", "--database-url", UNREACHABLE], 6, "cannot be reached"),
    (["worker", "--handlers", "no_such_module"], 2, "cannot be imported"),
]


@pytest.fixture(autouse=True)
def bad_files(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(bytes(range(128, 256)))
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "broken.yaml").write_text("workflow_id: b\nnodes:\n  a: {handler: [echo\n")
    (tmp_path / "typo.yaml").write_text("workflow_id: t\nnodes:\n  a: {handlr: echo}\n")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "raises.py").write_text("1 / 0\n")
    (tmp_path / "README.md").write_text("")


@pytest.mark.parametrize(("arguments", "code", "line"), BAD_USAGE, ids=[" ".join(case[0])[:60] for case in BAD_USAGE])
def test_a_mistake_ends_with_its_exit_code_and_a_clear_line(
    command: Command, arguments: list[str], code: int, line: str
) -> None:
    answer = command(*arguments)
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert line in answer.err
    assert "hunter2" not in answer.err


@pytest.mark.parametrize(("arguments", "code", "line"), BAD_USAGE, ids=[" ".join(case[0])[:60] for case in BAD_USAGE])
def test_with_json_the_same_mistake_is_one_problem_object_on_stderr(
    command: Command, arguments: list[str], code: int, line: str
) -> None:
    answer = command(*arguments, "--json")
    assert answer.code == code
    assert answer.out == ""
    keys = ["type", "title", "status", "detail", "instance", "code", "remedy", "errors"]
    assert list(answer.problem) == keys
    assert answer.problem["type"] == f"urn:holdfast:{answer.problem['code']}"
    assert "hunter2" not in answer.err


@pytest.mark.parametrize("text", ["abc", "zzzzzz", "zz"])
def test_what_is_no_job_id_says_so(database: Command, text: str) -> None:
    answer = database("status", text)
    assert answer.code == (2 if len(text) < 6 else 5)
    assert "holdfast status" in answer.err


def test_an_unreadable_file_says_why(command: Command, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "flow.yaml").chmod(0)
    answer = command("run", "flow.yaml")
    assert answer.code == 2
    assert "not readable" in answer.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_LEASE_SECONDS", "soon"),
        ("HOLDFAST_RENEW_SECONDS", "60"),
        ("HOLDFAST_CONCURRENCY", "0"),
        ("HOLDFAST_RETENTION_DAYS", "0"),
        ("HOLDFAST_LOG_LEVEL", "loud"),
        ("HOLDFAST_LOG_FORMAT", "xml"),
    ],
)
def test_a_bad_setting_is_named(command: Command, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    answer = command("status")
    assert answer.code == 2
    assert name in answer.err


def test_an_empty_setting_is_none(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "")
    assert command("status").code == 0


def test_arguments_that_are_not_utf_8_are_refused(command: Command) -> None:
    answer = command("cancel", JOB, "--reason", "\udcff")
    assert answer.code == 2
    assert "UTF-8" in answer.err


def test_our_own_bug_is_one_line_and_exit_70(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> int:
        raise KeyError("surprise")

    monkeypatch.setattr("holdfast.cli.files.draw_text", broken)
    answer = command("graph", "flow.yaml")
    assert answer.code == 70
    assert "this is a bug in holdfast" in answer.err
    assert command("graph", "flow.yaml", "--json").problem["code"] == "BUG"


def test_our_own_bug_shows_its_traceback_to_who_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import holdfast.cli.streams as s\ndef broken(*a, **k): raise KeyError('surprise')\ns.answer = broken\n"
    )
    answer = finished(spawn("migrate", "--ddl", PYTHONPATH=str(tmp_path), HOLDFAST_LOG_LEVEL="debug"))
    assert answer.code == 70
    assert "Traceback" in answer.err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_groups_the_commands(command: Command, flag: str) -> None:
    answer = command(flag)
    assert answer.code == 0
    for word in ("Run workflows:", "See what happens:", "Write workflows:", "doctor", "cancel"):
        assert word in answer.out


def test_no_command_at_all_shows_the_help(command: Command) -> None:
    assert command().out == command("--help").out


@pytest.mark.parametrize(
    "name",
    ["run", "submit", "up", "worker", "orchestrator", "status", "watch", "events", "cancel", "init", "validate",
     "graph", "schema", "doctor", "migrate", "prune", "workflows", "queues", "stats", "register", "acknowledge"],
)  # fmt: skip
def test_every_command_has_help_and_json(command: Command, name: str) -> None:
    answer = command(name, "-h")
    assert answer.code == 0
    assert "--json" in answer.out


def test_the_version_is_the_packages(command: Command) -> None:
    assert command("--version").out == f"holdfast {__version__}\n"


def test_help_imports_nothing_heavy_and_a_command_that_reads_imports_no_service() -> None:
    code = (
        "import sys\nfrom holdfast.cli.app import execute\nexecute(['--help'])\n"
        "heavy = {'psycopg', 'pydantic', 'rich.console', 'asyncio'} & set(sys.modules)\nexecute(['status'])\n"
        "services = {'holdfast.worker.loop', 'holdfast.orchestrator.loop', 'ruamel.yaml'} & set(sys.modules)\n"
        "print(heavy, services, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[-1] == "set() set()"


def test_a_terminal_that_knows_only_ascii_is_no_error(database_url: str) -> None:
    answer = finished(spawn("run", "flow.yaml", HOLDFAST_DATABASE_URL=database_url, PYTHONIOENCODING="ascii"))
    assert answer.code == 0
    assert "flow completed" in answer.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_go_to_stderr_in_the_form_that_was_asked_for(database_url: str, tmp_path: Path, form: str) -> None:
    (tmp_path / "logging_handlers.py").write_text(
        "from holdfast import handler\n\n@handler('note')\ndef note(ctx):\n    ctx.logger.info('\\x1b[1mnote')\n"
    )
    (tmp_path / "note.yaml").write_text("workflow_id: n\nnodes: {a: {handler: note}}\n")
    answer = finished(
        spawn(
            "run", "note.yaml", "--handlers", "logging_handlers", "--json",
            HOLDFAST_DATABASE_URL=database_url, HOLDFAST_LOG_LEVEL="info", HOLDFAST_LOG_FORMAT=form,
        )
    )  # fmt: skip
    line = next(line for line in answer.err.splitlines() if "holdfast.handler.note" in line)
    if form == "json":
        assert json.loads(line)["message"] == "\x1b[1mnote"
    else:
        assert "�[1mnote" in line
    assert answer.json["status"] == "completed"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_record_without_end_is_cut_and_says_so(capsys: pytest.CaptureFixture[str], form: str) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        configure_logging(Settings(log_format=form, log_level="info"))
        logging.getLogger("holdfast.handler.talks").info("x" * 5_000_000)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    err = capsys.readouterr().err
    assert len(err) < 70_000
    assert "x… (cut off: it has 5,000,000 characters)" in err


def test_an_installed_app_adds_its_own_commands(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    there = typer.Typer(help="Tides.")

    @there.command()
    def high() -> None:
        typer.echo("water")

    @there.command()
    def low() -> None: ...

    point = EntryPoint("tides", "somewhere:app", "holdfast.cli")
    monkeypatch.setattr(EntryPoint, "load", lambda self: there)
    install(monkeypatch, point)
    assert command("tides", "high").out == "water\n"
    assert "tides" in command("--help").out


def install(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Have these apps and no others."""
    monkeypatch.setattr("holdfast.cli.apps.entry_points", lambda group: list(points))
    monkeypatch.setattr("holdfast.cli.app.app.registered_groups", [])
    monkeypatch.setattr("holdfast.cli.app.app.registered_commands", list(app.registered_commands))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import tidal_tables", ("needs the module 'tidal_tables'", "pip install 'tides[geo]'")),
        ("1 / 0", ("cannot be imported: ZeroDivisionError", "Install the package tides again")),
        ("app = 'no app'", ("is not a typer.Typer", "")),
    ],
)
def test_an_app_that_cannot_be_loaded_says_so_and_breaks_no_other_command(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, said: tuple[str, str]
) -> None:
    (tmp_path / "tides.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tides", raising=False)
    install(monkeypatch, EntryPoint("tides", "tides:app [geo]", "holdfast.cli"))
    listed = command("--help")
    assert (listed.code, listed.err) == (0, "")
    assert re.search(r"^  tides +Not available", listed.out, re.M)
    for arguments in (["tides"], ["tides", "high", "--at", "noon"], ["tides", "--help"]):
        answer = command(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert said[0] in answer.err and said[1] in answer.err


def test_only_the_app_that_is_asked_for_is_imported(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    there = typer.Typer()
    there.command("high")(lambda: None)
    there.command("low")(lambda: None)

    def load(self: EntryPoint) -> typer.Typer:
        loaded.append(self.name)
        return there

    monkeypatch.setattr(EntryPoint, "load", load)
    install(monkeypatch, *(EntryPoint(name, "somewhere:app", "holdfast.cli") for name in ("tides", "winds")))
    command("validate", "flow.yaml")
    assert loaded == []
    command("winds", "high")
    assert loaded == ["winds"]


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("run", "holdfast run FILE [OPTIONS]"),
        ("submit", "holdfast submit [FILE|WORKFLOW] [OPTIONS]"),
        ("status", "holdfast status [JOB] [OPTIONS]"),
        ("validate", "holdfast validate FILE… [OPTIONS]"),
        ("worker", "holdfast worker [OPTIONS]"),
    ],
)
def test_help_names_arguments_as_the_documentation_does(command: Command, name: str, usage: str) -> None:
    help_text = command(name, "--help").out
    assert help_text.splitlines()[0] == f"Usage: {usage}"
    assert not re.search(r"<(str|path|list|int)|\[required\]|[{}]", help_text)
