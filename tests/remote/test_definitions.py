"""Definitions that travel over a URL: the service knows the same workflow, and keeps the text of its file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Client, Workflow, load_file, load_text
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.workflow_file import load_workflow
from holdfast.errors import InvalidInput, NotFound
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.submitting import Submission
from tests.conftest import examples
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio

ROOT = examples().parent
FILES = [
    *examples().glob("*.yaml"),
    *(ROOT / "src" / "holdfast" / "apps").rglob("*.yaml"),
    *(ROOT / "tests" / "define" / "files").glob("*.yaml"),
]
TENTH = 'workflow_id: tenth\nversion: 1.10\nnodes: {a: {handler: echo, params: {x: "{{ 1 }}"}}}\n'
BRANCHES = """
workflow_id: branches
nodes:
  ask: {type: conditional, condition: "{{ true }}", branches: {true: yes_node, false: no_node}}
  yes_node: {handler: echo}
  no_node: {handler: echo}
"""


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[Client]:
    async with (
        serving_http(database_url) as service,
        Client.connect(service.url, api_key=await service.key("operator")) as client,
    ):
        yield client


def built() -> Definition:
    flow = Workflow("built", version="1.10")
    flow.task("a", handler="echo", params={"x": 1.0, "y": [None, True]})
    return flow.definition()


async def test_every_example_is_the_same_workflow_at_the_service(client: Client) -> None:
    assert len(FILES) > 5
    for file in FILES:
        definition = load_file(file)
        registered = await client.register(definition)
        assert registered.definition_hash == definition.hash(), file.name
        assert await client.definition(definition.workflow_id) == definition, file.name
        source = await client.workflow_source(definition.workflow_id)
        assert (source.content, source.file) == (file.read_text(), file.name)


@pytest.mark.parametrize("text", [TENTH, BRANCHES])
async def test_spellings_of_yaml_keep_their_meaning(client: Client, text: str) -> None:
    definition = load_text(text)
    made = await client.submit(definition)
    assert (await client.job(made.job_id)).definition == definition
    # As in a correction, whose file another one precedes.
    (again,) = await client.submit_batch([SubmitRequest(definition)])
    assert isinstance(again, Submission)
    assert (again.job_id, again.definition_changed) == (made.job_id, False)


async def test_a_workflow_that_a_program_has_built_needs_no_file(client: Client) -> None:
    definition = built()
    made = await client.submit(definition)
    job = await client.job(made.job_id)
    assert (job.definition, job.version) == (definition, "1.10")


async def test_the_text_of_a_python_file_is_kept(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'from holdfast import Workflow\n\nflow = Workflow("of_python")\nflow.task("a", handler="echo")\n'
    Path("my_flow_of_python.py").write_text(text)
    definition = load_workflow(Path("my_flow_of_python.py")).definition
    made = await client.submit(definition)
    assert (await client.job(made.job_id)).definition == definition
    source = await client.workflow_source("of_python")
    assert (source.kind, source.content, source.file) == ("python", text, "my_flow_of_python.py")


async def test_a_definition_that_was_read_from_the_service_is_submitted_by_its_hash(client: Client) -> None:
    first, second = (load_text(f"workflow_id: w\nversion: {n}\nnodes: {{a: {{handler: echo}}}}") for n in (1, 2))
    await client.register(first)
    read = await client.definition("w")
    await client.register(second)
    assert (await client.submit(read, key="a")).version == "1", "not the current one"
    unknown = read_pinned(built().canonical_bytes())
    with pytest.raises(NotFound, match="'built'"):
        await client.submit(unknown)
    with pytest.raises(InvalidInput, match="was read from a store"):
        await client.register(unknown)
