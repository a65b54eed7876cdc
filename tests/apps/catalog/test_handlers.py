"""The handlers of the catalog in real workflows, on a real engine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest

from holdfast import Context, Permanent, Workflow, handler
from holdfast.apps.catalog import handlers
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.testing import JobResult, run_workflow
from tests.apps.catalog.conftest import facts, item, sha256

FOREIGN = "https://example.com/tides/v1.0.0/schema.json"


@handler("test.stack")
def stack(number: int) -> dict[str, Any]:
    """The output of a raster handler that wrote a file."""
    return facts(number, datetime=None)


def registering(**params: Any) -> Workflow:
    flow = Workflow("registering", inputs={"numbers": {"type": "array", "default": [1, 2, 3]}})
    made = flow.task(
        "collection",
        handler=handlers.ensure_collection,
        params={"collection_id": "floods", "title": "Floods", "license": "CC-BY-4.0"},
    )
    each = flow.fan_out(
        "stack", source="{{ inputs.numbers }}", handler=stack, params={"number": "{{ item }}"}, after=made
    )
    defaults = {"collection_id": "floods", "from_node": "stack", "properties": {"datetime": "2020-01-01T00:00:00Z"}}
    flow.task("register", handler=handlers.register_items, params=defaults | params, after=each)
    return flow


def run_one(function: Any, database_url: str, **params: Any) -> JobResult:
    flow = Workflow("one")
    flow.task("only", handler=function, params=params, retry={"max_retries": 1})
    return run_workflow(flow, database_url=database_url)


def test_the_outputs_of_a_fan_out_are_registered_with_their_job(database_url: str) -> None:
    job = run_workflow(registering(), database_url=database_url)
    assert job.status == "completed", job.error
    assert (job.outputs["collection"]["collection_id"], job.outputs["collection"]["change"]) == ("floods", "created")
    assert job.result == {"collection_id": "floods", "items": 3, "created": 3, "updated": 0, "unchanged": 0}
    catalog = PostgresCatalog(database_url)
    items = list(all_items(catalog, job_id=job.job_id))
    assert [one["id"] for one in items] == ["tile-0001", "tile-0002", "tile-0003"]
    assert {one["properties"]["holdfast:node"] for one in items} == {"stack"}
    (by_hash,) = catalog.search(content_hash=sha256(2)).items
    assert by_hash["properties"]["holdfast:job_id"] == job.job_id
    again = run_workflow(registering(), database_url=database_url)
    assert again.outputs["collection"]["change"] == "unchanged"
    assert (again.result["created"], again.result["unchanged"]) == (0, 3)


def test_an_invalid_item_fails_permanently_and_no_item_is_registered(
    catalog: PostgresCatalog, database_url: str
) -> None:
    broken = item(2)
    del broken["assets"]["data"]["href"]
    job = run_one(handlers.register_items, database_url, collection_id="floods", items=[item(1), broken, facts(3)])
    assert (job.status, job.nodes["only"]["attempt"]) == ("failed", 1)
    assert job.error is not None
    assert (job.error["code"], job.error["class"]) == ("STAC_INVALID", "permanent")
    assert "Item tile-0002 is not valid: assets/data: 'href' is a required property" in job.error["message"]
    assert catalog.search().items == []


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"collection_id": "droughts", "facts": facts(1)}, "STAC_COLLECTION_UNKNOWN", "no collection droughts"),
        ({"collection_id": "floods", "facts": {"id": "a"}}, "STAC_INVALID", "Item a is not valid: it has neither bbox"),
        ({"collection_id": "floods", "item": {"type": "Feature", "id": "a"}}, "STAC_INVALID", "stac_version is None"),
        ({"collection_id": "floods"}, "STAC_INVALID", "one of 'item', 'facts' and 'cog_blob'"),
        ({"collection_id": "floods", "facts": "{{ 7 }}"}, "CONTRACT_VIOLATION", "facts"),
        ({"collection_id": "floods", "cog_blob": "a/b.tif"}, "STAC_INVALID", "its 'validation' is missing"),
        ({"collection_id": "floods", "cog_blob": "a/b", "validation": {"bands": 3}}, "STAC_INVALID", "list of bands"),
    ],
)
def test_a_permanent_error_is_not_retried(
    catalog: PostgresCatalog, database_url: str, params: dict[str, Any], code: str, message: str
) -> None:
    job = run_one(handlers.register_item, database_url, **params)
    assert job.error is not None
    assert (job.error["code"], job.error["class"], job.error["attempt"]) == (code, "permanent", 1)
    assert message in job.error["message"]


def test_one_item_is_registered_from_stac_or_from_facts(catalog: PostgresCatalog, database_url: str) -> None:
    by_facts = run_one(handlers.register_item, database_url, collection_id="floods", facts=facts(1))
    assert by_facts.result == {"collection_id": "floods", "item_id": "tile-0001", "change": "created", "inserted": True}
    same = run_one(handlers.register_item, database_url, collection_id="floods", item=item(1))
    assert same.result["change"] == "unchanged"
    other = run_one(handlers.register_item, database_url, collection_id="floods", item=item(1, title="Depth"))
    assert other.result["change"] == "updated"
    stored = catalog.get("floods", "tile-0001")
    assert stored is not None
    assert stored["properties"]["holdfast:job_id"] == other.job_id


def test_an_item_that_names_its_job_keeps_it(catalog: PostgresCatalog, database_url: str) -> None:
    run_one(handlers.register_item, database_url, collection_id="floods", facts=facts(1, job_id="earlier", node="n"))
    assert [one["id"] for one in catalog.search(job_id="earlier").items] == ["tile-0001"]


def test_an_invalid_collection_is_refused(database_url: str) -> None:
    job = run_one(handlers.ensure_collection, database_url, collection_id="floods", properties={"summaries": 7})
    assert job.error is not None
    assert (job.error["code"], job.error["class"]) == ("STAC_INVALID", "permanent")
    assert "summaries" in job.error["message"]


def test_a_dead_connection_is_retried(catalog: PostgresCatalog, database_url: str) -> None:
    attempts: list[int] = []

    @handler("test.register")
    def register(*, ctx: Context) -> Any:
        attempts.append(ctx.attempt)
        url = database_url if ctx.attempt > 1 else "postgresql://user@127.0.0.1:1/nothing"
        return handlers.register_item("floods", facts=facts(1), ctx=Elsewhere(ctx, url))  # type: ignore[arg-type]

    flow = Workflow("one")
    flow.task("only", handler=register)
    job = run_workflow(flow, database_url=database_url)
    assert (job.status, attempts) == ("completed", [1, 2])
    (event_data,) = [event["data"] for event in job.events if event["event"] == "node_retry_scheduled"]
    assert event_data["code"] == "STAC_UNREACHABLE"


class Elsewhere:
    """A context with a different database URL."""

    def __init__(self, ctx: Context, database_url: str) -> None:
        self._ctx = ctx
        self.database_url = database_url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def test_fields_without_a_local_schema_get_a_warning(catalog: PostgresCatalog, database_url: str) -> None:
    foreign = {**item(1), "stac_extensions": [FOREIGN]}
    job = run_one(handlers.register_items, database_url, collection_id="floods", items=[foreign])
    assert job.status == "completed"
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select extra from holdfast.attempts where job_id = %s", (job.job_id,)).fetchall()
    assert FOREIGN in str(rows)


def test_without_the_extra_the_error_says_what_to_install() -> None:
    """Runs in a process that cannot import pystac. The modules themselves can be imported."""
    code = """
import sys
sys.modules["pystac"] = sys.modules["numpy"] = sys.modules["rasterio"] = None
import holdfast.apps.catalog.commands
assert "psycopg" not in sys.modules, "every `holdfast --help` and every worker would wait for it"
from holdfast.apps.catalog.handlers import ensure_collection
from holdfast import Permanent
try:
    ensure_collection("floods", ctx=None)
except Permanent as failure:
    print(failure.code, failure)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("EXTRA_MISSING")
    assert "pip install 'holdfast[geo]'" in ran.stdout


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"holdfast:job_id": "x"}, "must not set 'holdfast:job_id': the catalog computes this itself"),
        ({"proj:shape": [1, 2], "created": "x"}, "must not set 'proj:shape', 'created'"),
        ({"datetime": "2020-01-01T00:00:00Z"}, "Give the time with the inputs datetime"),
        ({"title": 5}, "properties/title: 5 is not of type 'string'"),
        ({"note": "a\0b"}, "NUL character"),
    ],
)
def test_properties_that_no_item_can_have_are_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(Permanent) as refused:
        handlers.check_properties(properties)
    assert refused.value.code == "STAC_INVALID" and message in str(refused.value)


def test_properties_of_any_other_name_are_allowed() -> None:
    properties = {"platform:request_id": "req-7", "title": "A map", "platform:nested": {"a": [1]}}
    assert handlers.check_properties(properties) == {"properties": 3}


def test_a_registration_refuses_to_hide_the_job_that_made_an_item(database_url: str) -> None:
    job = run_workflow(registering(properties={"holdfast:job_id": "another"}), database_url=database_url)
    assert job.error is not None
    assert (job.status, job.error["code"]) == ("failed", "STAC_INVALID")
