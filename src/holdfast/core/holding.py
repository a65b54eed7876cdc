"""What a report tells the breakers of its task and what they answer, and which breakers hold a job back."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.breaking import Breaker, BreakerState, Call, feed
from holdfast.core.effects import OWN_TASK, ReleaseTasks
from holdfast.core.events import EventName, JobHeld, JobReleased
from holdfast.core.signals import BreakerChanged, BreakerSeen, Outcome, PauseRequested, TaskReported
from holdfast.core.states import PAUSE, TERMINAL, Hold, JobState
from holdfast.core.turn import Turn
from holdfast.define.gates import breaker_name
from holdfast.errors import Code

SOON_SECONDS = 1.0
NO_NAMES: frozenset[str] = frozenset()


def named_by(report: TaskReported, behind: str | None) -> frozenset[str]:
    """The breakers that a report concerns, most often none; `behind` is that of its node."""
    if behind is None and report.down is None and report.calls is None:
        return NO_NAMES
    return frozenset(name for name in (*(report.calls or ()), behind, report.down) if name is not None)


def consult(
    report: TaskReported, behind: str | None, breakers: Mapping[str, Breaker], now: float
) -> tuple[TaskReported, list[BreakerChanged]]:
    """Feed the breakers, each call once; the report then says by whom its task is held, if it is.

    A report that is not taken, of a lost lease or a task that was given back tells nothing.
    """
    task = report.task
    if task is None or task.epoch != report.epoch or task.status in TERMINAL:
        return report, []
    if report.outcome not in (Outcome.DONE, Outcome.FAILED):
        return report, []
    started_at = report.started_at if report.started_at is not None else now
    changes = []
    for name in sorted(named_by(report, behind) & breakers.keys()):
        breaker = breakers[name]
        calls = [Call(failed, started_at) for failed in (report.calls or {}).get(name, ())]
        if name == behind:
            calls.append(Call(counts(report, breaker), started_at))
        if feed(breaker, calls, now) and breaker.state is not BreakerState.HALF_OPEN:
            changes.append(BreakerChanged(name, breaker.state, breaker.reason or "", breaker.until))
    return _held(report, behind, breakers, now), changes


def counts(report: TaskReported, breaker: Breaker) -> bool:
    """Whether the attempt failed by the fault of the dependency."""
    if report.outcome is not Outcome.FAILED or report.error is None:
        return False
    if report.error.code == Code.DEPENDENCY_DOWN:
        return True
    return breaker.rules.counts(report.error.code, is_permanent=report.error.is_permanent)


def _is_of_an_outage(report: TaskReported, breaker: Breaker) -> bool:
    """Whether it is over or not: an attempt that began before it was over met it, too."""
    began = report.started_at
    return breaker.state is not BreakerState.CLOSED or (began is not None and began < breaker.changed_at)


def _held(report: TaskReported, behind: str | None, breakers: Mapping[str, Breaker], now: float) -> TaskReported:
    own = breakers.get(behind or "")
    if own is not None and counts(report, own) and _is_of_an_outage(report, own):
        # Its lane is shut, or it may run at once: it need not look at the clock.
        return report._replace(held_by=own.name)
    down = breakers.get(report.down or "")
    if down is not None and report.outcome is Outcome.FAILED:
        until = down.until if down.state is BreakerState.OPEN else now + SOON_SECONDS
        return report._replace(held_by=down.name, held_until=until or now + down.rules.cooldown_seconds)
    return report


BREAKER = "breaker"


def notice(state: JobState, shut: Mapping[str, float | None]) -> list[BreakerSeen]:
    """What the breakers that are not closed just now, by key, each until some time, mean for a job, if that is news."""
    held = {hold.name for hold in state.holds if hold.by == BREAKER}
    if state.is_terminal or state.is_undoing or state.stop is not None or not (shut or held):
        return []
    own = {name: until for key, until in shut.items() if (name := breaker_name(state.tenant, key)) is not None}
    news = [BreakerSeen(name, is_shut=False) for name in sorted(held - own.keys())]
    for name, until in own.items():
        if name not in held and _waits_behind(state, name):
            news.append(BreakerSeen(name, is_shut=True, until=until))
    return news


def breaker_of(state: JobState, node: str, item: int) -> str | None:
    """The breaker that a task is behind; what undoes it is behind none."""
    known = state.nodes.get(node)
    return None if known is not None and known.is_undoing else state.program.breaker_of(node, item)


def _waits_behind(state: JobState, breaker: str) -> bool:
    program = state.program
    return any(
        node.open_tasks > 0 and breaker in (program.breaker_of(node.name, OWN_TASK), program.breaker_of(node.name, 0))
        for node in state.nodes.values()
    )


def breaker_seen(turn: Turn, signal: BreakerSeen) -> None:
    """Tell once that a breaker holds the job, and once that it no longer does."""
    state = turn.state
    hold = next((hold for hold in state.holds if hold[:2] == (BREAKER, signal.name)), None)
    if state.is_terminal or signal.is_shut == (hold is not None):
        return
    if signal.is_shut and not _waits_behind(state, signal.name):
        return
    if hold is None:
        state.holds.append(Hold(BREAKER, signal.name, turn.now, signal.until))
        turn.emit(EventName.JOB_HELD, data={"by": BREAKER, "name": signal.name, "until": signal.until})
    else:
        state.holds.remove(hold)
        turn.emit(EventName.JOB_RELEASED, data={"by": BREAKER, "name": signal.name, "since": hold.since})
    state.job_touched = True


def pause(turn: Turn, signal: PauseRequested) -> None:
    """Hold everything back that is queued, or let it go on."""
    state, hold = turn.state, turn.state.pause
    by, reason = signal.actor, signal.reason
    if hold is None:
        state.holds.append(Hold(PAUSE, signal.actor, turn.now))
        held: JobHeld = {"by": PAUSE, "name": by, "reason": reason, "until": None}
        if signal.request_id is not None:
            held["request_id"] = signal.request_id
        turn.emit(EventName.JOB_HELD, data=held)
    else:
        state.holds.remove(hold)
        seconds = max(0.0, turn.now - hold.since)
        if state.deadline_at is not None:
            state.deadline_at += seconds
        turn.effects.append(ReleaseTasks(state.job_id, seconds))
        released: JobReleased = {"by": PAUSE, "name": by, "reason": reason, "since": hold.since}
        if signal.request_id is not None:
            released["request_id"] = signal.request_id
        turn.emit(EventName.JOB_RELEASED, data=released)
    state.job_touched = True
