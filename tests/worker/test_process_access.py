"""What a handler's process can reach: no connection, declared variables, the database, the network."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from holdfast.define.registry import Registry, handler
from holdfast.errors import InvalidInput
from holdfast.store.payloads import open_objects
from holdfast.store.postgres import PostgresStore
from holdfast.worker import network
from tests import stores
from tests.worker import isolated, isolated_objects
from tests.worker.attempts import DATABASE_URL, JOB_ID, data_of, output
from tests.worker.desk import Desk

pytestmark = pytest.mark.anyio


async def test_a_process_has_no_connection_of_its_worker(desk: Desk, store: PostgresStore) -> None:
    await store.sweep_inbox()
    mine = [link for link in isolated.descriptors() if link.startswith("socket:")]
    assert mine, "the test itself is connected"
    links = output(await desk.result("descriptors"))
    assert not set(links) & set(mine)
    assert sum(link.startswith("socket:") for link in links) == 1, "the channel to its worker and nothing else"


SECRETS = {
    "HOLDFAST_DATABASE_URL": "postgresql://holdfast:s3cr3t@db/holdfast",
    "HOLDFAST_STORAGE_URL": "az://s3cr3t",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-aws",
    "PGPASSWORD": "s3cr3t-pg",
    "MAPS_TOKEN": "s3cr3t-maps",
}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


async def test_a_process_sees_no_variable_that_might_be_a_secret(secrets: None, desk: Desk) -> None:
    seen = output(await desk.result("sees_surroundings"))
    assert "s3cr3t" not in str(seen)
    assert seen["environment"]["PATH"] == os.environ["PATH"]


async def test_a_process_sees_the_variables_that_its_handler_declares_also_while_it_is_imported(
    secrets: None, desk: Desk
) -> None:
    seen = output(await desk.result("sees_declared"))
    assert {name for name in SECRETS if name in seen["environment"]} == {"AWS_SECRET_ACCESS_KEY", "MAPS_TOKEN"}
    assert seen["at_import"] == SECRETS["MAPS_TOKEN"]


async def test_a_task_that_is_in_a_process_only_because_its_worker_vanished_sees_what_it_would_in_a_thread(
    secrets: None, desk: Desk
) -> None:
    seen = output(await desk.result("in_a_thread", suspect=True))
    assert SECRETS.items() <= seen["environment"].items()


def test_variables_are_declared_by_their_names_and_for_processes_only() -> None:
    with pytest.raises(InvalidInput, match="isolation='thread'"):
        handler("x", environment=("AWS_*",))(lambda: None)
    for wrong in ("AWS_*", ("A=b",), (7,)):
        with pytest.raises(InvalidInput, match="is not a tuple of variable names"):
            handler("x", isolation="process", environment=wrong)(lambda: None)  # type: ignore[arg-type]


async def test_only_a_handler_that_declares_it_gets_the_database(desk: Desk) -> None:
    for name in ("uses_the_database", "uses_in_a_thread"):
        assert output(await desk.result(name)) == DATABASE_URL
    for name in ("asks_for_the_database", "asks_in_a_thread"):
        refused = data_of(await desk.result(name))
        assert (refused["code"], refused["class"]) == ("CONTRACT_VIOLATION", "permanent")
        assert f"@handler('{name}', database=True)" in refused["message"]


@pytest.mark.skipif(not network.is_enforced(), reason="nothing takes the network away here")
async def test_a_handler_without_a_network_reaches_no_address_and_still_reaches_its_worker(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for name, reached in (("isolated.reach", True), ("isolated.reach_without_network", False)):
            result = output(await desk.result(name, {"port": port}))
            assert result == {"here": reached, "by_a_thread": reached, "by_a_program": reached, "within": True}
    assert [checkpoint[1] for checkpoint in desk.checkpoints] == ["tried", "tried"]


@pytest.mark.parametrize("kind", stores.KINDS)
async def test_a_handler_without_a_network_stores_and_reads_objects_through_its_worker(
    kind: str, object_store: Callable[[str], stores.Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_store(kind)
    bucket.use(monkeypatch)
    registry = Registry()
    registry.add_module(isolated_objects)
    desk = Desk(registry, open_objects(f"{bucket.address}/payloads"))
    for name in ("publishes_alone", "publishes_alone_async"):
        file = output(await desk.result(name))["file"]
        result = output(await desk.result("fetches_alone", {"file": file}))
        assert result["bytes"] == "tiletile"
        data = data_of(await desk.result("fetches_alone", {"file": file | {"digest": "0" * 64}}))
        assert data["message"].startswith("NotAnswered: PayloadUnavailable: Payload 000000")
    assert list(bucket.objects()) == [f"payloads/{JOB_ID}/{file['digest']}"]
    desk.executor.close()


def test_the_network_can_be_taken_from_a_process_only() -> None:
    with pytest.raises(InvalidInput, match="network=False"):
        handler("x", network=False)(lambda: None)
