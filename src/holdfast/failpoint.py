"""Named points at which a process can be made to die, stop, wait or lose its database, for fault tests only.

Knows nothing of the code around a point. Without `HOLDFAST_FAILPOINT` a point costs one check of an empty dict.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InvalidInput, Unreachable

POINTS = {
    "claim.before": "a worker is about to ask for tasks",
    "claim.after_commit": "the worker has leased tasks and runs none of them yet",
    "run.before": "a handler is about to be called",
    "run.after": "the handler has returned, its report does not exist yet",
    "run.stored": "a large output is in the object store, no row refers to it",
    "renew.before": "a worker is about to renew its lease",
    "renew.after": "the worker's lease is renewed",
    "report.before": "attempts have ended, their reports are not sent",
    "report.after_commit": "the reports are committed, the worker has just received the answer",
    "drain.after_open": "an orchestrator has locked its row and read its signals",
    "decide.job": "the core has decided about one job, which goes on; `~WORKFLOW`: one of that workflow",
    "decide.after_core": "the core has decided, nothing is written",
    "commit.stored": "large values are in the object store, no row refers to them",
    "commit.before": "the cycle is about to be written and committed in one round trip",
    "commit.after": "the orchestrator has the answer to the commit",
    "notify.before": "retries are due, no worker is notified",
    "submit.before": "a job is about to be inserted",
    "submit.after_commit": "the job is committed, the client has no answer",
    "request.after_commit": "a request with a key and its signal are committed, the client has no answer",
    "api.after_commit": "the service has done what a request asks for and not answered; `~OPERATION`: of that route",
    "checkpoint.before": "a handler is about to save a checkpoint",
    "checkpoint.after": "the checkpoint is committed, the handler has no answer",
    "probe.claimed": "a worker has reserved a breaker and not probed it",
    "probe.asked": "the probe has its result, which is not stored",
    "breaker.changed": "a person's change of a breaker is written and not committed",
    "register.scheduled": "the schedule of a file is changed, its definition is not registered, nothing is committed",
    "tick.decided": "a process has decided what a tick of a schedule does, nothing is written",
    "tick.moved": "the row of a schedule is moved behind its tick, the job is not inserted, nothing is committed",
    "tick.written": "the row is moved and the job is inserted, nothing is committed",
    "tick.after_commit": "the tick is committed with its job, no orchestrator is woken",
    "delivery.claimed": "a process has taken deliveries and sends none of them yet",
    "delivery.before": "a delivery is about to be sent",
    "delivery.sent": "a receiver has a delivery, which is not noted",
    "delivery.marked": "it is noted how a try has ended",
    "janitor.found": "the janitor has looked for one kind of problem and not acted",
    "prune.after_commit": "the rows of finished jobs are deleted, their objects are not",
    "prune.after_objects": "the objects are removed too, which is not recorded",
}
ACTIONS = ("kill", "stop", "delay", "error")
DELAY_SECONDS = 5.0
_FAULT = re.compile(
    r"(?P<name>[^:]+):(?P<action>[a-z]+)(?:=(?P<seconds>\d+(?:\.\d+)?))?(?:@(?P<only>[1-9]\d*))?"
    r"(?:~(?P<about>[\w-]+))?"
)


@dataclass(slots=True)
class Fault:
    """What happens at a point: at every visit, or only at one of them."""

    action: str
    seconds: float
    only: int | None
    once: Path | None
    about: str | None = None
    visits: int = 0


_armed: dict[str, Fault] = {}


async def hit(name: str, about: str | None = None) -> None:
    """The code has reached that point, with a job of that workflow: cause the fault that is armed here."""
    if _armed:
        await _reach(name, about)


def arm(text: str | None, once: Path | None = None) -> None:
    """Arm the faults of `HOLDFAST_FAILPOINT`. With a directory, each acts once for all processes that share it."""
    _armed.clear()
    if text is not None:
        _armed.update(parse(text, once))
        if once is not None:
            once.mkdir(parents=True, exist_ok=True)


def parse(text: str, once: Path | None = None) -> dict[str, Fault]:
    """Read `name:action[=seconds][@visit][~workflow],…`; refuse an unknown name or action."""
    faults = {}
    for part in text.split(","):
        match = _FAULT.fullmatch(part.strip())
        if match is None or match["action"] not in ACTIONS or (match["seconds"] and match["action"] != "delay"):
            raise _refused(f"'{part.strip()}' is not a valid fault")
        if match["name"] not in POINTS:
            raise _refused(f"there is no failpoint '{match['name']}'")
        faults[match["name"]] = Fault(
            match["action"],
            float(match["seconds"] or DELAY_SECONDS),
            int(match["only"]) if match["only"] else None,
            once / match["name"] if once is not None else None,
            match["about"],
        )
    return faults


def _refused(why: str) -> InvalidInput:
    return InvalidInput(
        f"HOLDFAST_FAILPOINT: {why}.",
        remedy="Write NAME:ACTION, NAME:delay=SECONDS or NAME:ACTION@VISIT, with commas between them, "
        "and ~WORKFLOW behind decide.job. "
        f"Actions: {', '.join(ACTIONS)}. Names: {', '.join(POINTS)}.",
    )


async def _reach(name: str, about: str | None) -> None:
    fault = _armed.get(name)
    if fault is None or fault.about not in (None, about):
        return
    fault.visits += 1
    if (fault.only is None or fault.visits == fault.only) and _is_first(fault.once):
        await _act(name, fault)


def _is_first(marker: Path | None) -> bool:
    """Whether no process has caused this fault before, neither this one nor one that it replaces."""
    if marker is None:
        return True
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


async def _act(name: str, fault: Fault) -> None:
    match fault.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "delay":
            await asyncio.sleep(fault.seconds)
        case _:
            raise Unreachable(f"Failpoint {name}: the connection is lost.", remedy="Unset HOLDFAST_FAILPOINT.")
