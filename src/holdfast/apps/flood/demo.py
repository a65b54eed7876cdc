"""`holdfast demo flood`: the flood pipeline on a small region, with a worker killed and a registration that fails.

The demo drives the job with ordinary commands, and shows each of them as it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from holdfast import Scope, SyncClient
from holdfast.apps.catalog.interface import all_items
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.flood.naming import MANIFEST
from holdfast.apps.staging import DemoFailed, Services, answer_of, lines_of, output_of, run_shown, sign_in_link, step
from holdfast.apps.tether import tethered
from holdfast.extend.commands import counted, say, use_database
from holdfast.extend.settings import tenant

WORKFLOW = Path(__file__).with_name("flood_stack.yaml")
SOURCE, STACKS, PICTURES = "bronze/flood", "silver/flood", "gold/flood"
SEED = 7
RETURN_PERIODS = (10, 50, 100, 500)
# Short leases, so that the tasks of the killed worker soon run again.
ENVIRONMENT = {"HOLDFAST_LEASE_SECONDS": "4", "HOLDFAST_RENEW_SECONDS": "1", "HOLDFAST_GRACE_SECONDS": "5"}
FREEZE = "alter table stac.items add constraint the_catalog_is_frozen check (false) not valid"
HOLD = "lock table stac.items in share row exclusive mode"
THAW = "alter table stac.items drop constraint if exists the_catalog_is_frozen"


@dataclass
class Demo:
    """One execution of the demo: its processes and its measurements."""

    home: Path
    region: str
    items: int
    workers: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))
    seconds: dict[str, float] = field(default_factory=dict)
    services: Services = field(init=False)
    ui: str | None = None
    """The address of the web UI, if there is one."""

    def __post_init__(self) -> None:
        self.services = Services(self.outputs, ENVIRONMENT)

    @property
    def storage(self) -> Path:
        return self.home / "storage"

    @property
    def outputs(self) -> Path:
        return self.home / "demo" / self.region

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began

    def run(self) -> dict[str, Any]:
        """Run the whole demo; returns the measurements."""
        with self.timed("generate"):
            source_bytes = self._generate()
        self._remove_earlier_results()
        self.outputs.mkdir(parents=True, exist_ok=True)
        step("Starting Postgres and an orchestrator, each in its own process")
        output_of(["migrate"])
        self.services.start("orchestrator")
        with use_database(None) as url:
            self.ui = self.services.open_ui()
            job_id = self._break_and_run(url)
            with self.timed("retry"):
                status = self._repair(url, job_id)
            report = self._measured(url, job_id, status, source_bytes)
        self._publish()
        return report

    def _generate(self) -> int:
        manifest = self.storage / SOURCE / self.region / MANIFEST
        if manifest.exists():
            known = json.loads(manifest.read_text())
            if (len(known["groups"]), known["seed"]) == (self.items, SEED):
                step(f"Using the source data of {self.region} from an earlier demo: {self.items:,} groups")
                return int(known["bytes"])
            shutil.rmtree(manifest.parent)
        from holdfast.apps.flood.generate import generate

        step(f"Generating source data of {self.region}: {self.items:,} groups of {len(RETURN_PERIODS)} rasters each")
        manifest_content = generate(
            self.region,
            self.items,
            self.storage / SOURCE,
            SEED,
            return_periods=RETURN_PERIODS,
            workers=os.cpu_count() or 2,
        )
        say(f"    {manifest_content['bytes'] / 1e6:,.1f} MB in {self.storage / SOURCE / self.region}")
        return int(manifest_content["bytes"])

    def _remove_earlier_results(self) -> None:
        for folder in (self.storage / STACKS / self.region, self.storage / PICTURES / self.region, self.outputs):
            if folder.exists():
                say(f"    Removing the results of an earlier demo: {folder}")
                shutil.rmtree(folder)

    # The processes

    def link_to(self, job_id: str) -> str | None:
        """A link that signs a browser in and shows the job; None without a web UI."""
        if self.ui is None:
            return None
        with use_database(None) as url, SyncClient.connect(url, Scope(tenant=tenant())) as client:
            return sign_in_link(client, self.ui, self.home, f"jobs/{job_id}")

    def _start_workers(self) -> subprocess.Popen[bytes]:
        """Start all workers; returns the one that will be killed."""
        step(f"Starting {self.workers} workers")
        first, *_ = [self._work() for _ in range(self.workers)]
        return first

    def _work(self) -> subprocess.Popen[bytes]:
        return self.services.start("worker", "--handlers", "holdfast.apps.flood", "--concurrency", "2")

    # The story

    def _break_and_run(self, url: str) -> str:
        catalog = PostgresCatalog(url)
        catalog.make_ready()
        known = [item["id"] for item in all_items(catalog, collections=[self._collection])]
        if known:
            catalog.delete_items(self._collection, known)
        _execute(url, THAW)
        _execute(url, FREEZE)
        step("Breaking the catalog on purpose: its table now refuses every new row")
        inputs = {"region": self.region, "source": SOURCE, "stacks": STACKS, "pictures": PICTURES}
        words = ["submit", str(WORKFLOW), *(f"--input={name}={value}" for name, value in inputs.items())]
        job_id = str(answer_of([*words, "--key", f"demo {uuid.uuid4()}"])["job_id"])
        if self.ui is not None:
            step(f"Watch it in a browser, once and within a minute: {self.link_to(job_id)}")
        with self.timed("run"):
            self._follow(url, job_id)
        run_shown(["status", job_id[-8:]])
        return job_id

    def _follow(self, url: str, job_id: str) -> None:
        """Watch the job until it ends. Half-way, kill one of the workers with everything that it runs.

        On a busy machine half-way may be over before we look. Until the kill no registration can end, so that the job
        cannot either.
        """
        is_killed = False
        with (
            psycopg.connect(url) as holding,
            tethered(["watch", job_id, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watching,
        ):
            holding.execute(HOLD)
            assert watching.stdout is not None
            bar = _Bar()
            victim: subprocess.Popen[bytes] | None = None
            for line in watching.stdout:
                victim = victim or self._start_workers()
                nodes = {node["node"]: node for node in json.loads(line)["nodes"]}
                bar.show(nodes)
                done = nodes["stack"]["counts"]["completed"]
                if not is_killed and done >= self.items // 2:
                    is_killed = True
                    os.killpg(victim.pid, signal.SIGKILL)
                    victim.wait()
                    holding.rollback()
                    bar.close()
                    running = counted(sum(node["counts"]["running"] for node in nodes.values()), "task")
                    step(f"Killing a worker (kill -9) with {counted(done, 'stack')} done and {running} running")
                    say("    Another worker starts")
                    self._work()
            bar.close()
        if not is_killed:
            raise DemoFailed(
                "The job ended before the demo could kill a worker.",
                remedy="Use more items: holdfast demo flood --items 200",
            )

    def _repair(self, url: str, job_id: str) -> dict[str, Any]:
        run_shown(["plan", job_id[-8:], "retry", "register"])
        step("Repairing the catalog: its table accepts new rows again")
        _execute(url, THAW)
        retry = ["retry", job_id[-8:], "register", "--yes", "--reason", "the catalog works again"]
        run_shown(retry)
        run_shown(["watch", job_id[-8:]])
        return answer_of(["status", job_id])

    @property
    def _collection(self) -> str:
        return f"flood-{self.region.lower()}"

    def _measured(self, url: str, job_id: str, status: dict[str, Any], source_bytes: int) -> dict[str, Any]:
        events = lines_of(["events", job_id])
        ended = [event for event in events if event["event"] == "task_completed" and event["node"] == "stack"]
        stacks = sorted((self.storage / STACKS / self.region).rglob("*.tif"))
        (summary,) = PostgresCatalog(url).summaries([self._collection])
        return {
            "job_id": job_id,
            "status": status["status"],
            "generation": status["generation"],
            "region": self.region,
            "stacks": len(stacks),
            "stack_bytes": sum(path.stat().st_size for path in stacks),
            "source_bytes": source_bytes,
            "stacked_twice": len(ended) - len({event["index"] for event in ended}),
            "attempts_lost": sum(event["event"] == "worker_lost" for event in events),
            "registered": summary.items,
            "bbox": summary.bbox,
            "database_bytes": _execute(url, "select pg_database_size(current_database())"),
            "peak_mb": self._peaks(),
            "web_ui": f"{self.ui}jobs/{job_id}" if self.ui is not None else None,
            "seconds": {name: round(seconds, 1) for name, seconds in self.seconds.items()},
        }

    def _peaks(self) -> dict[str, float | None]:
        """The peak memory of the orchestrator, of a worker and of a handler's process, among the live ones."""
        (orchestrator,) = [process.pid for process in self.services.running("orchestrator")]
        workers = [process.pid for process in self.services.running("worker")]
        children = [pid for worker in workers for pid in _descendants(worker)]
        return {"orchestrator": _peak_mb([orchestrator]), "worker": _peak_mb(workers), "handler": _peak_mb(children)}

    def _publish(self) -> None:
        run_shown(["stac", "export", str(self.outputs / "catalog")])
        for picture in sorted((self.storage / PICTURES / self.region).glob("*.png")):
            shutil.copy(picture, self.outputs / picture.name)


class _Bar:
    """Shows the progress of the nodes in one line; without a terminal, as a new line every two seconds."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_at = 0.0
        self._last = ""

    def show(self, nodes: dict[str, Any]) -> None:
        text = "    " + "   ".join(
            f"{name} {_progress(node)}" for name, node in nodes.items() if node["stage"] is not None
        )
        if text == self._last or (not self._is_terminal and time.monotonic() - self._shown_at < 2):
            return
        self._last, self._shown_at = text, time.monotonic()
        print(f"\r\033[K{text}" if self._is_terminal else text, end="" if self._is_terminal else "\n", file=sys.stderr)  # noqa: T201
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_terminal and self._last:
            print(file=sys.stderr)  # noqa: T201
            self._last = ""


def _progress(node: dict[str, Any]) -> str:
    if node["progress"] is not None and node["type"] != "task":
        return f"{node['progress']['done']:,}/{node['progress']['total']:,}"
    return str(node["status"])


def _execute(url: str, statement: str) -> Any:
    """Run a statement; returns the first value of its answer, if it has one."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description is not None else None
        return row[0] if row is not None else None


def _descendants(pid: int) -> Iterator[int]:
    """The children of a process, and theirs; none on a system without /proc."""
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _descendants(child)


def _peak_mb(pids: Iterable[int]) -> float | None:
    """The highest peak memory of the processes; None on a system without /proc."""
    peaks = []
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            peaks += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")]
    return round(max(peaks), 1) if peaks else None
