"""From source tiles to a catalog: every stack is registered once; a failed registration is retried alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import psycopg
import pytest
from rio_cogeo.cogeo import cog_validate

import holdfast.apps.flood as flood
from holdfast import Permanent, load_file, load_text
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.catalog.validating import check_item
from holdfast.apps.flood.registering import finish, item_id
from holdfast.define.registry import Registry
from holdfast.operations.verbs import Verb, VerbRequest
from tests.conftest import eventually
from tests.running import Engine, nodes, running

pytestmark = pytest.mark.anyio
STACK = load_file(Path(flood.__file__).with_name("flood_stack.yaml"))
FREEZE = "alter table stac.items add constraint the_catalog_is_frozen check (false) not valid"
THAW = "alter table stac.items drop constraint the_catalog_is_frozen"


@pytest.fixture
async def engine(home: Path, database_url: str) -> AsyncIterator[Engine]:
    handlers = Registry()
    handlers.add_module(flood)
    async with running(database_url, handlers) as started:
        yield started


def catalog(database_url: str) -> PostgresCatalog:
    return PostgresCatalog(database_url)


def execute(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)


async def test_every_stack_becomes_a_valid_item_with_its_job(engine: Engine, home: Path, database_url: str) -> None:
    job_id = await engine.submit(STACK, {"region": "CIV", "batch": 3})
    status = await engine.finished(job_id, 120)
    assert status["status"] == "completed", status["error"]
    output = status["result"]["catalog"]
    assert (output["items"], output["registered"], output["created"]) == (8, 8, 8)
    assert output["scenarios"] == ["fluvial_undefended", "pluvial_defended"]
    assert nodes(status)["register"]["progress"] == {"done": 3, "total": 3}
    cogs = {"count": 8, "location": "silver/flood/CIV/", "usable": True}
    assert status["outcome"]["deliverables"]["cogs"] == cogs
    items = list(all_items(catalog(database_url), collections=["flood-civ"]))
    for item in items:
        check_item(item)
        asset = item["assets"]["stack"]
        assert cog_validate(home / "storage" / asset["href"], strict=True)[0]
        assert item["properties"]["holdfast:job_id"] == job_id
        assert item["properties"]["holdfast:node"] == "stack"
        assert [band["flood:return_period"] for band in asset["bands"]] == [10, 100, 1000]
    (summary,) = catalog(database_url).summaries(["flood-civ"])
    assert summary.bbox == output["bbox"]
    assert summary.collection["summaries"]["flood:return_periods"] == [10, 100, 1000]

    again = await engine.submit(STACK, {"region": "CIV", "batch": 5})
    output = (await engine.finished(again, 120))["result"]["catalog"]
    assert (output["items"], output["created"], output["unchanged"]) == (8, 0, 8)


async def test_a_refused_registration_leaves_usable_stacks_and_is_retried_alone(
    engine: Engine, home: Path, database_url: str
) -> None:
    catalog(database_url).make_ready()
    execute(database_url, FREEZE)
    job_id = await engine.submit(STACK, {"region": "CIV", "batch": 3})
    status = await engine.finished(job_id, 120)
    assert (status["status"], nodes(status)["register"]["status"]) == ("partial", "failed")
    assert status["error"]["code"] == "STAC_REFUSED"
    assert (status["outcome"]["deliverables"]["cogs"]["count"], status["outcome"]["resume_from"]) == (8, "register")
    made = {path: path.stat().st_mtime_ns for path in (home / "storage/silver").rglob("*.tif")}
    execute(database_url, THAW)

    plan = await engine.client.plan(job_id, VerbRequest(Verb.RETRY, "register"))
    assert {step.node: step.items for step in plan.steps if step.action == "rerun" and step.items} == {"register": 4}
    await engine.client.send(job_id, plan.request)

    async def is_completed() -> bool:
        return bool((await engine.status(job_id))["status"] == "completed")

    await eventually(is_completed)
    assert (await engine.status(job_id))["result"]["catalog"]["created"] == 8
    assert {path: path.stat().st_mtime_ns for path in (home / "storage/silver").rglob("*.tif")} == made


async def test_a_repaired_stack_is_registered_by_its_own_batch_alone(
    engine: Engine, home: Path, database_url: str
) -> None:
    bad = sorted((home / "storage/bronze/flood/CIV/pluvial_defended").glob("*_RP0100.tif"))[0]
    whole = bad.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    tolerant = load_text_with(failures=1)
    job_id = await engine.submit(tolerant, {"region": "CIV", "batch": 3})
    status = await engine.finished(job_id, 120)
    assert (status["status"], status["result"]["catalog"]["registered"]) == ("partial", 7)
    assert nodes(status)["stack"]["counts"]["failed"] == 1

    bad.write_bytes(whole)
    assert not (await engine.client.plan(job_id, VerbRequest(Verb.RESUME))).asks, "nothing of it is worth a question"
    await engine.client.send(job_id, VerbRequest(Verb.RESUME))

    async def is_completed() -> bool:
        return bool((await engine.status(job_id))["status"] == "completed")

    await eventually(is_completed)
    output = (await engine.status(job_id))["result"]["catalog"]
    assert (output["items"], output["registered"]) == (8, 8)
    ran = Counter(
        (event["node"], event["index"])
        for event in await engine.events(job_id)
        if event["event"] == "task_completed" and event["node"] == "register"
    )
    assert sorted(ran.values()) == [1, 1, 2], "one batch of three should run again"


def load_text_with(failures: int) -> Any:
    text = Path(flood.__file__).with_name("flood_stack.yaml").read_text()
    return load_text(text.replace('failures: "1%"', f"failures: {failures}"))


async def test_finalize_fails_and_names_missing_and_outdated_stacks(engine: Engine, database_url: str) -> None:
    job_id = await engine.submit(STACK, {"region": "CIV"})
    assert (await engine.finished(job_id, 120))["status"] == "completed"
    stacks = [
        orjson.loads(one.output or b"") for one in await engine.store.results_page(job_id, "stack", -1, 99, 99) or ()
    ]
    assert len(stacks) == 8

    def results(node: str) -> Any:
        return iter(stacks if node == "stack" else [])

    context: Any = SimpleNamespace(database_url=database_url, node="register", job_id=job_id, results=results)
    assert finish("flood-civ", None, "stack", context)["registered"] == 8
    catalog(database_url).delete_items("flood-civ", [item_id(stacks[0])])
    stacks[1]["sha256"] = "0" * 64
    with pytest.raises(Permanent, match=f"2 of 8 stacks .*: {item_id(stacks[0])}, {item_id(stacks[1])}") as failed:
        finish("flood-civ", None, "stack", context)
    assert failed.value.code == "FLOOD_UNREGISTERED"
