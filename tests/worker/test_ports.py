"""The ports of a worker: Postgres implements them, and they ask for nothing that a worker does not use."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import holdfast.worker
from holdfast.assembly import new_worker_over_http
from holdfast.define.registry import Registry
from holdfast.remote.renewal import RemoteRenewal
from holdfast.remote.task_source import RemoteTaskSource
from holdfast.settings import Settings
from holdfast.store.postgres import PostgresStore
from holdfast.store.renewal import Renewal, renewal_statements
from holdfast.worker.ports import LeaseRenewal, OpenRenewal, OutputStore, TaskSource

pytestmark = pytest.mark.anyio
URL = "postgresql://user@host/database"


def methods_of(port: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(port, inspect.isfunction) if not name.startswith("_")}


def methods_used_of(name: str) -> set[str]:
    """Every METHOD in a `name.METHOD` or `self._name.METHOD` of the package."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in Path(holdfast.worker.__file__).parent.glob("*.py")]
    attributes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if ast.unparse(node.value) in (name, f"self._{name}")}


def test_the_postgres_store_is_a_task_source() -> None:
    source: TaskSource = PostgresStore(URL)
    assert methods_of(TaskSource) <= set(dir(source))


def test_the_postgres_store_saves_output() -> None:
    output: OutputStore = PostgresStore(URL).output()
    assert methods_of(OutputStore) <= set(dir(output))


async def test_a_worker_over_http_has_the_same_ports() -> None:
    over_http = RemoteTaskSource("http://127.0.0.1:1", None)
    source: TaskSource = over_http
    output: OutputStore = over_http
    open_renewal: OpenRenewal = partial(RemoteRenewal, "http://127.0.0.1:1", None, 10.0)
    renewal: LeaseRenewal = pickle.loads(pickle.dumps(open_renewal))()
    for port, made in ((TaskSource, source), (OutputStore, output), (LeaseRenewal, renewal)):
        assert methods_of(port) <= set(dir(made))
    await over_http.close()


async def test_a_worker_over_http_claims_further_ahead_unless_a_setting_says_so(tmp_path: Path) -> None:
    for settings, batch in ((Settings(home=tmp_path), 300), (Settings(home=tmp_path, claim_batch=100), 100)):
        services = new_worker_over_http("http://127.0.0.1:1", None, settings, Registry())
        assert services.worker is not None
        assert services.worker._options.claim_batch == batch


def test_the_renewal_on_postgres_can_be_made_in_another_process() -> None:
    open_renewal: OpenRenewal = partial(Renewal, URL, 10.0, renewal_statements())
    renewal: LeaseRenewal = pickle.loads(pickle.dumps(open_renewal))()
    assert methods_of(LeaseRenewal) <= set(dir(renewal))


@pytest.mark.parametrize(("port", "name"), [(TaskSource, "source"), (LeaseRenewal, "renewal"), (OutputStore, "store")])
def test_a_worker_uses_every_method_of_its_ports(port: type, name: str) -> None:
    assert methods_of(port)
    assert methods_of(port) - methods_used_of(name) == set()


def test_the_process_that_renews_imports_no_definitions() -> None:
    """Every worker has one, so its start and its size count."""
    code = (
        "import sys, holdfast.worker.pulse, holdfast.store.renewal\n"
        "print({'pydantic', 'holdfast.define.definition', 'holdfast.core.states'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
