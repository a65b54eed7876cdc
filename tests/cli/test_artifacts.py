"""`artifacts` and `checkpoints`: the files that tasks publish, and the points that they save."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

HANDLERS = """
from holdfast import Context, Result, handler

@handler("files.draw")
def draw(item, ctx: Context):
    (ctx.workdir / "tile.bin").write_bytes(b"tile" * item)
    ctx.checkpoint("drawn", {"item": item})
    ctx.publish("tile.bin")
    ctx.checkpoint("published")
    return item

@handler("files.merge")
def merge(ctx: Context):
    (ctx.workdir / "map.txt").write_text("a map")
    ctx.publish("map.txt", name="maps/map.txt")
    return Result(None, deliverables={"atlas": "archive/atlas.pdf"})
"""
FLOW = """
workflow_id: files
nodes:
  each: {type: fan_out, source: "{{ [1, 2] }}", task: {handler: files.draw, params: {item: "{{ item }}"}}, next: all}
  all: {type: fan_in, next: merge}
  merge: {handler: files.merge}
"""


@pytest.fixture
def job(database: Command) -> str:
    Path("files_handlers.py").write_text(HANDLERS)
    Path("files.yaml").write_text(FLOW)
    job_id: str = database("run", "files.yaml", "--handlers", "files_handlers", "--json").json["job_id"]
    return job_id


def test_artifacts_lists_deliverables_and_files(database: Command, job: str) -> None:
    shown = database("artifacts", job)
    first, heading, *files = shown.out.splitlines()
    assert first == "Delivered atlas: 1 in archive/atlas.pdf"
    assert heading.split() == ["size", "published", "task", "name"]
    assert [(line.split()[0], *line.split()[-2:]) for line in files] == [
        ("4", "each[0]", "tile.bin"), ("8", "each[1]", "tile.bin"), ("5", "merge", "maps/map.txt"),
    ]  # fmt: skip
    assert f"holdfast artifacts {job[-8:]} --get NAME" in shown.err
    listed = database("artifacts", job, "--node", "each", "--item", "1", "--json").json
    assert listed["deliverables"] == {"atlas": {"count": 1, "location": "archive/atlas.pdf", "usable": True}}
    (artifact,) = listed["artifacts"]
    assert (artifact["node"], artifact["index"], artifact["name"], artifact["bytes"]) == ("each", 1, "tile.bin", 8)


def test_many_files_are_read_in_pages(database: Command, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.artifacts.PAGE_LENGTH", 1)
    names = [(one["node"], one["index"]) for one in database("artifacts", job, "--json").json["artifacts"]]
    assert names == [("each", 0), ("each", 1), ("merge", None)]


def test_a_job_without_files_says_so(database: Command) -> None:
    job_id = database("run", "flow.yaml", "--json").json["job_id"]
    assert database("artifacts", job_id).out == f"No task of job {job_id} has published a file.\n"
    assert database("artifacts", job_id, "--json").json == {"deliverables": {}, "artifacts": []}


def test_a_file_is_copied_under_its_own_name_or_another(database: Command, job: str) -> None:
    copied = database("artifacts", job, "--get", "maps/map.txt")
    assert (copied.code, copied.out) == (0, "Wrote 5 B to map.txt.\n")
    assert Path("map.txt").read_text() == "a map"
    again = database("artifacts", job, "--get", "maps/map.txt")
    assert again.code == 4 and "already a file map.txt" in again.err
    assert database("artifacts", job, "--get", "maps/map.txt", "--to", "map.txt").code == 0
    chosen = database("artifacts", job, "--get", "tile.bin", "--item", "1", "--to", "tile", "--json")
    assert (chosen.json["index"], chosen.json["to"]) == (1, "tile")
    assert Path("tile").read_bytes() == b"tiletile"


def test_a_name_that_means_no_single_file_is_refused(database: Command, job: str) -> None:
    several = database("artifacts", job, "--get", "tile.bin")
    assert several.code == 4 and "have published 'tile.bin': each[0], each[1]" in several.err
    missing = database("artifacts", job, "--get", "tile")
    assert missing.code == 5 and f"No task of job {job} has published 'tile'." in missing.err
    delivered = database("artifacts", job, "--get", "atlas")
    assert delivered.code == 5 and "is a deliverable" in delivered.err and "archive/atlas.pdf" in delivered.err
    assert database("artifacts", job, "--to", "x").code == 2
    assert database("artifacts", job, "--get", "maps/map.txt", "--to", "-").code == 2


def test_a_damaged_file_is_not_copied(database: Command, job: str) -> None:
    for stored in Path(".holdfast/payloads", job).iterdir():
        stored.write_bytes(b"damaged")
    Path("old").write_text("old")
    answer = database("artifacts", job, "--get", "maps/map.txt", "--to", "old")
    assert answer.code == 6 and "is damaged" in answer.err
    assert Path("old").read_text() == "old" and not list(Path().glob(".*.draft"))


def test_checkpoints_are_listed_by_item_and_number(database: Command, job: str) -> None:
    shown = database("checkpoints", job, "each")
    heading, *lines = shown.out.splitlines()
    assert heading.split() == ["item", "number", "saved", "size", "name"]
    assert [(*line.split()[:2], line.split()[-1]) for line in lines] == [
        ("0", "1", "drawn"), ("0", "2", "published"), ("1", "1", "drawn"), ("1", "2", "published"),
    ]  # fmt: skip
    assert f"holdfast checkpoints {job[-8:]} each --json" in shown.err
    points = database("checkpoints", job, "each", "--item", "1", "--json").lines
    assert [(one["item"], one["number"], one["name"], one["value"]) for one in points] == [
        (1, 1, "drawn", {"item": 2}), (1, 2, "published", None),
    ]  # fmt: skip
    assert list(points[0]) == ["item", "number", "name", "saved_at", "bytes", "value"]
    assert database("checkpoints", job, "merge").out == "merge has no checkpoints.\n"
    assert database("checkpoints", job, "each", "--item", "9").code == 5
    assert database("checkpoints", job, "each", "--tenant", "acme").code == 5


def test_many_checkpoints_are_read_in_pages(database: Command, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.data.PAGE_ROWS", 1)
    assert len(database("checkpoints", job, "each", "--json").lines) == 4
    monkeypatch.setattr("holdfast.store.data.PAGE_ROWS", 1000)
    monkeypatch.setattr("holdfast.store.data.PAGE_BYTES", 1)
    assert len(database("checkpoints", job, "each", "--json").lines) == 4
    assert len(database("results", job, "each").lines) == 2
