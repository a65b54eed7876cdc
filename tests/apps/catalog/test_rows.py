"""Items as table rows."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.apps.catalog.interface import InvalidItem
from holdfast.apps.catalog.rows import item_row, item_rows
from tests.apps.catalog.conftest import item


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"id": "../../etc/passwd"}, "so that it can be a file's name"),
        ({"id": "collection.json"}, "so that it can be a file's name"),
        ({"id": 7}, "so that it can be a file's name"),
        ({"properties": {}}, "no datetime"),
        ({"properties": {"datetime": "yesterday"}}, "'yesterday' is not a time"),
        (
            {"properties": {"start_datetime": "2020-01-02T00:00:00Z", "end_datetime": "2020-01-01T00:00:00Z"}},
            "is before its begin",
        ),
        ({"properties": {"datetime": "2020-01-01T00:00:00Z", "holdfast:content_hash": "ABC"}}, "sha256"),
        ({"properties": {"datetime": "2020-01-01T00:00:00Z", "a:b": "\0"}}, "NUL"),
        ({"properties": {"datetime": "2020-01-01T00:00:00Z", "a:b": "\ud800"}}, "surrogates"),
        ({"bbox": [0, 0, 1]}, "4 or 6 numbers"),
        ({"bbox": None}, "a geometry but no bbox"),
        ({"links": ["nowhere"]}, "its links must be objects"),
        ({"collection": "droughts"}, "belongs to the collection droughts"),
        ({"id": "tile-0001"}, "twice"),
        ({"assets": {"data": {"href": "../../etc/passwd"}}}, "leads upwards"),
        ({"assets": {"data": {"href": "silver/%2e%2e/%2E%2E/etc/passwd"}}}, "leads upwards"),
        ({"assets": {"data": {"href": "silver\\..\\x"}}}, "leads upwards"),
    ],
)
def test_the_error_for_an_invalid_item_says_why(broken: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidItem) as refusal:
        item_rows("floods", [item(1), item(2), {**item(3), **broken}])
    assert reason in refusal.value.reason
    assert refusal.value.item_id == str(broken.get("id", "tile-0003"))


def test_rows_are_locked_in_the_order_of_their_ids() -> None:
    assert [row["item_id"] for row in item_rows("floods", [item(3), item(1), item(2)])] == [
        *("tile-0001", "tile-0002", "tile-0003"),
    ]


def test_the_digest_depends_on_the_content_but_not_on_the_job() -> None:
    def digest(**changes: Any) -> str:
        return str(item_row("floods", item(1, **changes))["item_digest"])

    assert digest(job_id="a", node="b") == digest(job_id="c") == digest()
    assert digest(title="Depth") != digest()
    assert digest(sha256="0" * 64) != digest()
