"""Every fault, by name. A new one is a coroutine that starts processes, submits, breaks and repairs; list it below."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg

from holdfast.failpoint import POINTS
from holdfast.store.postgres import PostgresStore
from tests.chaos import correcting, over_http, undoing, workload
from tests.chaos.case import Case
from tests.chaos.fleet import HOLDFAST, LEASE_SECONDS, SETTINGS, Process, Server, until
from tests.chaos.proxy import BOTH, Direction, Proxy
from tests.chaos.replicated import ReplicatedServer

WORKER, ORCHESTRATOR = "worker", "orchestrator"
OTHER = {WORKER: ORCHESTRATOR, ORCHESTRATOR: WORKER}
SMALL_DISK = "160m"
_COMPLETED = "select 1 where (select count(*) from tasks where status = 'completed') >="
LOST_TASKS = 30
LOAD_COPIES = 25
"""Copies of every workflow, enough that the work outlasts the fault."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault, and one place or way of injecting it."""

    kind: str
    where: str
    strike: Callable[[Case], Awaitable[None]]
    needs_small_disk: bool = False
    needs_replicas: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind} {self.where}".strip()


def service_of(point: str) -> str:
    step = point.partition(".")[0]
    return WORKER if step in ("claim", "run", "renew", "report", "checkpoint") else ORCHESTRATOR


async def calm(case: Case) -> None:
    """Nothing breaks."""
    await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit()


# Failpoints


async def _reaches(case: Case, point: str, action: str) -> Process:
    """Start the only process of its kind, and wait until it reaches the point while it has work."""
    # No process uses the database while a handler runs, so an error there is a failure of the handler.
    workflows = workload.RETRYING if point.startswith("run") and action == "error" else workload.MIXED
    await case.submit(workload.jobs(workflows, copies=10 if point.startswith("renew") else 2))
    service = service_of(point)
    once = case.scratch / "once"
    visit = f"@{1 + case.number % 3}"
    victim = case.fleet.start(service, HOLDFAST_FAILPOINT=f"{point}:{action}{visit}", HOLDFAST_FAILPOINT_ONCE=str(once))
    await case.fleet.up(OTHER[service])

    async def was_reached() -> bool:
        return (once / point).exists()

    await until(f"{service} reaches {point}", was_reached)
    case.broken((once / point).stat().st_mtime)
    return victim


async def kill_at(point: str, case: Case) -> None:
    victim = await _reaches(case, point, "kill")
    await victim.ended()
    if victim.service == WORKER:
        await case.note_leases()
    await case.fleet.up(victim.service)


async def stop_at(point: str, case: Case) -> None:
    """Stop a process until it is declared dead; then let it continue as if nothing had happened."""
    victim = await _reaches(case, point, "stop")
    if victim.service == WORKER:
        await case.note_leases()
    await case.fleet.up(victim.service)
    await case.until_declared_dead(victim)
    victim.send(signal.SIGCONT)


async def error_at(point: str, case: Case) -> None:
    """A process loses its database for a moment, and survives."""
    case.fleet.kept.append(await _reaches(case, point, "error"))


async def submit_at(point: str, action: str, case: Case) -> None:
    """A submission is struck, and repeated with the same key."""
    await case.fleet.up(ORCHESTRATOR, WORKER)
    (job,) = workload.jobs([workload.CHAIN], copies=1)
    case.jobs.append(job)
    file = case.scratch / "chain.yaml"
    file.write_text(workload.CHAIN)
    await _strike_twice(case, point, action, "submit", str(file), "--input", "number=0", "--key", "chain 0")


async def prune_at(point: str, action: str, case: Case) -> None:
    """A prune is struck; the next one leaves neither rows nor objects, and the same jobs can be submitted again."""
    await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit()
    await case.all_done()
    case.jobs.clear()
    await _strike_twice(case, point, action, "prune", "--older-than", "0s", "--yes")
    left = await case.query("select job_id from jobs union all select job_id from discarded")
    assert (left, list((case.scratch / "home/payloads").iterdir())) == ([], [])
    await case.submit()


async def _strike_twice(case: Case, point: str, action: str, *words: str) -> None:
    """Strike a command, and repeat it, like a person who got no answer."""
    command = [HOLDFAST, *words]
    environment = {**os.environ, **SETTINGS, "HOLDFAST_DATABASE_URL": case.url}
    environment["HOLDFAST_HOME"] = str(case.scratch / "home")
    first = subprocess.Popen(
        command,
        env=environment | {"HOLDFAST_FAILPOINT": f"{point}:{action}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if action == "stop":
        await asyncio.to_thread(os.waitid, os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    else:
        await asyncio.to_thread(first.wait)
    case.broken()
    again = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert await again.wait() == 0
    first.send_signal(signal.SIGCONT)
    await asyncio.to_thread(first.wait)


async def die_of_a_job(case: Case) -> None:
    """Every orchestrator dies when it advances one job. The other jobs continue, and a person can cancel that one."""
    await case.submit()
    (deadly,) = workload.jobs([workload.DEADLY], copies=1)
    store = PostgresStore(case.url, "holdfast chaos")
    try:
        await store.submit([deadly])
        await case.fleet.up(WORKER)
        case.fleet.kept.append(case.fleet.start(ORCHESTRATOR, HOLDFAST_FAILPOINT="decide.job:kill~deadly"))
        case.broken()

        async def is_set_aside() -> bool:
            case.fleet.replace_the_dead()
            return bool(await case.query("select 1 from jobs where reason like '%%died%%'"))

        await until("the job is set aside", is_set_aside, seconds=60)
        await until("the others", partial(_have_ended, case), seconds=60)
        await store.send(deadly.job_id, "cancel", "somebody", "it kills orchestrators")
        await case.all_done()
    finally:
        await store.close()
    assert await case.query("select status from jobs where workflow_id = 'deadly'") == [("cancelled",)]


async def _have_ended(case: Case) -> bool:
    case.fleet.replace_the_dead()
    return not await case.query("select 1 from jobs where finished_at is null and workflow_id <> 'deadly'")


# The network


async def _behind(case: Case, service: str, proxy: Proxy) -> Process:
    """Start the only process of its kind behind the proxy, and wait until it works."""
    await case.submit()
    url = case.url.replace(f":{case.server.port}/", f":{proxy.port}/")
    victim = case.fleet.start(service, url)
    await case.fleet.up(OTHER[service])
    await case.until_work_is_leased()
    return victim


async def _struck(case: Case, service: str) -> None:
    case.broken()
    if service == WORKER:
        await case.note_leases()


async def cut(service: str, case: Case) -> None:
    async with Proxy(case.server.port) as proxy:
        case.fleet.kept.append(await _behind(case, service, proxy))
        proxy.cut()
        await _struck(case, service)
        await case.all_done()


async def cut_at_commit(direction: Direction, case: Case) -> None:
    """Cut a connection inside COMMIT: before Postgres gets it, or before the client gets the answer."""
    async with Proxy(case.server.port) as proxy:
        proxy.cut_at_commit(direction)
        case.fleet.kept.append(
            case.fleet.start(ORCHESTRATOR, case.url.replace(f":{case.server.port}/", f":{proxy.port}/"))
        )
        await case.fleet.up(WORKER)
        await case.submit()

        async def was_cut() -> bool:
            return proxy.was_cut.is_set()

        await until("a commit through the proxy", was_cut)
        case.broken()
        await case.all_done()


async def stall(service: str, case: Case) -> None:
    """No byte passes in either direction for longer than the lease; then all of them arrive at once."""
    async with Proxy(case.server.port) as proxy:
        victim = await _behind(case, service, proxy)
        proxy.hold(*BOTH)
        await _struck(case, service)
        await case.fleet.up(service)
        await case.until_declared_dead(victim)
        proxy.heal()
        case.fleet.kept.append(victim)
        await case.all_done()


async def swallow(service: str, direction: Direction, case: Case) -> None:
    """Bytes in one direction are lost, and other processes do the work. Afterwards the victim must recover."""
    async with Proxy(case.server.port) as proxy:
        victim = await _behind(case, service, proxy)
        proxy.swallow(direction)
        await _struck(case, service)
        (replacement,) = await case.fleet.up(service)
        await case.until_declared_dead(victim)
        proxy.heal()
        await case.all_done()
        case.fleet.kept.remove(replacement)
        replacement.kill()
        case.fleet.kept.append(victim)
        await case.submit(workload.jobs([workload.CHAIN], copies=3)[2:])
        await case.all_done()


# Postgres


async def restart_postgres(case: Case) -> None:
    """Restart Postgres as `pg_ctl -m immediate` does, under load."""
    await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit(workload.jobs(copies=LOAD_COPIES))
    await case.until_work_is_leased()
    case.broken()
    await asyncio.to_thread(case.server.restart_at_once)


async def turn_read_only(case: Case) -> None:
    """Postgres refuses writes until all leases have expired, as before a promotion. No process ends.

    The recovery is measured from the end of the fault.
    """
    started = await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit(workload.jobs(copies=LOAD_COPIES))
    await case.until_work_is_leased()
    await case.query("alter system set default_transaction_read_only = on")
    await asyncio.to_thread(case.server.restart_at_once)
    await asyncio.sleep(LEASE_SECONDS)
    await case.query("alter system set default_transaction_read_only = off")
    await case.query("select pg_reload_conf()")
    case.broken()
    await case.all_done()
    assert all(process.is_alive for process in started), "a process has ended instead of waiting"


async def kill_backends(case: Case) -> None:
    """Terminate every connection of ours, one after the other, as an administrator might."""
    await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit(workload.jobs(copies=4))
    await case.until_work_is_leased()
    mine = "select pid from pg_stat_activity where datname = current_database() and application_name like 'holdfast%%'"
    for (pid,) in await case.query(mine):
        case.broken()
        await case.query("select pg_terminate_backend(%(pid)s)", pid=pid)


async def exhaust_connections(case: Case) -> None:
    """Idle clients use up all connections, ours included, until all leases have expired.

    The recovery is measured from the release of the connections.
    """
    await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit(workload.jobs(copies=LOAD_COPIES))
    await case.until_work_is_leased()
    with ExitStack() as idle:
        await asyncio.to_thread(_use_all_connections, case, idle)
        await asyncio.sleep(LEASE_SECONDS)
    case.broken()


def _use_all_connections(case: Case, idle: ExitStack) -> None:
    terminator = idle.enter_context(psycopg.connect(case.url, autocommit=True))
    for _ in range(3):
        terminator.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'holdfast%'"
        )
        with suppress(psycopg.OperationalError):
            while True:
                idle.enter_context(psycopg.connect(case.url, autocommit=True))


async def fill_the_disk(case: Case) -> None:
    """The disk is full until somebody makes room; Postgres may die. The recovery is measured from then on."""
    await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit(workload.jobs(copies=LOAD_COPIES))
    await case.until_work_is_leased()
    ballast = case.server.home / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(2**16))
    await asyncio.to_thread(_use_up_the_log, case.url)
    ballast.unlink()
    case.broken()
    await asyncio.to_thread(case.server.start)


def _use_up_the_log(url: str) -> None:
    """Postgres has room in its existing WAL files; write until it needs another one and dies."""
    with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as connection:
        while True:
            connection.execute("select pg_logical_emit_message(false, 'ballast', repeat('x', 1000000))")


async def fail_over(case: Case) -> None:
    """The server dies, and a standby that lacks the last commits replaces it. Every process survives."""
    server = _replicated(case)
    await asyncio.to_thread(server.add_standby)
    await _work_slowly(case)
    await asyncio.to_thread(server.cut_off_standby)
    await _lose_what_comes_now(case, server.fail_over)


async def restore(case: Case) -> None:
    """A copy replaces the database. Every process survives."""
    server = _replicated(case)
    await _work_slowly(case)
    copy = await asyncio.to_thread(server.copy)
    await _lose_what_comes_now(case, partial(server.restore, copy))


def _replicated(case: Case) -> ReplicatedServer:
    assert isinstance(case.server, ReplicatedServer)
    return case.server


async def _work_slowly(case: Case) -> None:
    """Start slow work, so that there is time for a copy, and for changes after it, before all jobs have ended."""
    await case.fleet.up(ORCHESTRATOR, WORKER, WORKER, CHAOS_WORK_SECONDS="0.25")
    await case.submit(workload.jobs(copies=LOAD_COPIES // 2))
    await case.until_rows("completed work", f"{_COMPLETED} 10")


async def _lose_what_comes_now(case: Case, lose: Callable[[], None]) -> None:
    ((before,),) = await case.query("select count(*) from tasks where status = 'completed'")
    await case.until_rows("more completed work", f"{_COMPLETED} {before + LOST_TASKS}")
    await asyncio.to_thread(lose)
    case.broken()
    ((after,),) = await case.query("select count(*) from tasks where status = 'completed'")
    assert after < before + LOST_TASKS, "nothing was lost"
    await case.submit_again()


# Handlers


async def hold_the_interpreter(case: Case) -> None:
    """A handler keeps all other threads from running for longer than the lease."""
    await case.fleet.up(ORCHESTRATOR, WORKER, HOLDFAST_LOST_LIMIT="1")
    case.broken()
    await case.submit(workload.jobs([workload.GIL], copies=1))


async def terminate(case: Case) -> None:
    """SIGTERM to a worker whose task ignores it: the task goes back to the queue after the grace period."""
    _, worker = await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit(workload.jobs([workload.STUBBORN], copies=1))
    await case.until_work_is_leased()
    await case.note_leases()
    case.fleet.kept.remove(worker)
    worker.send(signal.SIGTERM)
    case.broken()
    await worker.ended()
    await case.fleet.up(WORKER)


async def crash(handler: str, case: Case) -> None:
    """A handler's own process dies. Its worker survives, no retry is used, and no process is left."""
    _, worker = await case.fleet.up(ORCHESTRATOR, WORKER)
    await case.submit([*workload.jobs([workload.CRASH.format(handler=handler)], copies=1), *workload.jobs()])
    first = await until("the handler has begun", partial(_first_execution, case, "crash"))
    if handler in ("chaos_victim", "chaos_parent"):
        os.kill(first["pid"], signal.SIGKILL)
    case.broken()
    case.note(first["job"], first["node"], first["item"])
    await until("its processes are gone", partial(_are_gone, [first["pid"], *first.get("children", ())]))
    await case.all_done()

    async def survives() -> bool:
        return worker.is_alive

    await until("the worker survives", survives, seconds=0)


async def _first_execution(case: Case, node: str) -> dict[str, Any]:
    """The line of the first execution of a task of this node; empty if there is none yet."""
    effects = case.scratch / "effects"
    lines = [json.loads(line) for line in effects.read_text().splitlines()] if effects.exists() else []
    return next((line for line in lines if line["node"] == node), {})


async def _are_gone(pids: Sequence[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in pids)


BY_COMMAND = {
    point: strike
    for prefix, strike in (("submit", submit_at), ("prune", prune_at))
    for point in POINTS
    if point.startswith(prefix)
}
STRUCK_ELSEWHERE = ("probe.", "breaker.", "request.", "api.", "delivery.", "tick.", "register.")
"""Points that this workload does not reach. tests/test_dependencies.py, tests/cli/test_breakers.py, tests/service and
tests/schedules strike them."""
AT_POINTS = [point for point in POINTS if point not in BY_COMMAND and not point.startswith(STRUCK_ELSEWHERE)]
FAULTS = [
    *(
        Fault("kill during an undo", f"at {point}@{visit}", partial(undoing.kill_at, service, point, visit))
        for service, points in undoing.KILLS.items()
        for point, visit in points
    ),
    *(
        Fault("kill during a correction", f"at {point}@{visit}", partial(correcting.kill_at, service, point, visit))
        for service, points in correcting.KILLS.items()
        for point, visit in points
    ),
    *(Fault("disturb a correction", one.__name__.replace("_", " "), one) for one in correcting.DISTURBED),
    *(Fault("disturb an undo", one.__name__.replace("_", " "), one) for one in undoing.DISTURBED),
    *(Fault("kill", f"at {point}", partial(kill_at, point)) for point in AT_POINTS),
    *(Fault("kill", f"at {point}", partial(strike, point, "kill")) for point, strike in BY_COMMAND.items()),
    Fault("kill", "every orchestrator that advances a job", die_of_a_job),
    *(Fault("stop", f"at {point}", partial(stop_at, point)) for point in AT_POINTS),
    *(Fault("stop", f"at {point}", partial(strike, point, "stop")) for point, strike in BY_COMMAND.items()),
    *(Fault("lose the database", f"at {point}", partial(error_at, point)) for point in AT_POINTS),
    *(
        Fault("lose the database", f"at {point}", partial(strike, point, "error"))
        for point, strike in BY_COMMAND.items()
    ),
    *(Fault("cut the network", f"of the {s}", partial(cut, s)) for s in OTHER),
    Fault("cut a commit", "before Postgres gets it", partial(cut_at_commit, "to_server")),
    Fault("cut a commit", "before its answer", partial(cut_at_commit, "to_client")),
    *(Fault("stall the network", f"of the {s} past the lease", partial(stall, s)) for s in OTHER),
    *(
        Fault("swallow the network", f"of the {s}, {d.replace('_', ' ')}", partial(swallow, s, d))
        for s in OTHER
        for d in BOTH
    ),
    Fault("restart Postgres", "with -m immediate", restart_postgres),
    Fault("restart Postgres", "read-only", turn_read_only),
    Fault("kill backends", "", kill_backends),
    Fault("exhaust connections", "", exhaust_connections),
    Fault("fill the disk", "", fill_the_disk, needs_small_disk=True),
    Fault("lose history", "by a failover to a standby that lacks commits", fail_over, needs_replicas=True),
    Fault("lose history", "by a restored copy", restore, needs_replicas=True),
    Fault("hold the interpreter", "past the lease", hold_the_interpreter),
    Fault("crash a handler", "by a segfault", partial(crash, "chaos_segfault")),
    Fault("crash a handler", "by too much memory", partial(crash, "chaos_hoard")),
    Fault("crash a handler", "by signal 9", partial(crash, "chaos_victim")),
    Fault("crash a handler", "with child processes", partial(crash, "chaos_parent")),
    Fault("terminate", "a worker whose task ignores it", terminate),
    *(
        Fault("strike over HTTP:", f"{action} the worker at {point}", partial(over_http.worker_at, point, action))
        for action in ("kill", "stop")
        for point in over_http.POINTS
    ),
    *(
        Fault("strike over HTTP:", f"kill the service in {call}", partial(over_http.service_in, call))
        for call in over_http.CALLS
    ),
    Fault("strike over HTTP:", "stop the service past the lease", over_http.stop_service),
    Fault("strike over HTTP:", "cut the network of the worker", over_http.cut),
    *(
        Fault("strike over HTTP:", f"swallow the network, {d.replace('_', ' ')}", partial(over_http.swallow, d))
        for d in BOTH
    ),
    Fault("strike over HTTP:", "restart Postgres", over_http.restart_postgres),
]


@contextmanager
def small_disk(directory: Path) -> Iterator[Server]:
    """A Postgres with its files on a small separate disk; needs the right to mount one."""
    directory.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "holdfast-chaos", directory], check=True)
    try:
        with Server(directory / "home") as server:
            yield server
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def can_mount() -> bool:
    return os.geteuid() == 0
