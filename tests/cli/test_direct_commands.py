"""`holdfast commands`: which direct commands there are, and calling one at the database."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command

TEXT = "workflow_id: made\nnodes: {a: {handler: echo}}\n"


def test_commands_are_listed_and_called(database: Command, tmp_path: Path) -> None:
    listed = database("commands", "list", "--json").json["commands"]
    assert [(one["name"], one["scope"]) for one in listed] == [("job.prune", "admin"), ("workflow.register", "submit")]
    assert listed[0]["input"]["required"] == ["older_than_days"]
    shown = database("commands").out
    assert "job.prune" in shown and "older_than_days [statuses] [dry_run]" in shown
    made = database("commands", "run", "workflow.register", "--input", f"source={TEXT}", "--json")
    assert (made.code, made.json["workflow_id"], made.json["answer"]) == (0, "made", "registered")
    file = tmp_path / "input.yaml"
    file.write_text("older_than_days: 30\ndry_run: false\n")
    looked = database("commands", "run", "job.prune", "--inputs", str(file), "--input", "dry_run=true")
    assert looked.code == 0 and '"dry_run": true' in looked.out


def test_what_cannot_be_called_says_why(database: Command) -> None:
    for words, code, message in (
        (["run"], 2, "`commands run` needs a name"),
        (["run", "job.prun"], 5, "Did you mean 'job.prune'?"),
        (["run", "job.prune"], 2, "Field required."),
        (["run", "job.prune", "--input", "older_than_days"], 2, "'older_than_days' is not an input"),
        (["run", "job.prune", "--input", "older_than_days=1", "--input", "x=1"], 2, "'x' is not known."),
    ):
        answer = database("commands", *words)
        assert (answer.code, message in answer.err) == (code, True), answer.err
