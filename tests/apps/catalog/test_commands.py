"""`holdfast stac …` as people type it."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.cli.app import execute
from tests.apps.catalog.conftest import collection, item, sha256

JOB = "01a1de9a-927c-7726-b453-df6ad6637022"


class Terminal:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = execute(["stac", *arguments])
        return code, *self._capsys.readouterr()


@pytest.fixture
def stac(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "200")
    return Terminal(capsys)


@pytest.fixture
def filled(catalog: PostgresCatalog) -> PostgresCatalog:
    catalog.upsert_items("floods", [item(number, job_id=JOB, node="stack") for number in range(3)])
    return catalog


def test_list_shows_the_number_of_items_and_the_extents(stac: Terminal, filled: PostgresCatalog) -> None:
    code, out, err = stac("list")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == [
        *("floods", "3", "2020-01-01", "2020-01-01"),
        *("-170,", "-20,", "-167,", "-19", "Floods"),
    ]
    code, out, _ = stac("list", "--json")
    assert json.loads(out) == {
        "collections": [
            {
                "collection_id": "floods",
                "title": "Floods",
                "items": 3,
                "bbox": [-170.0, -20.0, -167.0, -19.0],
                "interval": ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"],
            }
        ]
    }


def test_an_empty_catalog_says_so(stac: Terminal) -> None:
    assert stac("list")[:2] == (0, "There are no collections yet.\n")
    assert json.loads(stac("list", "--json")[1]) == {"collections": []}


def test_reading_creates_no_schema(stac: Terminal, database_url: str) -> None:
    for words in ("list", "find --external a=1", "export out"):
        assert stac(*words.split())[0] == 0, words
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute("select from pg_namespace where nspname = 'stac'").fetchall() == []


def test_reading_creates_no_database(stac: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOLDFAST_DATABASE_URL")
    code, out, err = stac("list")
    assert (code, out) == (5, "")
    assert "There is no database" in err
    assert list(tmp_path.iterdir()) == []


def test_show_prints_the_file_and_the_job_of_an_item(stac: Terminal, filled: PostgresCatalog) -> None:
    code, out, _ = stac("show", "tile-0002")
    shown = dict(line.split(maxsplit=1) for line in out.splitlines()[1:] if not line.startswith("  asset"))
    assert (code, out.splitlines()[0]) == (0, "tile-0002")
    assert (shown["job"], shown["node"], shown["sha256"]) == (JOB, "stack", sha256(2))
    assert shown["platform:dataset_id"] == "2"
    assert "floods/tile-0002.tif" in out
    assert json.loads(stac("show", "tile-0002", "--json")[1]) == filled.get("floods", "tile-0002")
    code, _, err = stac("show", "tile-0009")
    assert (code, "There is no item tile-0009." in err) == (5, True)


def test_show_asks_for_the_collection_of_an_item_in_two(stac: Terminal, filled: PostgresCatalog) -> None:
    filled.ensure_collection(collection("droughts"))
    filled.upsert_items("droughts", [item(2)])
    code, _, err = stac("show", "tile-0002")
    assert (code, "droughts, floods" in err) == (4, True)
    assert stac("show", "tile-0002", "--collection", "droughts")[0] == 0


FINDINGS: list[tuple[list[str], list[int]]] = [
    (["--job", JOB], [0, 1, 2]),
    (["--job", JOB[-8:]], [0, 1, 2]),
    (["--job", "aaaaaaaa"], []),
    (["--hash", sha256(1).upper()], [1]),
    (["--external", "platform:dataset_id=2"], [2]),
    (["--external", "platform:name=7"], [0]),
    (["--external", "platform:name=7", "--external", "platform:dataset_id=1"], []),
    (["--external", "platform:name=7", "--job", JOB], [0]),
    (["--external", "platform:name=x"], []),
]


def test_find_combines_its_criteria(stac: Terminal, filled: PostgresCatalog) -> None:
    named = {"platform:dataset_id": 0, "platform:name": "7"}
    filled.upsert_items("floods", [item(0, job_id=JOB, node="stack", properties=named)])
    for arguments, wanted in FINDINGS:
        code, out, _ = stac("find", *arguments, "--json")
        assert code == 0
        assert [match["id"] for match in json.loads(out)["items"]] == [f"tile-{number:04d}" for number in wanted]
        code, out, err = stac("find", *arguments)
        assert (code, out == "", err == "") == (0, not wanted, bool(wanted))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["find"], 2, "`find` needs a criterion."),
        (["find", "--external", "platform:dataset_id"], 2, "is not NAME=VALUE"),
        (["find", "--job", "abc"], 2, "too short"),
        (["export"], 2, "DIR"),
        (["export", ".", "--collection", "deluge"], 5, "no collection deluge"),
        (["lsit"], 2, "lsit"),
    ],
)
def test_a_mistake_is_explained(
    stac: Terminal, filled: PostgresCatalog, arguments: list[str], code: int, message: str
) -> None:
    exit_code, out, err = stac(*arguments)
    assert (exit_code, out) == (code, "")
    assert message in err


def test_an_ending_of_several_jobs_is_refused(stac: Terminal, filled: PostgresCatalog) -> None:
    filled.upsert_items("floods", [item(7, job_id="other-" + JOB[-12:])])
    code, _, err = stac("find", "--job", JOB[-8:])
    assert (code, "Several jobs end with" in err) == (4, True)


def test_export_says_what_it_wrote(stac: Terminal, filled: PostgresCatalog, tmp_path: Path) -> None:
    code, out, _ = stac("export", "copy", "--json")
    assert (code, json.loads(out)) == (0, {"directory": str(tmp_path / "copy"), "collections": 1, "items": 3})
    written = json.loads((tmp_path / "copy/floods/tile-0001/tile-0001.json").read_text())
    assert written["assets"]["data"]["href"] == "../../../.holdfast/storage/floods/tile-0001.tif"
    assert stac("export", "copy")[1].startswith("Wrote 1 collection with 3 items to ")
    code, _, err = stac("export", ".")
    assert (code, "is not empty" in err) == (4, True)
