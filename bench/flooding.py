"""The cost of the engine on real work: the same flood stacks by plain processes, and through the engine.

Both use two processes. The engine's are those of one worker with two slots, without a network. All processes are
running and have stacked something before the measurement starts; both measurements include the inventory.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from bench.fleet import Fleet, now
from bench.workloads import jobs_of, run_jobs
from holdfast.apps.flood.direct import processes_to_stack, stack_all
from holdfast.apps.flood.generate import generate
from holdfast.apps.flood.inventory import take_inventory
from holdfast.apps.raster.storage import sha256_of
from holdfast.define.definition import Definition
from holdfast.define.workflow import Workflow
from holdfast.store.postgres import PostgresStore

REGION, WARM_REGION, SEED = "CIV", "RWA", 7
SOURCE = "bronze/flood"
PROCESSES = 2
WARM_GROUPS = 16


@dataclass(frozen=True, slots=True)
class Compared:
    """The seconds of every round, for plain processes and for the engine."""

    groups: int
    source_bytes: int
    plain_seconds: list[float]
    engine_seconds: list[float]

    @property
    def plain_rate(self) -> float:
        return self.groups / statistics.median(self.plain_seconds)

    @property
    def engine_rate(self) -> float:
        return self.groups / statistics.median(self.engine_seconds)

    @property
    def engine_shares(self) -> list[float]:
        """The share of the engine's time that is not the work itself. By round, because the machine's speed varies."""
        return sorted((b - a) / b for a, b in zip(self.plain_seconds, self.engine_seconds, strict=True))


async def compare(store: PostgresStore, home: Path, groups: int, rounds: int) -> Compared:
    """Stack the groups in turns with plain processes and with the engine; every round must make the same files."""
    os.environ["HOLDFAST_HOME"] = str(home)
    storage = home / "storage"
    made = generate(REGION, groups, storage / SOURCE, SEED)
    generate(WARM_REGION, WARM_GROUPS, storage / SOURCE, SEED)
    plain, engine, files = [], [], []
    with (
        processes_to_stack(PROCESSES) as pool,
        Fleet(store.connections.url, ("orchestrator", "flooding")),
    ):
        _by_processes(pool, storage, WARM_REGION, "warm/plain")
        await _by_engine(store, WARM_REGION, "warm/engine")
        for number in range(rounds):
            plain.append(_by_processes(pool, storage, REGION, f"plain/{number}"))
            engine.append(await _by_engine(store, REGION, f"engine/{number}"))
            files += [_files(storage / f"{kind}/{number}") for kind in ("plain", "engine")]
    assert len(files[0]) == groups, f"{len(files[0])} stacks of {groups}"
    assert all(round_files == files[0] for round_files in files), "the files of a round differ"
    return Compared(groups, made["bytes"], plain, engine)


def _by_processes(pool: Executor, storage: Path, region: str, target: str) -> float:
    started = now()
    groups = take_inventory(region, storage / SOURCE)["groups"]
    stack_all(groups, storage / SOURCE, storage / target, pool=pool)
    return now() - started


async def _by_engine(store: PostgresStore, region: str, target: str) -> float:
    return await run_jobs(store, jobs_of(stacking(), [{"region": region, "target": target}]))


def stacking() -> Definition:
    flow = Workflow("bench_flooding", inputs={"region": {"type": "string"}, "target": {"type": "string"}})
    flow.task("inventory", handler="flood.inventory", params={"region": "{{ inputs.region }}", "source": SOURCE})
    flow.fan_out(
        "stack",
        source="{{ nodes.inventory.output.groups }}",
        handler="flood.band_stack",
        params={"group": "{{ item }}", "source": SOURCE, "target": "{{ inputs.target }}"},
        after=["inventory"],
    )
    return flow.definition()


def _files(folder: Path) -> Mapping[str, str]:
    return {str(path.relative_to(folder)): sha256_of(path) for path in folder.rglob("*.tif")}
