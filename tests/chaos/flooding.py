"""`python -m tests.chaos.flooding [--items N] [--every SECONDS]`: the flood pipeline while its processes are killed.

Runs one job without faults, then the same job while it kills a worker, an orchestrator and a handler's process of the
other worker every few seconds. The files must have the same hashes, and no finished task may run again. All files are
below HOLDFAST_HOME; existing source data is used.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from holdfast.apps.flood.generate import generate

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
WORKFLOW = Path(__file__).parents[2] / "src/holdfast/apps/flood/flood_stack.yaml"
SETTINGS = {
    "HOLDFAST_LEASE_SECONDS": "4",
    "HOLDFAST_RENEW_SECONDS": "1",
    "HOLDFAST_OWNER_LEASE_SECONDS": "4",
    "HOLDFAST_OWNER_RENEW_SECONDS": "1",
    "HOLDFAST_OWNER_SCAN_SECONDS": "1",
}
REGION, SEED, RETURN_PERIODS = "CIV", 7, (10, 50, 100, 500)
WORKER = ("worker", "--handlers", "holdfast.apps.flood", "--concurrency", "2")


class Fleet:
    """Two orchestrators and two workers; a killed process is started again."""

    def __init__(self) -> None:
        self.roles = [("orchestrator",), ("orchestrator",), WORKER, WORKER]
        self.processes = [self._start(role) for role in self.roles]
        self.kills: Counter[str] = Counter()

    def _start(self, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [HOLDFAST, *words],
            env={**os.environ, **SETTINGS},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self, place: int) -> None:
        """Kill a process and all its children, and start it again."""
        os.killpg(self.processes[place].pid, signal.SIGKILL)
        self.processes[place].wait()
        self.kills[self.roles[place][0]] += 1
        self.processes[place] = self._start(self.roles[place])

    def kill_handler(self, place: int) -> None:
        """One of the processes that a worker's fork server has forked, whatever it does just now."""
        worker = psutil.Process(self.processes[place].pid)
        forked = [process for fork_server in worker.children() for process in fork_server.children()]
        if forked:
            forked[0].kill()
            self.kills["handler"] += 1

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            process.wait(60)


def answer(*words: str) -> Any:
    done = subprocess.run([HOLDFAST, *words, "--json"], capture_output=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines if words[0] == "events" else lines[0]


def run(storage: Path, stacks: str, every_seconds: float | None) -> dict[str, Any]:
    """Run one job to its end; returns its result, with the hash of every file."""
    shutil.rmtree(storage / stacks, ignore_errors=True)
    fleet = Fleet()
    began = time.monotonic()
    try:
        inputs = {"region": REGION, "stacks": stacks, "pictures": f"{stacks}-pictures"}
        options = [f"--input={name}={value}" for name, value in inputs.items()]
        job_id = answer("submit", str(WORKFLOW), *options, "--key", str(uuid.uuid4()))["job_id"]
        places = itertools.cycle([(0, 2, 3), (1, 3, 2)])
        next_kill = began + (every_seconds or float("inf"))
        watching = subprocess.Popen([HOLDFAST, "watch", job_id, "--json"], stdout=subprocess.DEVNULL)
        while watching.poll() is None:
            if time.monotonic() >= next_kill:
                orchestrator, worker, other = next(places)
                fleet.kill(worker)
                fleet.kill(orchestrator)
                fleet.kill_handler(other)
                next_kill = time.monotonic() + (every_seconds or 0)
            time.sleep(0.1)
        seconds = time.monotonic() - began
        events = answer("events", job_id)
        status = answer("status", job_id)
    finally:
        fleet.stop()
    completed = Counter((e["node"], e["index"]) for e in events if e["event"] == "task_completed")
    files = sorted((storage / stacks).rglob("*.tif"))
    return {
        "job_id": job_id,
        "status": status["status"],
        "seconds": round(seconds, 1),
        "kills": dict(fleet.kills),
        "attempts_lost": sum(e["event"] == "worker_lost" for e in events),
        "completed_twice": sum(n > 1 for n in completed.values()),
        "drafts_left": len(list((storage / stacks).rglob(".*"))),
        "files": {str(f.relative_to(storage / stacks)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.flooding")
    parser.add_argument("--items", type=int, default=240)
    parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS")
    arguments = parser.parse_args()
    storage = Path(os.environ.get("HOLDFAST_HOME", ".holdfast")).absolute() / "storage"
    manifest = storage / "bronze/flood" / REGION / "manifest.json"
    if not manifest.exists() or len(json.loads(manifest.read_text())["groups"]) != arguments.items:
        shutil.rmtree(manifest.parent, ignore_errors=True)
        generate(REGION, arguments.items, storage / "bronze/flood", SEED, return_periods=RETURN_PERIODS)
    subprocess.run([HOLDFAST, "migrate"], check=True, stdout=subprocess.DEVNULL)
    calm = run(storage, "silver/calm", None)
    killed = run(storage, "silver/killed", arguments.every)
    for name, result in (("calm", calm), ("killed", killed)):
        print(name, {key: value for key, value in result.items() if key != "files"}, len(result["files"]), "files")
    is_well = (
        calm["status"] == killed["status"] == "completed"
        and calm["files"] == killed["files"]
        and len(killed["files"]) == arguments.items
        and killed["completed_twice"] == killed["drafts_left"] == 0
    )
    print("All files are equal; no task completed twice." if is_well else "ERROR: the results differ.")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
