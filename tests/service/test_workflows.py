"""Workflows over HTTP: registering, checking and reading definitions, and how their jobs go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from holdfast.errors import Permanent
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

MAPS = """# Draws maps.
workflow_id: maps
version: 3
inputs:
  region: {type: string, required: true, pattern: '^[A-Z]{3}$', description: Three letters.}
  scale: {type: integer, default: 10, minimum: 1}
  names: {type: array, max_length: 4}
nodes:
  draw: {handler: draw, params: {region: '{{ inputs.region }}'}, retry: {max_retries: 0}}
"""
YAML = {"content-type": "application/yaml"}


def draw(region: str) -> str:
    if region == "BAD":
        raise Permanent("no such region")
    return region


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with running(database_url, registry(draw=draw)), serving_http(database_url) as service:
        yield service


async def registered(client: Any, text: str = MAPS, **headers: str) -> Any:
    return await client.post(
        f"{API}/workflows", params={"file": "maps.yaml"}, content=text.encode(), headers={**YAML, **headers}
    )


async def test_a_registered_text_is_kept_as_it_came(service: Service) -> None:
    client = await service.as_role("submitter")
    first = await registered(client)
    assert (first.status_code, first.json()["answer"], first.json()["version"]) == (201, "registered", "3")
    assert (await registered(client)).status_code == 200
    source = (await client.get(f"{API}/workflows/maps/source")).json()
    assert (source["content"], source["kind"], source["file"]) == (MAPS, "yaml", "maps.yaml")
    spelled = await registered(client, MAPS.replace("# Draws", "# Really draws"))
    assert spelled.json()["definition_hash"] == first.json()["definition_hash"]
    assert "Really" in (await client.get(f"{API}/workflows/maps/source")).json()["content"]
    document = orjson.dumps({"workflow_id": "maps", "nodes": {"a": {"handler": "echo"}}})
    other = await registered(client, document.decode(), **{"content-type": "application/json"})
    assert other.status_code == 201
    versions = (await client.get(f"{API}/workflows/maps/versions")).json()["items"]
    assert [(one["version"], one["current"], one["source"]) for one in versions] == [
        ("1", True, "json"),
        ("3", False, "yaml"),
    ]
    old = {"definition_hash": first.json()["definition_hash"]}
    assert (await client.get(f"{API}/workflows/maps/source", params=old)).json()["version"] == "3"
    assert (await client.get(f"{API}/workflows/maps", params=old)).json()["definition"]["version"] == "3"
    page = (await client.get(f"{API}/workflows/maps/versions", params={"limit": 1})).json()
    rest = await client.get(f"{API}/workflows/maps/versions", params={"limit": 1, "cursor": page["next_cursor"]})
    assert (rest.json()["items"][0]["version"], rest.json()["next_cursor"]) == ("3", None)


async def test_a_submission_keeps_its_text_and_never_replaces_one_that_is_registered(service: Service) -> None:
    client = await service.as_role("submitter")
    await registered(client)
    document = {"workflow_id": "own", "nodes": {"a": {"handler": "echo"}}}
    await client.post(f"{API}/jobs", json={"definition": document})
    source = (await client.get(f"{API}/workflows/own/source")).json()
    assert (source["kind"], orjson.loads(source["content"])) == ("json", document)
    await registered(client, "# as YAML\nworkflow_id: own\nnodes: {a: {handler: echo}}\n")
    await client.post(f"{API}/jobs", json={"definition": document, "force": True})
    assert (await client.get(f"{API}/workflows/own/source")).json()["kind"] == "yaml"


async def test_a_wrong_definition_is_refused_with_the_places_of_its_own_text(service: Service) -> None:
    client = await service.as_role("submitter")
    wrong = MAPS.replace("handler: draw", "handlr: draw")
    refused = await registered(client, wrong)
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_DEFINITION")
    assert next((one["line"], one["file"]) for one in refused.json()["errors"]) == (9, "maps.yaml")
    checked = await client.post(f"{API}/workflows/validate", content=wrong.encode(), headers=YAML)
    assert (checked.status_code, checked.json()["valid"]) == (200, False)
    assert [one["line"] for one in checked.json()["errors"]] == [9] * len(checked.json()["errors"])
    right = await client.post(f"{API}/workflows/validate", content=MAPS.encode(), headers=YAML)
    assert (right.json()["valid"], right.json()["workflow_id"], right.json()["errors"]) == (True, "maps", [])
    assert (await client.get(f"{API}/workflows")).json()["items"] == []


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"workflow_id: a", "text/html"),
        (b"workflow_id: a", ""),
        (b'{"workflow_id": "a", "workflow_id": "b"}', "application/json"),
        (b"\xff", "application/yaml"),
        (b"a: &a [*a]", "application/yaml"),
        (b"!!python/object:os.system {}", "application/yaml"),
        (b"a: 1\n---\nb: 2", "application/yaml"),
        (b"", "application/yaml"),
        (b"[" * 5000, "application/json"),
        (b"[" * 5000, "application/yaml"),
    ],
)
async def test_a_text_that_is_no_definition_is_refused(service: Service, content: bytes, kind: str) -> None:
    client = await service.as_role("submitter")
    refused = await client.post(f"{API}/workflows", content=content, headers={"content-type": kind})
    assert refused.status_code == 422
    assert refused.json()["code"] in ("INVALID_INPUT", "INVALID_DEFINITION")


async def test_the_inputs_are_a_json_schema_and_the_graph_has_three_forms(service: Service) -> None:
    client = await service.as_role("submitter")
    await registered(client)
    schema = (await client.get(f"{API}/workflows/maps/inputs")).json()
    assert schema["required"] == ["region"]
    assert schema["properties"]["region"] == {
        "type": "string",
        "pattern": "^[A-Z]{3}$",
        "description": "Three letters.",
    }
    assert schema["properties"]["scale"] == {"type": "integer", "minimum": 1, "default": 10}
    assert schema["properties"]["names"] == {"anyOf": [{"type": "array", "maxItems": 4}, {"type": "null"}]}
    graph = (await client.get(f"{API}/workflows/maps/graph")).json()
    assert [(one["node"], one["handler"]) for one in graph["nodes"]] == [("draw", "draw")]
    svg = await client.get(f"{API}/workflows/maps/graph", params={"format": "svg"})
    assert svg.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in svg.headers["content-security-policy"]
    assert svg.text.startswith("<svg")
    mermaid = await client.get(f"{API}/workflows/maps/graph", params={"format": "mermaid"})
    assert mermaid.text.startswith("flowchart TD")
    assert (await client.get(f"{API}/workflows/maps/graph", params={"format": "png"})).status_code == 422


async def test_statistics_are_those_of_the_workflow_and_the_tenant(service: Service) -> None:
    client, other = await service.as_role("submitter"), await service.as_role("submitter", tenant="other")
    for one in (client, other):
        await registered(one)
    for one, region in ((client, "CIV"), (client, "GHA"), (client, "BAD"), (other, "BAD")):
        made = await one.post(f"{API}/jobs", json={"workflow": "maps", "inputs": {"region": region}})
        await ended(one, made.json()["job_id"])
    stats = (await client.get(f"{API}/workflows/maps/stats")).json()
    assert (stats["jobs"], stats["statuses"]["completed"], stats["statuses"]["failed"]) == (3, 2, 1)
    assert 0 < stats["p50_seconds"] <= stats["p95_seconds"]
    (node,) = stats["nodes"]
    assert (node["node"], node["completed"], node["failed"]) == ("draw", 2, 1)
    assert node["failure_share"] == pytest.approx(1 / 3)


async def test_the_workflows_of_another_tenant_do_not_exist(service: Service) -> None:
    client, other = await service.as_role("submitter"), await service.as_role("viewer", tenant="other")
    made = (await registered(client)).json()
    for path in ("", "/versions", "/source", "/graph", "/inputs", "/stats"):
        assert (await client.get(f"{API}/workflows/maps{path}")).status_code == 200
        answers = [await other.get(f"{API}/workflows/{name}{path}") for name in ("maps", "nope")]
        assert [one.status_code for one in answers] == [404, 404]
        known, unknown = (one.json()["detail"] for one in answers)
        assert known.replace("maps", "nope") == unknown
    by_hash = {"definition_hash": made["definition_hash"]}
    assert (await other.get(f"{API}/workflows/maps/source", params=by_hash)).status_code == 404
    viewer = await service.as_role("viewer")
    assert (await registered(viewer)).status_code == 403
