"""What can be advised for a job that has ended: verbs that would be taken, and no others."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from holdfast.core.outcome import counts
from holdfast.core.plans import RESUMABLE, Plan
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JobState, JobStatus, Status


class Advice(NamedTuple):
    """A verb that would be taken, and what it would do."""

    request: Request
    plan: Plan

    def words(self, job: str) -> str:
        """As people type it. What asks for a confirmation brings `--yes`: there may be no terminal to ask on."""
        asks = any(step.confirm for step in self.plan.steps)
        return f"{words(self.request, job)}{' --yes' if asks else ''}"

    @property
    def note(self) -> str:
        """What it is good for."""
        request = self.request
        if self.plan.evaluates_result:
            return "evaluate its result once more; nothing runs"
        if request.verb is Verb.RESUME:
            is_redone = any(step.redone for step in self.plan.steps)
            return f"run what is missing{', and what follows it' if is_redone else '; what completed stays'}"
        if request.verb is Verb.SKIP:
            return f"go on without {request.node}"
        return f"run {request.node} again" + (", and leave what follows as it is" if request.only else "")


def words(request: Request, job: str) -> str:
    """A verb with its arguments as people type it."""
    parts = [str(request.verb), job]
    if request.node is not None:
        parts += ["--from", request.node] if request.verb is Verb.RERUN else [request.node]
    parts += [f"--item {item}" for item in request.items]
    parts += ["--code", shlex.quote(request.code)] if request.code else []
    parts += ["--fingerprint", shlex.quote(request.fingerprint)] if request.fingerprint else []
    return " ".join([*parts, *(["--only"] if request.only else [])])


def candidates(state: JobState) -> list[tuple[Request, ...]]:
    """What may be advised, the best first; of each group the first that would be taken."""
    if state.status is JobStatus.COMPLETED and state.error is not None:
        # It completed, and its rows deny it: what runs the node again that is in doubt.
        return [(Request(Verb.RERUN, state.error["node"]),)]
    if state.status not in RESUMABLE:
        return []
    names = [node.name for node in state.program.definition.nodes]
    failed = [name for name in names if state.nodes[name].status is Status.FAILED and counts(state, name)]
    of_each = [(Request(Verb.RETRY, n), Request(Verb.RETRY, n, only=True), Request(Verb.SKIP, n)) for n in failed]
    return [(Request(Verb.RESUME),), *of_each]
