"""Pruning deletes finished jobs with all their rows and objects, and no unfinished job."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.store import pruning as pruning_module
from holdfast.store.arrays import plain
from holdfast.store.payloads import Folder, Payloads, digest_of
from holdfast.store.postgres import PostgresStore
from holdfast.store.queries import query
from tests.conftest import eventually
from tests.running import registry, running, serving
from tests.store.stage import new_job

pytestmark = pytest.mark.anyio

DAY = 86_400.0
ROWS = {
    "nodes": "(job_id, node, status, width, expanded_count) values (%(job)s, 'n', 'completed', %(width)s, %(width)s)",
    "tasks": "(job_id, node, item, status, finished_at)"
    " select %(job)s, 'n', i, 'completed', now() from generate_series(0, %(width)s - 1) i",
    "attempts": "(job_id, node, item, attempt, epoch, outcome) values (%(job)s, 'n', 0, 1, 1, 'failed')",
    "checkpoints": "(job_id, node, item, seq, name, epoch) values (%(job)s, 'n', 0, 1, 'c', 1)",
    "events": "(job_id, seq, event) select %(job)s, i, 'task_completed' from generate_series(2, %(width)s) i",
    "answers": "(signal_id, job_id, applied, reason) select coalesce(max(signal_id), 0) + 1, %(job)s, true, ''"
    " from answers",
    "payloads": "(job_id, digest, bytes) values (%(job)s, %(digest)s, %(bytes)s)",
    "artifacts": "(job_id, node, item, name, digest, bytes, attempt)"
    " values (%(job)s, 'n', 0, 'a', %(digest)s, %(bytes)s, 1)",
    "acknowledgements": "(job_id, generation, actor) values (%(job)s, 1, 'ann@desk')",
}
STAY = {"janitor_actions", "outbox", "deliveries"}
"""Tables with a job_id that pruning leaves: the logs of the janitor and of deliveries keep lines on pruned jobs."""


class Past:
    """A database with jobs that have ended, and a folder with their objects."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.store = PostgresStore(url, payloads=Payloads(Folder(folder)))
        self.pruning = self.store.pruning()

    async def query(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        async with self.store.connections.use("test") as connection:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

    async def job(
        self, days: float = 40, status: str = "completed", *, workflow: str = "w", width: int = 3, rows: bool = True
    ) -> str:
        """Make a job that ended `days` days ago, with rows in every table and a payload of 1,000 bytes."""
        (answer,) = await self.store.submit([new_job()])
        job, data = answer.job_id, answer.job_id.encode().ljust(1000)
        await self.query("delete from inbox where job_id = %(job)s", job=job)
        await self.query(
            "update jobs set status = %(status)s, workflow_id = %(workflow)s,"
            " finished_at = now() - make_interval(secs => %(age)s) where job_id = %(job)s",
            job=job,
            status=status,
            workflow=workflow,
            age=days * DAY,
        )
        for table, values in ROWS.items() if rows else ():
            parameters = {"job": job, "width": width, "digest": digest_of(data), "bytes": len(data)}
            await self.query(f"insert into {table} {values}", **parameters)
        Folder(self.folder).write(job, digest_of(data), data)
        return job

    async def unfinished(self, status: str) -> str:
        job = await self.job(rows=False)
        await self.query(
            "update jobs set status = %(status)s, finished_at = null where job_id = %(job)s", job=job, status=status
        )
        return job

    async def tables(self) -> dict[str, int]:
        """The number of rows of each table that has a job_id, new tables included."""
        names = await self.query(
            "select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid"
            " where a.attname = 'job_id' and c.relkind = 'r' and c.relnamespace = 'holdfast'::regnamespace"
        )
        return {table: (await self.query(f"select count(*) from {table}"))[0][0] for (table,) in names}

    async def jobs(self) -> set[str]:
        return {row[0] for row in await self.query("select job_id::text from jobs")}

    def objects(self) -> set[str]:
        return {place.name for place in self.folder.iterdir()} if self.folder.exists() else set()


@pytest.fixture
async def past(database_url: str, tmp_path: Path) -> AsyncIterator[Past]:
    past = Past(database_url, tmp_path / "payloads")
    yield past
    await past.store.close()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning_module, "BATCH_JOBS", 3)
    monkeypatch.setattr(pruning_module, "BATCH_TASKS", 10)


async def test_pruning_deletes_every_row_and_every_object_of_a_finished_job(past: Past) -> None:
    await past.job()
    await past.query(
        "insert into janitor_actions (run, duty, action, job_id, reason)"
        " select gen_random_uuid(), 'orphans', 'recheck', job_id, '' from jobs"
    )
    await past.query(
        "insert into attempt_output (job_id, node, item, epoch, part, started_at, log, log_times)"
        " select job_id, 'n', -1, 1, 1, now(), 'begun', '[]' from jobs"
    )
    await past.query("insert into pins select job_id, 2, definition_hash, version, inputs from jobs")
    await past.query("insert into plans select job_id, 'a plan', 1, 1, definition_hash, inputs, '{}' from jobs")
    await past.query("insert into requests (job_id, key, digest, verb) select job_id, 'k', 'd', 'cancel' from jobs")
    await past.query("insert into external_ids select tenant, 'gateway', '1', job_id from jobs")
    await past.query(
        "insert into outbox (tenant, job_id, event, expanded_at) select tenant, job_id, 'job_failed', now() from jobs"
    )
    await past.query(
        "insert into deliveries (outbox_id, tenant, job_id, kind, receiver, destination, status, ended_at)"
        " select outbox_id, tenant, job_id, 'webhook', 'webhook:w', 'w', 'sent', now() from outbox"
    )
    before = await past.tables()
    written = {table for table, rows in before.items() if rows}
    assert written == set(before) - {"queue", "inbox", "discarded"}, "there is a new table: prune it, or add it to STAY"
    await past.pruning.prune(30 * DAY)
    remaining = {table for table, rows in (await past.tables()).items() if rows}
    assert remaining == STAY
    assert past.objects() == set()


async def test_pruning_deletes_objects_that_no_row_refers_to(past: Past) -> None:
    job = await past.job(rows=False)
    assert past.objects() == {job}
    await past.pruning.prune(30 * DAY)
    assert past.objects() == set()


async def make_jobs_that_stay(past: Past) -> tuple[set[str], set[str]]:
    """Make open jobs, and ended jobs that still have an owner, a queued task, a signal or something to send."""
    owned, queued, signalled, noted, sending, gathering = [await past.job() for _ in range(6)]
    opened = {await past.unfinished(status) for status in ("pending", "running")}
    await past.query("update jobs set owner = 7 where job_id = %(job)s", job=owned)
    await past.query(
        "insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
        " values (%(job)s, 'n', -1, 1, 1, 1, 0, 60)",
        job=queued,
    )
    await past.query("insert into inbox (job_id, kind) values (%(job)s, 'cancel')", job=signalled)
    for job, event in ((noted, "job_failed"), (sending, "waiting"), (gathering, "gathering")):
        await past.query(
            "with o as (insert into outbox (tenant, job_id, event, expanded_at)"
            " values ('default', %(job)s, %(event)s, case when %(event)s <> 'job_failed' then now() end) returning *)"
            " insert into deliveries (outbox_id, tenant, job_id, kind, receiver, destination, status)"
            " select o.outbox_id, o.tenant, o.job_id, 'webhook', 'webhook:w', 'w', o.event from o"
            " where o.expanded_at is not null",
            job=job,
            event=event,
        )
    return opened, {owned, queued, signalled, noted, sending, gathering}


async def test_nothing_unfinished_is_ever_pruned_invariant_18(past: Past) -> None:
    opened, held = await make_jobs_that_stay(past)
    before = await past.tables()
    assert await past.pruning.find(0) == await past.pruning.prune(0) == []
    assert await past.tables() == before
    assert past.objects() == await past.jobs() == opened | held
    await past.query("delete from queue")
    await past.query("delete from inbox")
    await past.query("update jobs set owner = null")
    await past.query("update outbox set expanded_at = now()")
    await past.query("update deliveries set status = 'dead', ended_at = now()")
    await past.pruning.prune(0)
    assert past.objects() == await past.jobs() == opened, "nothing else kept the ended jobs"


async def test_a_job_that_may_no_longer_be_pruned_at_its_turn_stays_invariant_18(past: Past) -> None:
    """A job may get an owner, a signal or a task between the search and the deletion."""
    opened, held = await make_jobs_that_stay(past)
    young, failed, old = await past.job(29), await past.job(40, "failed"), await past.job(31)
    (cutoff,) = await past.query("select (now() - interval '30 days')::text")
    terms = {"cutoff": cutoff[0], "statuses": "{completed}", "jobs": plain(await past.jobs())}
    (deleted,) = await past.store.connections.exchange("test prune", (query("prune_jobs"), terms))
    assert [row[0] for row in deleted.rows] == [old]
    assert await past.jobs() == opened | held | {young, failed}


async def test_age_and_status_decide_which_jobs_are_pruned(past: Past) -> None:
    young, old = await past.job(29), await past.job(31)
    failed, cancelled = await past.job(50, "failed"), await past.job(50, "cancelled")
    await past.pruning.prune(30 * DAY, ["completed", "cancelled"])
    assert await past.jobs() == {young, failed}
    assert past.objects() == {young, failed}
    assert {old, cancelled}.isdisjoint(await past.jobs())
    oldest = await past.pruning.oldest_left(30 * DAY)
    assert oldest is not None and oldest.job_id == young, "a prune of all statuses would delete the failed job"


async def test_find_and_prune_report_the_same_jobs_by_workflow_and_status(past: Past) -> None:
    for days, status, workflow, width in ((40, "completed", "a", 3), (50, "completed", "a", 2), (60, "failed", "b", 1)):
        await past.job(days, status, workflow=workflow, width=width)
    prunable = await past.pruning.find(30 * DAY)
    assert [one[:5] for one in prunable] == [("a", "completed", 2, 5, 2000), ("b", "failed", 1, 1, 1000)]
    (oldest,) = await past.query("select min(finished_at) from jobs where workflow_id = 'a'")
    assert prunable[0].oldest == oldest[0]
    assert [one[:5] for one in await past.pruning.find(30 * DAY, most=1)] == [("b", "failed", 1, 1, 1000)]
    assert len(await past.jobs()) == 3, "find deletes nothing"
    assert await past.pruning.prune(30 * DAY) == prunable
    assert await past.pruning.prune(30 * DAY) == await past.pruning.find(30 * DAY) == []


@pytest.mark.usefixtures("small_batches")
async def test_pruning_works_in_small_batches_and_deletes_a_wide_job_alone(past: Past) -> None:
    for days, width in ((49, 1), (48, 1), (47, 50), (46, 1), (45, 1), (44, 1), (43, 1), (42, 6), (41, 6)):
        await past.job(days, width=width)
    totals: list[int] = []
    await past.pruning.prune(30 * DAY, on_batch=totals.append)
    assert totals == [2, 3, 6, 8, 9], "two jobs; the wide job alone; three jobs; two jobs with seven tasks; one job"


@pytest.mark.usefixtures("small_batches")
async def test_a_prune_begins_no_batch_after_its_time_and_the_next_prune_continues(past: Past) -> None:
    for _ in range(4):
        await past.job()
    assert await past.pruning.prune(30 * DAY, within_seconds=0) == []
    assert len(await past.jobs()) == 4
    await past.pruning.prune(30 * DAY)
    assert await past.jobs() == past.objects() == set()


@pytest.mark.usefixtures("small_batches")
async def test_several_prunes_at_once_delete_each_job_once(past: Past) -> None:
    for _ in range(40):
        await past.job(width=2)
    pasts = [Past(past.url, past.folder) for _ in range(4)]
    done = await asyncio.gather(*(other.pruning.prune(30 * DAY) for other in pasts))
    for other in pasts:
        await other.store.close()
    await past.pruning.prune(30 * DAY)
    assert await past.jobs() == past.objects() == set()
    assert sum(one.jobs for pruned in done for one in pruned) == 40
    assert sum(one.tasks for pruned in done for one in pruned) == 80


async def test_pruning_skips_a_job_whose_row_is_locked(past: Past) -> None:
    held, free = await past.job(), await past.job()
    async with past.store.connections.use("holder") as connection, connection.transaction():
        await connection.execute("select 1 from jobs where job_id = %s for update", (held,))
        assert [one.jobs for one in await past.pruning.prune(30 * DAY)] == [1]
        assert await past.jobs() == past.objects() == {held}
    assert free not in await past.jobs()
    await past.pruning.prune(30 * DAY)
    assert await past.jobs() == past.objects() == set()


async def test_pruning_remembers_objects_that_it_could_not_delete(past: Past) -> None:
    job, other = await past.job(), await past.job()
    (past.folder / job).rename(past.folder.parent / "elsewhere")
    (past.folder / job).write_text("a file where a folder should be")
    assert sum(one.jobs for one in await past.pruning.prune(30 * DAY)) == 2
    assert (await past.jobs(), past.objects(), await past.pruning.leftovers()) == (set(), {job}, 1)
    assert other not in past.objects()
    (past.folder / job).unlink()
    (past.folder.parent / "elsewhere").rename(past.folder / job)
    assert await past.pruning.finish_leftovers(60.0) == 0, "the process that has just pruned may still delete them"
    assert await past.pruning.finish_leftovers() == 1
    assert (past.objects(), await past.pruning.leftovers()) == (set(), 0)


async def test_a_prune_without_an_object_store_leaves_objects_to_the_next_prune(past: Past) -> None:
    job = await past.job()
    blind = PostgresStore(past.url)
    assert [one.jobs for one in await blind.pruning().prune(30 * DAY)] == [1]
    assert await blind.pruning().leftovers() == 0
    await blind.close()
    assert past.objects() == {job}
    await past.pruning.prune(30 * DAY)
    assert past.objects() == set()


ECHO = "workflow_id: echo\nnodes: {a: {handler: echo, next: b}, b: {handler: echo, next: last}, last: {handler: note}}"


async def test_the_same_submission_makes_a_new_job_after_the_first_was_pruned(past: Past) -> None:
    client, definition = Client(past.store), load_text(ECHO)
    first = await client.submit(definition, key="once")
    async with serving(past.url, registry(note=lambda: None)):

        async def over() -> bool:
            return bool(await past.query("select 1 from jobs where finished_at is not null"))

        await eventually(over)
        assert (await client.submit(definition, key="once")).job_id == first.job_id
        assert [one.jobs for one in await past.pruning.prune(0)] == [1]
        again = await client.submit(definition, key="once")
        assert (again.answer, again.run) == ("created", 1) and again.job_id != first.job_id
        await eventually(over)


async def test_a_submission_gets_the_newest_run_also_when_the_first_was_pruned(past: Past) -> None:
    client, definition = Client(past.store), load_text(ECHO)
    first = await client.submit(definition, key="once")
    await past.query("update jobs set status = 'failed', finished_at = now()")
    await past.query("delete from inbox")
    second = await client.submit(definition, key="once", force=True)
    assert [one.jobs for one in await past.pruning.prune(0)] == [1]
    again = await client.submit(definition, key="once")
    assert (again.answer, again.run, again.job_id) == ("already_processing", 2, second.job_id)
    assert (await client.submit(definition, key="once", force=True)).run == 3
    assert await past.query("select previous from jobs where run = 2") == [(UUID(first.job_id),)]


async def test_running_jobs_complete_while_finished_jobs_are_pruned(past: Past) -> None:
    ended: Counter[int] = Counter()

    def note(number: int) -> None:
        ended[number] += 1

    flow = ECHO.replace("{handler: note}", "{handler: note, params: {number: '{{ inputs.number }}'}}")
    flow += "\ninputs: {number: {type: integer}}"
    async with running(past.url, registry(note=note)) as engine:
        for number in range(40):
            await engine.submit(flow, {"number": number})

        async def all_gone() -> bool:
            await past.pruning.prune(0)
            return not await past.jobs()

        await eventually(all_gone, 60.0)
    assert ended == Counter(range(40))
    assert {table: rows for table, rows in (await past.tables()).items() if rows} == {}
