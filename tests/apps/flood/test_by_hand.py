"""One stage by hand: a registration that failed is run as a job of its own, from a file of results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

import holdfast.apps.flood as flood
from holdfast import Context, Permanent
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.flood.registering import finish_one_by_one, item_id
from holdfast.cli.app import execute
from tests.apps.flood.test_listing import lines, row, stack
from tests.marks import IN_CHAOS
from tests.running import streams_kept

APP = Path(flood.__file__).parent
REGISTER = str(APP / "flood_register.yaml")
HALF_FROZEN = "alter table stac.items add constraint half_frozen check (item_id not like 'CIV-pluvial%') not valid"
THAW = "alter table stac.items drop constraint half_frozen"
TIMES = {"created", "updated"}

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    home: Path, database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run a command in this process, as a person types it."""
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database_url)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with streams_kept():
            code = execute(list(words))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def catalog(database_url: str) -> PostgresCatalog:
    made = PostgresCatalog(database_url)
    made.make_ready()
    return made


def run(command: Command, workflow: str, *inputs: str, code: int = 0) -> Any:
    """Run a workflow of the app; returns its job."""
    given = [word for one in inputs for word in ("--input", one)]
    ended, out, err = command("run", workflow, "--handlers", "holdfast.apps.flood", "--json", *given)
    assert ended == code, f"{out}\n{err}"
    return json.loads(out)


def registered(catalog: PostgresCatalog) -> dict[str, Any]:
    """The collection and its items, by id."""
    (summary,) = catalog.summaries(["flood-civ"])
    return {"collection": summary.collection} | {
        item["id"]: item for item in all_items(catalog, collections=["flood-civ"])
    }


def without_times(found: dict[str, Any], job_id: str) -> dict[str, Any]:
    """The same without what differs from run to run. All items must name the job and the node that made the stacks."""
    for name, item in found.items():
        if name != "collection":
            properties = item["properties"]
            assert (properties.pop("holdfast:job_id"), properties.pop("holdfast:node")) == (job_id, "stack")
            item["properties"] = {key: value for key, value in properties.items() if key not in TIMES}
    return found


def sql(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement.encode())


@IN_CHAOS
def test_a_registration_that_failed_is_done_by_hand_and_the_catalog_is_that_of_a_calm_run(
    command: Command, home: Path, catalog: PostgresCatalog, database_url: str, tmp_path: Path
) -> None:
    bad = sorted((home / "storage/bronze/flood/CIV/pluvial_defended").glob("*_RP0100.tif"))[0]
    bad.write_bytes(bad.read_bytes()[:3000])
    tolerant = tmp_path / "flood_stack.yaml"
    tolerant.write_text((APP / "flood_stack.yaml").read_text().replace('failures: "1%"', "failures: 1"))
    sql(database_url, HALF_FROZEN)
    broken = run(command, str(tolerant), "region=CIV", "batch=4", code=3)
    assert (broken["error"]["code"], broken["outcome"]["resume_from"]) == ("STAC_REFUSED", "register")
    sql(database_url, THAW)

    file = home / "storage/silver/flood/CIV.jsonl"
    code, _, err = command("results", broken["job_id"], "stack", "--format", "jsonl", "--to", str(file))
    assert code == 0 and err.startswith("Wrote 8 results, ")
    by_hand = run(command, REGISTER, "file=silver/flood/CIV.jsonl")
    assert by_hand["status"] == "completed"
    counts = {"collection_id": "flood-civ", "items": 7, "replaced": 0, "left_out": 1}
    assert by_hand["result"] == counts | {"registered": 3, "already_there": 4}

    first = registered(catalog)
    for flags in (["--status", "completed", "--format", "json"], []):
        assert command("results", broken["job_id"], "stack", *flags, "--to", str(file))[0] == 0
        again = run(command, REGISTER, "file=silver/flood/CIV.jsonl")["result"]
        assert (again["registered"], again["already_there"], again["left_out"]) == (0, 7, 0 if flags else 1)
        assert registered(catalog) == first, "registering again should change nothing, not even a time"

    sql(database_url, "delete from stac.items")
    sql(database_url, "delete from stac.collections")
    calm = run(command, str(tolerant), "region=CIV", "batch=4", code=3)
    assert calm["result"]["catalog"]["created"] == 7
    found = registered(catalog)
    assert without_times(first, broken["job_id"]) == without_times(found, calm["job_id"])


def test_outputs_alone_are_registered_as_made_by_the_job_and_a_new_version_replaces_the_old_one(
    command: Command, home: Path, catalog: PostgresCatalog
) -> None:
    file = home / "storage/silver/list.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([stack("A1"), stack("A2")]))
    job = run(command, REGISTER, "file=silver/list.json")
    assert (job["result"]["registered"], job["result"]["items"]) == (2, 2)
    item = registered(catalog)[item_id(stack("A1"))]
    assert item["properties"]["holdfast:job_id"] == job["job_id"]
    assert item["properties"]["holdfast:node"] == "register"

    file.write_text(lines(stack("A1", sha256="1" * 64, max_depth_m=9.5)))
    output = run(command, REGISTER, "file=silver/list.json")["result"]
    assert (output["registered"], output["replaced"], output["already_there"], output["items"]) == (0, 1, 0, 2)
    summaries = registered(catalog)["collection"]["summaries"]
    assert summaries["flood:max_depth_m"] == {"minimum": 3.8, "maximum": 9.5}, "the stack that stays counts, too"


def test_a_bad_file_fails_the_job_before_anything_is_registered(
    command: Command, home: Path, catalog: PostgresCatalog
) -> None:
    file = home / "storage/silver/list.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(lines(row(0, output=stack("A1")), row(1, output={"id": "x"})))
    error = run(command, REGISTER, "file=silver/list.jsonl", code=1)["error"]
    assert (error["code"], error["node"]) == ("FLOOD_RESULTS", "read")
    assert error["message"].startswith("Line 2 of silver/list.jsonl is not a stack of flood.band_stack: it has no 'reg")
    assert catalog.summaries() == []


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("silver/none.jsonl", "There is no file 'silver/none.jsonl'"),
        ("bronze/flood", "There is no file 'bronze/flood'"),
        ("/etc/passwd", "is refused: it leads out"),
        ("silver/../../x", "is refused"),
        ("list.jsonl", "is refused: it must be CONTAINER/BLOB"),
    ],
)
def test_a_file_that_is_missing_or_outside_the_storage_is_refused(
    home: Path, log: Context, file: str, problem: str
) -> None:
    with pytest.raises(Permanent, match=problem):
        flood.read_stacks(file, ctx=log)


def test_a_stack_that_is_not_there_at_the_end_is_named(database_url: str, catalog: PostgresCatalog) -> None:
    output = {"item_id": item_id(stack("A1")), "sha256": "0" * 64, "change": "created"}
    context: Any = SimpleNamespace(database_url=database_url, job_id="a-job", results=lambda node: iter([output]))
    with pytest.raises(Permanent, match=r"1 of 1 stacks .* in flood-civ: CIV-.*: holdfast rerun a-job --from register"):
        finish_one_by_one("flood-civ", None, "register", 0, context)


def test_the_workflow_fits_its_handlers(command: Command) -> None:
    code, out, err = command("validate", REGISTER, "--handlers", "holdfast.apps.flood")
    assert (code, err) == (0, "") and out.startswith("ok: ")
