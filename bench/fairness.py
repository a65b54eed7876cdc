"""How much longer small jobs take beside a wide job than alone."""

from __future__ import annotations

from dataclasses import dataclass

from bench.fleet import now
from bench.workloads import all_finished, fan, jobs_of, one_task, pick
from holdfast.client import Client
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob

SMALL_JOBS = 500


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds from submit to finished, in ascending order."""

    ordered: tuple[float, ...]

    @property
    def p50(self) -> float:
        return pick(self.ordered, 0.5)

    @property
    def p99(self) -> float:
        return pick(self.ordered, 0.99)


async def alone_and_beside(store: PostgresStore, width: int) -> tuple[Latencies, Latencies]:
    """Run small jobs one at a time: on an idle system, then for as long as a fan-out of this width runs."""
    alone = await _small_jobs(store, None)
    (wide,) = jobs_of(fan(), [{"items": list(range(width))}])
    started = now()
    await Client(store).submit_many([wide])
    beside = await _small_jobs(store, wide)
    await all_finished(store, [wide], started)
    return alone, beside


async def _small_jobs(store: PostgresStore, wide: NewJob | None) -> Latencies:
    client, durations = Client(store), []
    for job in jobs_of(one_task(), [{"i": i} for i in range(SMALL_JOBS)]):
        submitted = now()
        await client.submit_many([job])
        await all_finished(store, [job], submitted)
        durations.append((now() - submitted) * 1000)
        if wide is not None and await _has_ended(store, wide):
            # The last small job may have run alone.
            del durations[-1:]
            break
    return Latencies(tuple(sorted(durations)))


async def _has_ended(store: PostgresStore, job: NewJob) -> bool:
    async with store.connections.use("bench") as connection:
        cursor = await connection.execute("select finished_at is not null from jobs where job_id = %s", (job.job_id,))
        row = await cursor.fetchone()
        return bool(row and row[0])
