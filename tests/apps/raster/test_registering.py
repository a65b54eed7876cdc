"""Tiles are registered page by page: their number is not limited by what one value may hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

import holdfast.apps.catalog.handlers as catalog_handlers
import holdfast.apps.raster.handlers as raster_handlers
from holdfast import load_file
from holdfast.apps import raster
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.define.registry import Registry
from holdfast.operations.verbs import Verb, VerbRequest
from tests.apps.raster.making import make, ramp
from tests.conftest import eventually
from tests.running import Engine, nodes, running

pytestmark = pytest.mark.anyio
INGEST = load_file(Path(raster.__file__).parent / "workflows" / "raster_ingest.yaml")
REFUSE = "alter table stac.items add constraint tile_7_is_refused check (item_id not like '%tile_00007') not valid"
ALLOW = "alter table stac.items drop constraint tile_7_is_refused"
LIMIT_BYTES = 6_000
"""Twelve tiles fit into the list of a scheme, but what is known of them when they are made does not."""


def handlers() -> Registry:
    known = Registry()
    known.add_module(raster_handlers)
    known.add_module(catalog_handlers)
    return known


def execute(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)


async def batches_completed(engine: Engine, job_id: str) -> Counter[Any]:
    return Counter(
        event["index"]
        for event in await engine.events(job_id)
        if event["event"] == "task_completed" and event["node"] == "register_tiles"
    )


async def test_more_tiles_than_one_value_may_hold_are_registered_and_a_failed_batch_alone_runs_again(
    storage: Path, database_url: str
) -> None:
    make(storage / "bronze" / "x.tif", ramp(1, 1500, 2000, "uint8"))
    catalog = PostgresCatalog(database_url)
    catalog.make_ready()
    execute(database_url, REFUSE)
    inputs: dict[str, Any] = {"source": "bronze/x.tif", "target": "silver/x", "datetime": "2024-06-01T00:00:00Z"}
    inputs |= {"tile_above_mb": 1, "tile_size_px": 512, "batch": 5}
    async with running(database_url, handlers(), payload_limit_bytes=LIMIT_BYTES) as engine:
        job_id = await engine.submit(INGEST, inputs)
        status = await engine.finished(job_id, 120)
        made = await engine.store.results_page(job_id, "tiles", -1, 99, 99) or ()
        facts = [orjson.loads(one.output or b"") for one in made]
        assert len(facts) == 12 and len(orjson.dumps(facts)) > LIMIT_BYTES

        assert (status["status"], nodes(status)["register_tiles"]["status"]) == ("partial", "failed")
        assert status["error"]["code"] == "STAC_REFUSED"
        assert await batches_completed(engine, job_id) == Counter({0: 1, 2: 1})
        assert len(list(all_items(catalog))) == 7, "a batch registers all of its items or none"

        execute(database_url, ALLOW)
        await engine.client.send(job_id, VerbRequest(Verb.RETRY, "register_tiles"))

        async def is_completed() -> bool:
            return bool((await engine.status(job_id))["status"] == "completed")

        await eventually(is_completed)
        status = await engine.status(job_id)
        assert await batches_completed(engine, job_id) == Counter({0: 1, 1: 1, 2: 1})
        plan = await engine.client.plan(job_id, VerbRequest(Verb.CLEAR, "tiles", items=(5,)))
        again = {step.node: step.items for step in plan.steps if step.action == "rerun"}
        assert again == {"tiles": 1, "register_tiles": 2, "tidy": 1}, "its own batch, and the sum of the batches"
    assert status["result"]["tiles"] == 12
    assert status["result"]["items"] == {
        "collection_id": "rasters",
        "items": 12,
        "created": 12,
        "updated": 0,
        "unchanged": 0,
    }
    digests = {item["id"]: item["properties"]["holdfast:content_hash"] for item in all_items(catalog)}
    assert digests == {one["id"]: one["sha256"] for one in facts}
    assert list((storage / "scratch").iterdir()) == []
