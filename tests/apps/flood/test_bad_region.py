"""A region with every defect: errors name the bad files, the rest is usable, repaired files complete the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rio_cogeo.cogeo import cog_validate

import holdfast.apps.flood as flood
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.catalog.validating import check_item
from holdfast.apps.flood.generate import DEFECTS, generate
from holdfast.define.registry import Registry
from holdfast.operations.verbs import Verb, VerbRequest
from tests.apps.flood.test_registering import load_text_with
from tests.conftest import eventually
from tests.running import Engine, nodes, running

pytestmark = pytest.mark.anyio
GROUPS, BATCH = 12, 2
CODES = {
    "missing": "FLOOD_MISSING",
    "empty": "RASTER_CORRUPTED",
    "truncated": "RASTER_CORRUPTED",
    "wrong_crs": "FLOOD_MISMATCH",
    "wrong_size": "FLOOD_MISMATCH",
}
"""A file without a single value is missing here: it can be correct, so it gets only a warning."""


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "storage"


@pytest.fixture
async def engine(storage: Path, database_url: str) -> AsyncIterator[Engine]:
    handlers = Registry()
    handlers.add_module(flood)
    async with running(database_url, handlers, concurrency=2) as started:
        yield started


def make_region(storage: Path, **defects: int) -> dict[str, Any]:
    return generate("CIV", GROUPS, storage / "bronze/flood", 5, return_periods=(10, 100), defects=defects, workers=1)


def targets(storage: Path) -> dict[str, int]:
    """All files in the folder of stacks, also hidden ones, with their modification times."""
    folder = storage / "silver/flood"
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def group_of(file: str) -> str:
    return file.rpartition("_RP")[0]


async def ran(engine: Engine, job_id: str, node: str) -> Counter[int]:
    """How often each task of a node completed."""
    events = await engine.events(job_id)
    return Counter(one["index"] for one in events if (one["event"], one["node"]) == ("task_completed", node))


def registered(database_url: str, storage: Path) -> set[str]:
    """The registered stacks; checks that every item is valid and every file is a COG."""
    hrefs = set()
    for item in all_items(PostgresCatalog(database_url), collections=["flood-civ"]):
        check_item(item)
        href = item["assets"]["stack"]["href"]
        assert cog_validate(storage / href, strict=True)[0]
        hrefs.add(href.removeprefix("silver/flood/"))
    return hrefs


async def test_a_region_with_every_defect_is_usable_and_completes_when_its_files_are_repaired(
    engine: Engine, storage: Path, database_url: str
) -> None:
    made = make_region(storage, **dict.fromkeys(DEFECTS, 1))
    spoiled = {defect["kind"]: defect["file"] for defect in made["defects"]}
    bad = {group_of(spoiled[kind]) for kind in CODES}
    job_id = await engine.submit(load_text_with(failures=len(CODES)), {"region": "CIV", "batch": BATCH})
    status = await engine.finished(job_id, 120)

    assert status["status"] == "partial", status["error"]
    assert nodes(status)["stack"]["counts"]["failed"] == len(CODES)
    attempts = await engine.reader.attempts(job_id, "stack", None, 100)
    failures = [attempt for attempt in attempts if attempt.error is not None]
    assert len(failures) == len(CODES), "permanent failures should not be retried"
    for kind, code in CODES.items():
        (error,) = [one.error for one in failures if one.error and spoiled[kind] in one.error.message]
        assert (error.code, error.is_permanent) == (code, True), kind
    warnings = [warning for one in attempts for warning in (one.extra or {}).get("warnings", ())]
    assert warnings == [f"rp{spoiled['all_nodata'][-8:-4]}: every pixel is nodata"]
    whole = {f"{group}.tif" for group in made["groups"] if group not in bad}
    first = targets(storage)
    assert set(first) == whole, "failed stacks should leave no files"
    assert registered(database_url, storage) == whole
    assert status["result"]["catalog"]["registered"] == len(whole)

    make_region(storage)
    failed = {attempt.item for attempt in failures}
    await engine.client.send(job_id, VerbRequest(Verb.RESUME))

    async def is_completed() -> bool:
        return bool((await engine.status(job_id))["status"] == "completed")

    await eventually(is_completed, 120)
    all_of_it = {f"{group}.tif" for group in made["groups"]}
    second = targets(storage)
    assert set(second) == registered(database_url, storage) == all_of_it
    assert {name: second[name] for name in first} == first, "finished stacks should not be touched"
    assert await ran(engine, job_id, "stack") == Counter(range(GROUPS)), (
        "each stack should complete once over all generations"
    )
    again = {item // BATCH for item in failed}
    assert len(again) < GROUPS // BATCH, "at least one batch should be complete from the start"
    expected = {batch: 1 + (batch in again) for batch in range(GROUPS // BATCH)}
    assert await ran(engine, job_id, "register") == expected
