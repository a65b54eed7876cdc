"""Named points at which a process can be made to die, stop, wait or lose its database: for fault tests alone.

Knows nothing of what happens at a point. Without `HOLDFAST_FAILPOINT` a point costs one look at an empty dict.
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
    "claim.after_commit": "it has leased tasks and runs none of them yet",
    "run.before": "a handler is about to be called",
    "run.after": "the handler has returned, nobody knows of it",
    "run.stored": "its output was large and lies in the object store, nobody refers to it",
    "renew.before": "a worker is about to renew its lease",
    "renew.after": "its lease is renewed",
    "report.before": "attempts are over, their reports are not sent",
    "report.after_commit": "the reports are committed, the worker has just heard so",
    "drain.after_open": "an orchestrator has locked its row and read its signals",
    "decide.job": "the core has decided about one job, which goes on; `~WORKFLOW`: one of that workflow",
    "decide.after_core": "the core has decided, nothing is written",
    "commit.stored": "large values lie in the object store, no row refers to them",
    "commit.before": "everything is ready to be written and committed in one round trip",
    "commit.after": "the answer to the commit has come",
    "notify.before": "retries have become due, no worker was told",
    "submit.before": "a job is about to be inserted",
    "submit.after_commit": "the job is committed, whoever submitted it has not heard",
    "checkpoint.before": "a handler is about to save a checkpoint",
    "checkpoint.after": "the checkpoint is committed, the handler has not heard",
    "probe.claimed": "a worker is to probe a breaker and has not asked yet",
    "probe.asked": "the probe has its answer, nobody knows of it",
    "breaker.changed": "what a person wants of a breaker is written and not committed",
    "janitor.found": "the janitor has looked for one kind of trouble and has not acted",
    "prune.after_commit": "the rows of finished jobs are deleted, their objects are not",
    "prune.after_objects": "their objects are removed too, nobody has noted that",
}
ACTIONS = ("kill", "stop", "delay", "error")
DELAY_SECONDS = 5.0
_GIVEN = re.compile(
    r"(?P<name>[^:]+):(?P<action>[a-z]+)(?:=(?P<seconds>\d+(?:\.\d+)?))?(?:@(?P<only>[1-9]\d*))?"
    r"(?:~(?P<about>[\w-]+))?"
)


@dataclass(slots=True)
class Fault:
    """What is to happen at a point: at every visit, or only at one."""

    action: str
    seconds: float
    only: int | None
    once: Path | None
    about: str | None = None
    visits: int = 0


_armed: dict[str, Fault] = {}


async def hit(name: str, about: str | None = None) -> None:
    """We are at that point, with a job of that workflow: whatever was asked for happens now."""
    if _armed:
        await _reach(name, about)


def arm(given: str | None, once: Path | None = None) -> None:
    """Take over what `HOLDFAST_FAILPOINT` says; with a directory, a point acts once for all processes that name it."""
    _armed.clear()
    if given is not None:
        _armed.update(parse(given, once))
        if once is not None:
            once.mkdir(parents=True, exist_ok=True)


def parse(given: str, once: Path | None = None) -> dict[str, Fault]:
    """From `name:action[=seconds][@visit][~workflow],…` to faults; a word that we do not know is refused."""
    faults = {}
    for part in given.split(","):
        found = _GIVEN.fullmatch(part.strip())
        if found is None or found["action"] not in ACTIONS or (found["seconds"] and found["action"] != "delay"):
            raise _refused(f"'{part.strip()}' does not say what shall happen where")
        if found["name"] not in POINTS:
            raise _refused(f"there is no failpoint '{found['name']}'")
        faults[found["name"]] = Fault(
            found["action"],
            float(found["seconds"] or DELAY_SECONDS),
            int(found["only"]) if found["only"] else None,
            once / found["name"] if once is not None else None,
            found["about"],
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
    """Whether nobody was here before us, neither this process nor the one that it replaces."""
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
