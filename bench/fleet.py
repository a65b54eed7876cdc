"""Real processes for a benchmark: an orchestrator, workers, or both in one. Starts, measures and ends them."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from types import TracebackType

import psutil

from holdfast.assembly import new_services, new_web_server, new_worker_over_http
from holdfast.define.registry import discover
from holdfast.settings import load_settings

CONCURRENCY = 100
WORKERS = {
    "worker": ("bench.handlers", CONCURRENCY),
    "both": ("bench.handlers", CONCURRENCY),
    "resting": ("bench.handlers", 4_000),
    "sixteen": ("bench.handlers", 16),
    "over_http": ("bench.handlers", 16),
    "flooding": ("holdfast.apps.flood", 2),
    "rasters": ("holdfast.apps.raster.handlers", 1),
}
"""The roles with a worker: their handlers, and how many tasks they run at a time."""
ORCHESTRATORS = ("orchestrator", "both")
SERVICE = "api"
"""The role that serves HTTP, with the settings of the environment."""


async def serve(role: str, url: str) -> None:
    """Run the services of a role, in a child process of a fleet."""
    # Failures that a benchmark makes on purpose are no news.
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    if role == SERVICE:
        await serve_http(url)
        return
    module, concurrency = WORKERS.get(role, (None, None))
    registry, settings = discover([module]) if module is not None else None, load_settings()
    if role == "over_http":
        assert registry is not None and settings.url is not None
        services = new_worker_over_http(settings.url, settings.api_key, settings, registry, concurrency=concurrency)
    else:
        services = new_services(
            url, settings, registry=registry, orchestrate=role in ORCHESTRATORS, concurrency=concurrency
        )
    await services.start()
    print("ready", flush=True)
    await services.wait()


async def serve_http(url: str) -> None:
    """Serve HTTP until the process is ended."""
    server, store = new_web_server(url, load_settings())
    async with server:
        print(f"ready {server.url}", flush=True)
        await server.wait()
    await store.close()


class Fleet:
    """Processes that serve one database; records the peak memory of each."""

    def __init__(self, url: str, roles: tuple[str, ...] = ("orchestrator", "worker")) -> None:
        self._url = url
        self._roles = roles
        self._processes: list[subprocess.Popen[bytes]] = []
        self.peaks: dict[str, float] = {}
        self._watching = threading.Event()

    def __enter__(self) -> Fleet:
        for role in self._roles:
            command = [sys.executable, "-m", "bench", "--serve", role, "--url", self._url]
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            if not process.stdout.readline().startswith(b"ready"):
                raise RuntimeError(f"the {role} did not start")
            self._processes.append(process)
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watching.set()
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _watch(self) -> None:
        while not self._watching.wait(0.05):
            for role, process in zip(self._roles, self._processes, strict=True):
                try:
                    memory = psutil.Process(process.pid).memory_info().rss / 2**20
                except psutil.NoSuchProcess:
                    continue
                self.peaks[role] = max(memory, self.peaks.get(role, 0.0))

    def pids(self, role: str) -> list[int]:
        return [p.pid for r, p in zip(self._roles, self._processes, strict=True) if r == role and p.poll() is None]

    def kill(self, pid: int) -> None:
        """Send SIGKILL to one of these processes."""
        (process,) = (p for p in self._processes if p.pid == pid)
        process.send_signal(signal.SIGKILL)
        process.wait()


def run_child(role: str, url: str) -> None:
    asyncio.run(serve(role, url))


def now() -> float:
    return time.perf_counter()
