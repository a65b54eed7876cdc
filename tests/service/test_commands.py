"""Direct commands: checked both ways, run once in the process that is asked, for those who may, with one audit line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, Field, SecretStr

from holdfast.client import Client
from holdfast.errors import Forbidden, InvalidInput, Refused
from holdfast.extend.direct_commands import CommandContext, command
from holdfast.masking import keep_task_secret
from holdfast.operations import app_functions, commands
from holdfast.operations.commands import CommandFailed, known_commands
from holdfast.operations.scope import Scope
from holdfast.sync_client import SyncClient
from tests.conftest import eventually
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio
CALLS: list[Any] = []
TEXT = "workflow_id: made\nversion: '3'\nnodes: {a: {handler: echo}}\n"


class Publish(BaseModel):
    """What to publish."""

    name: str = Field(min_length=1, max_length=20)
    copies: int = Field(1, ge=1)
    password: SecretStr | None = None
    parts: list[Publish] = []


@dataclass
class Published:
    """What was published."""

    name: str
    tenant: str
    by: str
    places: list[str] = field(default_factory=list)


@command("things.publish", input=Publish, output=Published, scope="operate")
async def publish(given: Publish, context: CommandContext) -> Published:
    """Publish a thing.

    It may be called again.
    """
    CALLS.append(given)
    assert context.database_url.startswith("postgresql://")
    assert await context.client.jobs(limit=1) is not None
    return Published(given.name, context.tenant, context.identity.name, [f"shelf {n}" for n in range(given.copies)])


@command("things.look", input=Publish, output=Published, scope="read")
def look(given: Publish, context: CommandContext) -> dict[str, Any]:
    """A plain function runs in a thread."""
    if given.name == "wrong":
        return {"name": 3}
    if given.name == "refused":
        raise Refused("It is not ready.", remedy="Wait.")
    if given.name == "broken":
        raise RuntimeError("with a detail of the inside")
    return {"name": given.name, "tenant": context.tenant, "by": context.identity.name}


@command("things.wait", input=Publish, output=Published, scope="submit")
async def wait(given: Publish, context: CommandContext) -> Any:
    """Takes longer than its caller waits."""
    CALLS.append("begun")
    try:
        await asyncio.Event().wait()
    finally:
        CALLS.append("cancelled")


@command("things.admin", input=Publish, output=Published, scope="admin")
async def administer(given: Publish, context: CommandContext) -> Any:
    """Only for administrators."""
    return Published(given.name, context.tenant, context.identity.name)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs this module as an app, and one that cannot be imported."""
    points = [
        EntryPoint("builtin", "holdfast.extend.builtin_commands", commands.ENTRY_POINT_GROUP),
        EntryPoint("broken", "no_such_module", commands.ENTRY_POINT_GROUP),
        EntryPoint("empty", "json", commands.ENTRY_POINT_GROUP),
        EntryPoint("things", __name__, commands.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(app_functions, "entry_points", lambda group: points)
    known_commands.cache_clear()
    CALLS.clear()
    # `from __future__ import annotations` leaves names that pydantic looks for in the module.
    assert __name__ in sys.modules


@pytest.fixture(autouse=True)
def forget() -> Any:
    yield
    known_commands.cache_clear()


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


async def call(client: httpx2.AsyncClient, command_name: str, **given: Any) -> httpx2.Response:
    return await client.post(f"{API}/commands/{command_name}", json=given)


async def audited(service: Service, action: str = "command", **wanted: Any) -> list[dict[str, Any]]:
    client = await service.as_role("admin", tenant="*")
    answer = await client.get(f"{API}/audit", params={"action": action, **wanted})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_the_list_has_what_each_command_takes_answers_and_needs(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await (await service.as_role("viewer")).get(f"{API}/commands")
    listed = {one["name"]: one for one in answer.json()["items"]}
    assert list(listed) == [
        "job.prune", "things.admin", "things.look", "things.publish", "things.wait", "workflow.register",
    ]  # fmt: skip
    made = listed["things.publish"]
    assert (made["scope"], made["description"]) == ("operate", "Publish a thing.\n\nIt may be called again.")
    assert made["input"]["$defs"]["Publish"]["properties"]["name"]["maxLength"] == 20
    assert made["output"]["required"] == ["name", "tenant", "by"]
    left_out = [record.getMessage() for record in caplog.records if "app_left_out" in record.getMessage()]
    assert len(left_out) == 2 and "no_such_module" in left_out[0] and "json has no commands" in left_out[1]


async def test_a_command_runs_once_for_its_caller_and_leaves_one_line_of_the_audit(service: Service) -> None:
    keep_task_secret("a secret of a task")
    client = await service.as_role("operator", tenant="acme")
    given = {"name": "a secret of a task", "copies": 2, "password": "hidden-by-the-model"}
    answer = await call(client, "things.publish", **given)
    assert answer.status_code == 200, answer.text
    assert answer.json()["tenant"] == "acme" and answer.json()["by"].startswith("test (hf_")
    assert answer.json()["places"] == ["shelf 0", "shelf 1"]
    assert [one.password.get_secret_value() for one in CALLS] == ["hidden-by-the-model"]
    (line,) = await audited(service)
    assert (line["action"], line["instance"], line["tenant"]) == ("command.run", "things.publish", "acme")
    assert line["request_id"] == answer.headers["X-Request-Id"] and line["before"] is None
    assert line["after"] == {"input": {"name": "***", "copies": 2, "password": "**********", "parts": []}}


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({}, "name", "Field required."),
        ({"name": "x", "copies": 0}, "copies", "Input should be greater than or equal to 1."),
        ({"name": "x", "parts": [{"name": ""}]}, "parts.0.name", "String should have at least 1 character."),
        ({"nam": "x", "name": "y"}, "nam", "'nam' is not known."),
    ],
)
async def test_an_input_that_does_not_fit_is_refused_with_the_place_and_changes_nothing(
    service: Service, given: dict[str, Any], path: str, message: str
) -> None:
    answer = await call(await service.as_role("operator"), "things.publish", **given)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "INVALID_INPUT")
    assert [(one["path"], one["message"]) for one in problem["errors"]] == [(path, message)]
    assert CALLS == [] and await audited(service) == []


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("worker", set()),
        ("viewer", {"things.look"}),
        ("submitter", {"things.look"}),
        ("operator", {"things.look", "things.publish"}),
        ("admin", {"things.look", "things.publish", "things.admin"}),
    ],
)
async def test_each_command_asks_for_its_own_permission(service: Service, role: str, allowed: set[str]) -> None:
    client = await service.as_role(role)
    names = ("things.look", "things.publish", "things.admin")
    statuses = {name: (await call(client, name, name="x")).status_code for name in names}
    assert {name for name, status in statuses.items() if status == 200} == allowed
    assert {status for name, status in statuses.items() if name not in allowed} <= {403}


async def test_what_a_command_raises_or_returns_wrongly_is_a_problem_without_its_inside(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    client = await service.as_role("viewer")
    refused = await call(client, "things.look", name="refused")
    assert (refused.status_code, refused.json()["code"], refused.json()["remedy"]) == (409, "REFUSED", "Wait.")
    for name, words in (("broken", "failed: RuntimeError"), ("wrong", "returned something other than it declares")):
        answer = await call(client, "things.look", name=name)
        assert (answer.status_code, answer.json()["code"]) == (500, "COMMAND_FAILED")
        assert words in answer.json()["detail"] and "inside" not in answer.text
    assert "with a detail of the inside" in caplog.text
    missing = await call(client, "things.lok", name="x")
    assert missing.status_code == 404 and "Did you mean 'things.look'?" in missing.json()["remedy"]


async def test_a_command_ends_when_its_caller_does_not_wait_any_longer(service: Service) -> None:
    client = await service.as_role("submitter")

    async def has_begun() -> bool:
        return CALLS == ["begun"]

    async def is_cancelled() -> bool:
        return CALLS == ["begun", "cancelled"]

    asking = asyncio.create_task(client.post(f"{API}/commands/things.wait", json={"name": "x"}))
    await eventually(has_begun)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await eventually(is_cancelled)
    # The service lives, and runs others.
    assert (await call(client, "things.look", name="x")).status_code == 200


async def test_the_clients_call_commands_at_the_database_and_over_a_url(service: Service, database_url: str) -> None:
    async with Client.connect(database_url, Scope("acme", "somebody")) as client:
        answer = await client.run_command("things.publish", {"name": "x"})
        assert answer == {"name": "x", "tenant": "acme", "by": "somebody", "places": ["shelf 0"]}
        listed = await client.commands()
        with pytest.raises(CommandFailed, match="failed: RuntimeError"):
            await client.run_command("things.look", {"name": "broken"})
        with pytest.raises(InvalidInput):
            await client.run_command("things.look")
    key = await service.key("operator", tenant="acme")
    async with Client.connect(service.url, api_key=key) as remote:
        assert await remote.commands() == listed
        answer = await remote.run_command("things.publish", {"name": "x"})
        assert (answer["name"], answer["tenant"]) == ("x", "acme")
        with pytest.raises(Forbidden):
            await remote.run_command("things.admin", {"name": "x"})

    def in_a_script() -> Any:
        with SyncClient.connect(service.url, api_key=key) as client:
            return client.run_command("things.look", {"name": "y"})["name"], len(client.commands())

    assert await asyncio.to_thread(in_a_script) == ("y", len(listed))


async def test_the_builtin_commands_register_and_prune_with_the_lines_of_their_operations(service: Service) -> None:
    client = await service.as_role("submitter", tenant="acme")
    made = await call(client, "workflow.register", source=TEXT)
    assert made.status_code == 200, made.text
    assert (made.json()["workflow_id"], made.json()["answer"]) == ("made", "registered")
    source = await client.get(f"{API}/workflows/made/source")
    assert source.json()["content"] == TEXT
    document = {"workflow_id": "made", "version": "3", "nodes": {"a": {"handler": "echo"}}}
    again = await call(client, "workflow.register", definition=document)
    assert again.json()["answer"] == "already_current"
    for wrong in ({}, {"source": TEXT, "definition": {}}, {"source": "workflow_id: [", "x": 1}):
        assert (await call(client, "workflow.register", **wrong)).status_code == 422
    assert (await call(client, "job.prune", older_than_days=1)).status_code == 403
    own = await service.as_role("admin", tenant="acme")
    assert (await call(own, "job.prune", older_than_days=1)).status_code == 403
    admin = await service.as_role("admin", tenant="*")
    looked = await call(admin, "job.prune", older_than_days=1, dry_run=True)
    assert looked.json() == {"dry_run": True, "jobs": 0, "tasks": 0, "bytes": 0}
    assert (await call(admin, "job.prune", older_than_days=1, statuses=["open"])).status_code == 422
    assert await audited(service) == []
    assert len(await audited(service, "workflow.register")) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: command("noun", input=Publish, output=Published, scope="read"),
        lambda: command("Upper.case", input=Publish, output=Published, scope="read"),
        lambda: command("a.b", input=Publish, output=Published, scope="public"),
        lambda: command("a.b", input=Publish, output=Published, scope="work"),
        lambda: command("a.b", input=list[str], output=Published, scope="read"),
        lambda: command("a.b", input=Publish, output=dict, scope="read"),
    ],
)
def test_a_command_without_a_proper_name_scope_or_model_is_refused_at_import(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput):
        make()
