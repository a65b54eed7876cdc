"""The catalog on a real Postgres: registrations, searches, extents, and concurrent clients."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from holdfast import InvalidInput, NotFound, Unreachable
from holdfast.apps.catalog.interface import InvalidItem, Upserted, all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from tests.apps.catalog.conftest import collection, item, sha256
from tests.conftest import eventually

MANY = 1924


def ids(catalog: PostgresCatalog, **wanted: Any) -> list[str]:
    return [match["id"] for match in all_items(catalog, **wanted)]


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """The results of functions that run in threads and start together."""
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        begin.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_registering_the_same_thousands_of_items_again_writes_nothing(
    catalog: PostgresCatalog, database_url: str
) -> None:
    items = [item(number) for number in range(MANY)]
    assert catalog.new_or_changed("floods", items) == items
    assert catalog.upsert_items("floods", items) == Upserted(created=MANY)
    before = versions(database_url)
    random.Random(7).shuffle(items)
    assert catalog.upsert_items("floods", items) == Upserted(unchanged=MANY)
    assert catalog.new_or_changed("floods", items) == []
    assert versions(database_url) == before, "unchanged rows should not be written"
    assert catalog.summaries()[0].items == MANY
    assert ids(catalog, limit=500) == sorted(one["id"] for one in items)


def versions(database_url: str) -> set[tuple[Any, ...]]:
    with psycopg.connect(database_url) as connection:
        return set(connection.execute("select item_id, ctid::text, updated_at from stac.items").fetchall())


def test_changed_items_are_updated_and_others_are_not_touched(catalog: PostgresCatalog) -> None:
    catalog.upsert_items("floods", [item(1), item(2)])
    changed = [item(1), item(2, title="Depth"), item(3)]
    assert catalog.upsert_items("floods", changed) == Upserted(created=1, updated=1, unchanged=1)
    stored = catalog.get("floods", "tile-0002")
    assert stored is not None
    assert stored["assets"]["data"]["title"] == "Depth"
    assert stored["properties"]["updated"] > stored["properties"]["created"]


def test_an_unchanged_item_of_another_job_keeps_its_first_job(catalog: PostgresCatalog) -> None:
    catalog.upsert_items("floods", [item(1, job_id="first", node="stack")])
    assert catalog.upsert_items("floods", [item(1, job_id="second", node="again")]) == Upserted(unchanged=1)
    assert ids(catalog, job_id="first") == ["tile-0001"]
    assert catalog.upsert_items("floods", [item(1, job_id="third", sha256=sha256(99))]) == Upserted(updated=1)
    assert ids(catalog, job_id="third") == ["tile-0001"]


def test_an_item_is_read_as_it_was_written(catalog: PostgresCatalog) -> None:
    written = item(4)
    link = {"rel": "about", "href": "https://example.com/4"}
    catalog.upsert_items("floods", [{**written, "links": [link, {"rel": "self", "href": "/somewhere.json"}]}])
    stored = catalog.get("floods", "tile-0004")
    assert stored is not None
    assert list(stored) == [
        *("type", "stac_version", "stac_extensions", "id", "collection"),
        *("geometry", "bbox", "properties", "links", "assets"),
    ]
    assert [each["rel"] for each in stored["links"]] == ["collection", "about"]
    assert {k: v for k, v in stored["properties"].items() if k not in ("created", "updated")} == written["properties"]
    assert (stored["geometry"], stored["assets"]) == (written["geometry"], written["assets"])
    assert catalog.get("floods", "tile-0005") is None
    assert catalog.get("droughts", "tile-0004") is None


def test_one_invalid_item_means_that_none_is_stored(catalog: PostgresCatalog) -> None:
    with pytest.raises(InvalidItem, match="Item tile-0003 is not valid: it has no datetime"):
        catalog.upsert_items("floods", [item(1), item(2), item(3, datetime=None)])
    assert ids(catalog) == []


def test_items_need_a_collection(catalog: PostgresCatalog) -> None:
    with pytest.raises(NotFound, match="There is no collection droughts"):
        catalog.upsert_items("droughts", [item(1)])
    with pytest.raises(InvalidInput, match="file's name"):
        catalog.ensure_collection({**collection("floods"), "id": "a/b"})


def test_a_collection_is_created_once_and_updated_only_if_it_differs(catalog: PostgresCatalog) -> None:
    assert catalog.ensure_collection(collection("floods")) == "unchanged"
    assert catalog.ensure_collection(collection("floods", title="All floods")) == "updated"
    changes = at_once(*[lambda: catalog.ensure_collection(collection("droughts"))] * 6)
    assert sorted(changes) == ["created", *["unchanged"] * 5]


def test_overlapping_registrations_at_once_make_no_duplicates_and_no_deadlock(catalog: PostgresCatalog) -> None:
    def register(first: int, title: str) -> Upserted:
        items = [item(number, title=title) for number in range(first, first + 300)]
        random.Random(title).shuffle(items)
        return catalog.upsert_items("floods", items)

    rounds = [(0, "a"), (100, "b"), (200, "c"), (100, "d")]
    results = at_once(*(lambda first=first, title=title: register(first, title) for first, title in rounds))
    assert sum(one.created for one in results) == 500
    assert sum(one.created + one.updated + one.unchanged for one in results) == 1200
    assert len(ids(catalog)) == 500


def test_extents_are_computed_from_the_current_items(catalog: PostgresCatalog) -> None:
    assert (catalog.summaries()[0].bbox, catalog.summaries()[0].interval) == (None, None)
    far = item(2, bounds=[30, 40, 31, 41], datetime="2021-06-01T00:00:00Z")
    long = item(3, datetime=None, start_datetime="2019-01-01T00:00:00Z", end_datetime="2019-12-31T23:59:59Z")
    catalog.upsert_items("floods", [item(1), far, long])
    (summary,) = catalog.summaries()
    assert (summary.items, summary.bbox) == (3, [-169, -20, 31, 41])
    assert summary.interval == ("2019-01-01T00:00:00Z", "2021-06-01T00:00:00Z")
    assert catalog.delete_items("floods", [far["id"], long["id"], "no-such-tile"]) == 2
    (summary,) = catalog.summaries()
    assert (summary.items, summary.bbox) == (1, [-169, -20, -168, -19])
    assert summary.interval == ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
    assert catalog.delete_items("floods", []) == 0
    assert catalog.summaries(["droughts"]) == []


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ([[179.5, 0, 180.5, 1], [-178, 0, -177, 1]], [179.5, 0, -177, 1]),
        ([[179.5, 0, 180.5, 1], [-5, 0, 10, 1]], [-5, 0, -179.5, 1]),
        ([[140, 0, 141, 1], [-100, 0, -99, 1]], [-100, 0, 141, 1]),
        ([[-180, -60, 180, 60], [179.5, 0, 180.5, 1]], [-180, -60, 180, 60]),
    ],
)
def test_an_extent_crosses_the_antimeridian_if_an_item_does(
    catalog: PostgresCatalog, bounds: list[list[float]], wanted: list[float]
) -> None:
    catalog.upsert_items("floods", [item(number, bounds=one) for number, one in enumerate(bounds)])
    assert catalog.summaries()[0].bbox == wanted


BOXES: list[tuple[list[float], list[str]]] = [
    ([-1, -1, 11, 11], ["here"]),
    ([4, 4, 5, 5], ["here"]),
    ([10, 10, 20, 20], ["here"]),
    ([5, 5, 5, 5], ["here"]),
    ([10.1, 0, 20, 10], []),
    ([0, 10.1, 10, 20], []),
    ([-180, -90, 180, 90], ["beyond", "here", "over", "point"]),
    ([179, -90, 180, 90], ["over"]),
    ([-180, -90, -179, 90], ["over"]),
    ([170, -90, -170, 90], ["beyond", "over"]),
    ([178, -90, 179.4, 90], []),
    ([-179.4, -90, -170, 90], ["beyond"]),
    ([100, 49, -100, 51], []),
    ([60, 50, 60, 50], ["point"]),
    ([59, 49, 0, 61, 51, 100], ["point"]),
]


def test_a_search_by_box_finds_the_items_that_touch_it(catalog: PostgresCatalog) -> None:
    nowhere = {**item(4, id="nowhere"), "geometry": None}
    del nowhere["bbox"]
    point = {"type": "Point", "coordinates": [60, 50]}
    catalog.upsert_items(
        "floods",
        [
            item(1, id="here", bounds=[0, 0, 10, 10]),
            item(2, id="over", bounds=[179.5, -20, 180.5, -19]),
            item(5, id="beyond", bounds=[-178, -60, -177, -59]),
            item(3, id="point", geometry=point, bounds=None),
            nowhere,
        ],
    )
    assert [(bbox, ids(catalog, bbox=bbox)) for bbox, _ in BOXES] == BOXES


TIMES: list[tuple[str, list[str]]] = [
    ("2020-01-01T00:00:00Z", ["moment", "year"]),
    ("2020-06-01T00:00:00Z", ["year"]),
    ("../2019-12-31T00:00:00Z", []),
    ("2020-12-31T00:00:00Z/..", ["year"]),
    ("2019-01-01T00:00:00Z/2030-01-01T00:00:00Z", ["moment", "year"]),
]


def test_a_search_by_time_finds_the_items_of_that_time(catalog: PostgresCatalog) -> None:
    year = {"start_datetime": "2020-01-01T00:00:00Z", "end_datetime": "2020-12-31T00:00:00Z", "datetime": None}
    catalog.upsert_items("floods", [item(1, id="moment"), item(2, id="year", **year)])
    assert [(datetime, ids(catalog, datetime=datetime)) for datetime, _ in TIMES] == TIMES


def test_items_are_found_by_job_by_hash_and_by_foreign_ids(catalog: PostgresCatalog) -> None:
    catalog.ensure_collection(collection("droughts"))
    catalog.upsert_items("floods", [item(n, job_id=f"job-{n % 2}", node="stack") for n in range(4)])
    catalog.upsert_items("droughts", [item(1, job_id="job-1")])
    assert ids(catalog, job_id="job-0") == ["tile-0000", "tile-0002"]
    assert len(ids(catalog, content_hash=sha256(1))) == 2
    assert ids(catalog, properties={"platform:dataset_id": 3}) == ["tile-0003"]
    assert ids(catalog, properties={"platform:dataset_id": "3"}) == []
    assert ids(catalog, collections=["droughts"], ids=["tile-0001", "tile-0002"]) == ["tile-0001"]
    assert ids(catalog, ids=[]) == []
    assert catalog.jobs_ending("b-1") == ["job-1"]


def test_pages_follow_each_other_without_gaps(catalog: PostgresCatalog) -> None:
    catalog.upsert_items("floods", [item(number) for number in range(7)])
    page = catalog.search(limit=3)
    assert [stored["id"] for stored in page.items] == ["tile-0000", "tile-0001", "tile-0002"]
    catalog.delete_items("floods", ["tile-0002"])
    assert page.token is not None
    page = catalog.search(limit=4, token=page.token)
    assert ([stored["id"] for stored in page.items][-1], page.token) == ("tile-0006", None)
    with pytest.raises(InvalidInput, match="not a page token"):
        catalog.search(token="?")
    with pytest.raises(InvalidInput, match="at least one item"):
        catalog.search(limit=0)
    with pytest.raises(InvalidInput, match="The search is not valid"):
        catalog.search(bbox=[0, 0, 1])
    with pytest.raises(InvalidInput, match="The search is not valid"):
        catalog.search(datetime="now")


def test_a_snapshot_does_not_see_later_changes(catalog: PostgresCatalog) -> None:
    catalog.upsert_items("floods", [item(1)])
    with catalog.snapshot() as snapshot:
        assert ids(snapshot) == ["tile-0001"]
        catalog.upsert_items("floods", [item(2)])
        assert (ids(snapshot), snapshot.summaries()[0].items) == (["tile-0001"], 1)
    assert len(ids(catalog)) == 2


def test_searches_by_box_time_and_property_use_their_indexes(catalog: PostgresCatalog, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("set enable_seqscan = off")
        for condition, index in (
            ("box && box '(1,1),(0,0)'", "items_by_box"),
            ("during && tstzrange(now(), now(), '[]')", "items_by_time"),
            ("(content -> 'properties') @> '{\"a:b\": 1}'", "items_by_property"),
        ):
            statement = f"explain select 1 from stac.items where {condition}"
            plan = connection.execute(statement.encode()).fetchall()
            assert index in str(plan)


def test_a_database_that_does_not_answer_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        PostgresCatalog("postgresql://user@127.0.0.1:1/nothing").summaries()


@pytest.mark.anyio
async def test_a_connection_that_dies_during_a_registration_writes_nothing(
    catalog: PostgresCatalog, database_url: str
) -> None:
    catalog.upsert_items("floods", [item(2)])
    items = [item(1), item(2, title="Depth"), item(3)]
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database_url) as holder,
        psycopg.connect(database_url, autocommit=True) as killer,
    ):
        holder.execute("select from stac.items where item_id = 'tile-0002' for update")
        waiting = pool.submit(catalog.upsert_items, "floods", items)

        async def killed() -> bool:
            ended = killer.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'holdfast catalog'"
                " and wait_event_type = 'Lock'"
            ).fetchall()
            return bool(ended)

        await eventually(killed)
        with pytest.raises(Unreachable, match="does not answer"):
            waiting.result()
    assert ids(catalog) == ["tile-0002"]
    assert catalog.upsert_items("floods", items) == Upserted(created=2, updated=1)
