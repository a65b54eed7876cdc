"""A backup as docs/how-to/back-up-and-restore.md makes it: schema first, then objects. Open jobs go on there."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from holdfast.embedded.binaries import find_installation
from holdfast.store.migrate import admit_operators
from tests.conftest import eventually
from tests.docs.pages import ROOT
from tests.running import SHORT_LEASES, client_of, registry, running, serving

pytestmark = pytest.mark.anyio

FLOW = """
workflow_id: backed_up
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2, 3] }}"
    task: {handler: large, params: {item: "{{ item }}"}}
    next: all
  all: {type: fan_in, next: size}
  size: {handler: size, params: {texts: "{{ nodes.all.output.results }}"}}
"""
LARGE = 100_000


def dump_and_restore(url: str, target: str, folder: Path) -> None:
    """Run the two commands of the page, with the programs that fit the server of the tests."""
    page = (ROOT / "docs" / "how-to" / "back-up-and-restore.md").read_text(encoding="utf-8")
    programs = find_installation(None, folder / "none").directory
    for program, database in (("pg_dump", url), ("pg_restore", target)):
        (command,) = (line[2:] for line in page.splitlines() if line.startswith(f"$ {program} "))
        arguments = command.replace("$HOLDFAST_DATABASE_URL", database).replace('"', "").split()
        subprocess.run([programs / program, *arguments[1:]], cwd=folder, check=True, capture_output=True, timeout=60)


async def test_open_jobs_of_a_backup_go_on_in_the_restored_database(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    release, here, there = asyncio.Event(), [], []

    async def large(item: int) -> str:
        here.append(item)
        if item > 1:
            await release.wait()
        return str(item) * LARGE

    async def large_again(item: int) -> str:
        there.append(item)
        return str(item) * LARGE

    async def size(texts: list[str]) -> int:
        return sum(len(text) for text in texts)

    old, new = tmp_path / "old", tmp_path / "new"
    handlers = registry(large=large, size=size)
    async with running(database_url, handlers, **(SHORT_LEASES | {"home": old})) as engine:
        job_id = await engine.submit(FLOW)

        async def is_half_done() -> bool:
            rows = await engine.query("select count(*) from holdfast.tasks where status = 'completed'")
            return len(here) == 4 and rows == [(2,)]

        await eventually(is_half_done)
        await asyncio.to_thread(dump_and_restore, database_url, empty_database_url, tmp_path)
        shutil.copytree(old / "payloads", new / "payloads")
        release.set()
        assert (await engine.finished(job_id))["result"] == 4 * LARGE

    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for is_admitted in (False, True):
            usable = "select has_schema_privilege('holdfast_operator', 'holdfast', 'usage')"
            assert connection.execute(usable).fetchone() == (is_admitted,)
            assert await admit_operators(empty_database_url)

    handlers = registry(large=large_again, size=size)
    async with (
        client_of(empty_database_url) as restored,
        serving(empty_database_url, handlers, **(SHORT_LEASES | {"home": new})),
    ):
        status = await restored.finished(job_id)
        events = {event["event"] for event in await restored.events(job_id)}
    assert (status["status"], status["result"]) == ("completed", 4 * LARGE)
    assert sorted(there) == [2, 3], "what had completed in the backup runs again"
    assert {"owner_changed", "worker_lost"} <= events
