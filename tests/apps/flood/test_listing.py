"""A file that lists stacks: every shape that the commands write is read, and anything else is refused with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Permanent
from holdfast.apps.flood import listing
from holdfast.apps.flood.listing import read_listing
from holdfast.views.data import TaskResult
from holdfast.views.encoding import to_json

JOB = "01a1de9a-927c-7726-b453-df6ad6637022"
ORIGIN = {"job_id": JOB, "node": "stack"}

Written = Callable[[str | bytes], Path]


def stack(place: str = "N0500W00400", **changes: Any) -> dict[str, Any]:
    """An output of `flood.band_stack`."""
    band = {"mean": 0.4, "minimum": 0.0, "maximum": 3.8, "wet_share": 0.25, "valid_share": 0.85}
    return {
        "id": f"CIV/fluvial_defended/{place}",
        "region": "CIV",
        "place": place,
        "scenario": "fluvial_defended",
        "href": f"silver/flood/CIV/fluvial_defended/{place}.tif",
        "sha256": "0" * 64,
        "bytes": 1000,
        "bbox": [-4.0, 5.0, -3.0, 6.0],
        "footprint": {"type": "Polygon", "coordinates": [[[-4, 5], [-3, 5], [-3, 6], [-4, 6], [-4, 5]]]},
        "crs": "EPSG:32630",
        "shape": [512, 512],
        "transform": [90.0, 0.0, 184320.0, 0.0, -90.0, 875520.0],
        "datetime": "2024-01-01T00:00:00Z",
        "bands": [{"name": "rp0010", "unit": "m", "dtype": "float32", "nodata": -9999.0, **band}],
        "return_periods": [10],
        "max_depth_m": 3.8,
        "reused": False,
        "warnings": [],
        **changes,
    }


def row(item: int, status: str = "completed", output: Any = None) -> dict[str, Any]:
    """An object of `holdfast results`."""
    code = "RASTER_CORRUPTED" if status == "failed" else None
    made: dict[str, Any] = to_json(TaskResult(JOB, "stack", item, status, 1, code, output))
    return made


def lines(*values: Any) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "list.jsonl"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


ROWS = [row(0, output=stack("A1")), row(1, "failed"), row(2, output=stack("A2"))]


@pytest.mark.parametrize(
    "content",
    [
        lines(*ROWS),
        "\ufeff" + lines(*ROWS).replace("\n", "\r\n\n"),
        json.dumps(ROWS),
        "\n [\n" + ",\n".join(json.dumps(one) for one in ROWS) + "\n]\n",
        json.dumps(ROWS, indent=2),
    ],
    ids=["lines", "lines of Windows", "list", "list as results writes it", "pretty list"],
)
def test_results_of_tasks_are_read_and_failed_ones_are_left_out(written: Written, content: str) -> None:
    assert read_listing(written(content), "list.jsonl").to_json() == {
        "region": "CIV",
        "stacks": [{"stack": stack("A1"), "origin": ORIGIN}, {"stack": stack("A2"), "origin": ORIGIN}],
        "listed": 3,
        "left_out": {"count": 1, "statuses": {"failed": 1}},
    }


@pytest.mark.parametrize("content", [lines(stack("A1"), stack("A2")), json.dumps([stack("A1"), stack("A2")])])
def test_outputs_alone_are_read_and_have_no_origin(written: Written, content: str) -> None:
    found = read_listing(written(content), "list.json")
    assert [(one["stack"]["place"], one["origin"]) for one in found.stacks] == [("A1", None), ("A2", None)]


def test_a_stack_that_is_listed_twice_is_registered_once(written: Written) -> None:
    again = row(5, output=stack("A1", reused=True))
    found = read_listing(written(lines(*ROWS, again)), "list.jsonl")
    assert (len(found.stacks), found.left_out) == (2, {"failed": 1, "repeated": 1})


def test_a_string_may_have_characters_that_end_a_line_elsewhere(written: Written) -> None:
    odd = stack("A1", warnings=["one\u2028two\x85"])
    assert read_listing(written(lines(odd)), "list.jsonl").stacks[0]["stack"] == odd


FIRST = lines(row(0, output=stack("A1")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "list.jsonl is empty. Write the file with: holdfast results JOB stack"),
        ("\ufeff \r\n\n", "list.jsonl is empty"),
        ("[]", "list.jsonl has no completed result. Write"),
        (lines(row(0, "failed"), row(1, "failed"), row(2, "running")), "no completed result, only 2 failed, 1 running"),
        (FIRST.encode() + b"\xff\n", "Line 2 of list.jsonl is not text in UTF-8"),
        ("job_id,node,item,status,attempts,code,output\n", "Line 1 of list.jsonl is not JSON: Expecting value"),
        (FIRST + "\n" + FIRST[:200] + "\n", "Line 3 of list.jsonl is not JSON"),
        (FIRST + '{"status": "completed", "output": NaN}\n', "Line 2 of list.jsonl is not JSON: NaN is not a JSON"),
        (FIRST + "[" * 100_000, "Line 2 of list.jsonl is not JSON: it is nested too deeply"),
        ("[" * 100_000, "Line 1 of list.jsonl is not JSON: it is nested too deeply"),
        (f"[{FIRST},\n", "Line 3 of list.jsonl is not JSON: Expecting value"),
        (f"[{FIRST}\n", "Line 3 of list.jsonl is not JSON: the elements of a list must have one comma"),
        (f"[{FIRST}{FIRST}]", "Line 2 of list.jsonl is not JSON: the elements of a list must have one comma"),
        (f"[,{FIRST}]", "Line 1 of list.jsonl is not JSON: the elements of a list must have one comma"),
        (f"[{FIRST}] 1", "Line 2 of list.jsonl is not JSON: the elements of a list must have one comma"),
        (FIRST + "7\n", "Line 2 of list.jsonl is not a stack of flood.band_stack: it is not an object"),
        (FIRST + lines(row(1)), "Line 2 of list.jsonl is not a stack of flood.band_stack: it is not an object"),
        (f"[{FIRST}, {{}}]", r"Line 2 of list.jsonl \(element 2\) is not a stack .*: it has no 'region'"),
        (lines(row(0, "done", stack())), "Line 1 of list.jsonl has the status 'done', which no task has"),
        (FIRST + lines(stack("A2", region="RWA")), "Line 2 .* is a stack of RWA, and those before it are of CIV"),
        (FIRST + lines(stack("A1", sha256="1" * 64)), "Line 2 .* another version of CIV-.*-A1 than Line 1 of list"),
    ],
)
def test_a_file_with_anything_else_is_refused_with_the_line(
    written: Written, content: str | bytes, message: str
) -> None:
    with pytest.raises(Permanent, match=message) as refused:
        read_listing(written(content), "list.jsonl")
    assert refused.value.code == "FLOOD_RESULTS"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"region": "../x"}, "'../x/fluvial_defended' is not a region with a scenario"),
        ({"region": 7}, "its region is not a string"),
        ({"scenario": None}, "its scenario is not a string"),
        ({"place": "a/b"}, "an id has 1 to 200 of the characters"),
        ({"href": "silver/../../x.tif"}, "leads upwards"),
        ({"sha256": None}, "its sha256 is not a string"),
        ({"sha256": "abc"}, "must be a sha256"),
        ({"bbox": "here"}, "its bounds must be west, south, east and north"),
        ({"datetime": None}, "it has no datetime"),
        ({"bands": [{"name": "depth"}]}, "'depth' is not a band name"),
        ({"bands": 7}, "a value has the wrong type"),
        ({"return_periods": "10"}, "its return_periods are not whole numbers"),
        ({"max_depth_m": "3"}, "its max_depth_m is not a number"),
    ],
)
def test_a_stack_that_the_catalog_cannot_register_is_refused_with_the_line(
    written: Written, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Permanent, match=rf"Line 2 of list.jsonl is not a stack of flood.band_stack: .*{reason}"):
        read_listing(written(FIRST + lines(stack("A2") | changes)), "list.jsonl")


def test_a_file_has_a_limited_size_and_a_limited_number_of_stacks(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(lines(*ROWS))
    monkeypatch.setattr(listing, "MAX_STACKS", 1)
    with pytest.raises(Permanent, match=r"list.jsonl lists more than 1 stacks. Split it"):
        read_listing(path, "list.jsonl")
    monkeypatch.setattr(listing, "MAX_BYTES", path.stat().st_size - 1)
    with pytest.raises(Permanent, match=r"list.jsonl has more than 0 MiB. Split it"):
        read_listing(path, "list.jsonl")
