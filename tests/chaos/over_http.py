"""Faults around a worker that has no database: it is struck, its service is struck, and the network between them is."""

from __future__ import annotations

import asyncio
import signal

from holdfast.client import Client
from holdfast.operations.scope import Scope
from tests.chaos import workload
from tests.chaos.case import Case
from tests.chaos.fleet import LEASE_SECONDS, READY_SECONDS, Process, until
from tests.chaos.proxy import Direction, Proxy
from tests.ports import free_port

POINTS = (
    *("claim.before", "claim.after_commit", "run.before", "run.after", "run.stored", "renew.before", "renew.after"),
    *("report.before", "report.after_commit", "checkpoint.before", "checkpoint.after"),
)
"""Where a worker over HTTP is struck."""
CALLS = ("claim_tasks", "renew_worker", "save_checkpoint", "report_tasks")
"""In which calls its service is killed: after the commit, before the answer."""
COPIES = 10


async def worker_at(point: str, action: str, case: Case) -> None:
    """Kill the worker, or stop it until its leases have ended; another one goes on."""
    place = await _served(case)
    await case.submit(workload.jobs(copies=COPIES if point.startswith("renew") else 2))
    once = case.scratch / "once"
    fault = {"HOLDFAST_FAILPOINT": f"{point}:{action}@{1 + case.number % 3}", "HOLDFAST_FAILPOINT_ONCE": str(once)}
    victim = case.fleet.start("worker", **place, **fault)
    await case.fleet.up("orchestrator")

    async def was_reached() -> bool:
        return (once / point).exists()

    await until(f"the worker reaches {point}", was_reached)
    case.broken((once / point).stat().st_mtime)
    if action == "kill":
        await victim.ended()
    await case.note_leases()
    await case.fleet.up("worker", **place)
    if action == "stop":
        await case.until_declared_dead(victim)
        victim.send(signal.SIGCONT)


async def service_in(call: str, case: Case) -> None:
    """Kill the service in calls of this name, three times, and start it again."""
    place, port = await _place(case)
    await case.submit(workload.jobs(copies=3))
    await case.fleet.up("orchestrator")
    case.fleet.kept.append(case.fleet.start("worker", **place))
    for _ in range(3):
        fault = {"HOLDFAST_FAILPOINT": f"api.after_commit:kill@{1 + case.number % 3}~{call}"}
        service = case.fleet.start("api", HOLDFAST_PORT=port, **fault)
        await service.ended(READY_SECONDS)
        case.broken()
    await case.fleet.up("api", HOLDFAST_PORT=port)


async def stop_service(case: Case) -> None:
    """The service stands still until all leases have ended."""
    place = await _served(case)
    (service,) = case.fleet.kept
    await case.fleet.up("orchestrator")
    await case.fleet.up("worker", **place)
    await case.submit(workload.jobs(copies=COPIES))
    await case.until_work_is_leased()
    service.send(signal.SIGSTOP)
    case.broken()
    await case.until_rows("the end of the worker", "select 1 from workers where ended_at is not null")
    service.send(signal.SIGCONT)


async def cut(case: Case) -> None:
    """All connections to the service are reset, again and again."""
    place = await _served(case)
    async with Proxy(_port(place)) as proxy:
        case.fleet.kept.append(await _behind(case, place, proxy))
        case.broken()
        for _ in range(20):
            proxy.cut()
            await asyncio.sleep(LEASE_SECONDS / 10)
        await case.all_done()


async def swallow(direction: Direction, case: Case) -> None:
    """Requests or answers are lost until the worker is declared dead, and another one works. Then it recovers."""
    place = await _served(case)
    async with Proxy(_port(place)) as proxy:
        victim = await _behind(case, place, proxy)
        proxy.swallow(direction)
        case.broken()
        await case.note_leases()
        (replacement,) = await case.fleet.up("worker", **place)
        await case.until_declared_dead(victim)
        proxy.heal()
        await case.all_done()
        case.fleet.kept.remove(replacement)
        replacement.kill()
        case.fleet.kept.append(victim)
        await case.submit(workload.jobs([workload.CHAIN], copies=3)[2:])
        await case.all_done()


async def restart_postgres(case: Case) -> None:
    place = await _served(case)
    await case.fleet.up("orchestrator")
    await case.fleet.up("worker", **place)
    await case.submit(workload.jobs(copies=COPIES))
    await case.until_work_is_leased()
    case.broken()
    await asyncio.to_thread(case.server.restart_at_once)


async def _place(case: Case) -> tuple[dict[str, str], str]:
    """The variables with which a worker finds a service, and the port of the service, which is not started."""
    async with Client.connect(case.url, Scope("default", "chaos")) as client:
        key = (await client.add_key("chaos", roles=["worker"])).key
    port = str(free_port())
    return {"HOLDFAST_URL": f"http://127.0.0.1:{port}", "HOLDFAST_API_KEY": key}, port


async def _served(case: Case) -> dict[str, str]:
    """Start a service. Returns the variables with which a worker finds it."""
    place, port = await _place(case)
    await case.fleet.up("api", HOLDFAST_PORT=port)
    return place


def _port(place: dict[str, str]) -> int:
    return int(place["HOLDFAST_URL"].rpartition(":")[2])


async def _behind(case: Case, place: dict[str, str], proxy: Proxy) -> Process:
    """Start the only worker behind the proxy, and wait until it works."""
    await case.submit()
    victim = case.fleet.start("worker", **place | {"HOLDFAST_URL": f"http://127.0.0.1:{proxy.port}"})
    await case.fleet.up("orchestrator")
    await case.until_work_is_leased()
    return victim
