"""One turn of the core: a job, the time, the effects so far, and the nodes that ended and whose dependents wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.core.effects import Effect, WithdrawTasks
from holdfast.core.events import END_OF_NODE, Emitter, EventName, NodeEnded
from holdfast.core.failing import Failure
from holdfast.core.states import JobState, JobStatus, NodeState, Status, Trigger, node_scope
from holdfast.define.expression import Path
from holdfast.define.plain import OutsizedError, Sizes, is_short, too_large
from holdfast.define.template import Template
from holdfast.errors import PayloadRefused

CLOCK_SLACK_SECONDS = 2.0
"""A step back of the database's clock that is smaller than this changes nothing."""


@dataclass(slots=True)
class Turn(Emitter):
    state: JobState
    now: float
    effects: list[Effect] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)

    def moment(self) -> float:
        """The time that is written down as the beginning or the end of something."""
        state = self.state
        if self.now > state.latest_at:
            state.latest_at = self.now
        return state.latest_at

    @property
    def clock_stepped_back(self) -> bool:
        """Whether something of this job has happened at a time that has not come yet."""
        return self.state.latest_at > self.now + CLOCK_SLACK_SECONDS

    def finish_node(
        self,
        node: NodeState,
        trigger: Trigger,
        *,
        output: Any = None,
        error: Failure | None = None,
        reason: str | None = None,
        attempt: int | None = None,
        data: NodeEnded | None = None,
    ) -> None:
        """End a node, emit its one terminal event, and remember to look at its dependents."""
        node.move(trigger)
        node.output, node.error, node.reason = output, error, reason
        node.retry_at = None
        node.finished_at = self.moment()
        if node.started_at is None:
            node.started_at = node.finished_at
        self.state.touch(node)
        self.state.scope["nodes"][node.name] = node_scope(node)
        if error is not None:
            data = {
                **(data or {}),
                "code": error.code,
                "message": error.message,
                "class": error.failure_class.value,
            }
        elif reason is not None:
            data = {**(data or {}), "reason": reason}
        self.emit(END_OF_NODE[node.status], node.name, attempt=attempt, data=data)
        self.finished.append(node.name)

    def withdraw(self, tasks: WithdrawTasks) -> None:
        """Ask for tasks to be taken out of the queue. The answer comes before the cycle ends."""
        self.effects.append(tasks)
        self.state.awaits_withdrawal = True

    def scope_of(self, name: str) -> dict[str, Any]:
        """What a node's templates see; `upstream` is the dependency that ran."""
        state = self.state
        for source in state.program.graph.sources[name]:
            if state.nodes[source].status is Status.COMPLETED:
                return {**state.scope, "upstream": state.scope["nodes"][source]}
        return state.scope

    def former_scopes(self, scope: Mapping[str, Any], paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
        """The same scope as it was in earlier generations, for templates that read the generation: it is a label, and
        work is the same whatever its number."""
        if any(path[0] == "job" and path[1:2] in ((), ("generation",)) for path in paths):
            for generation in range(scope["job"]["generation"] - 1, 0, -1):
                yield {**scope, "job": {**scope["job"], "generation": generation}}

    def params(self, template: Template, scope: dict[str, Any], sizes: Sizes | None = None) -> bytes:
        """What a handler will get, as JSON; what is too large is refused before anything is queued.

        Pass the same `sizes` for values that are rendered together.
        """
        rendered = self.written("the params are", template.render(scope), "given to a handler", sizes)
        self.state.made_bytes += len(rendered)
        return rendered

    def written(self, what: str, value: Any, use: str, sizes: Sizes | None = None) -> bytes:
        """A value as JSON. One that is too large is refused while it is still made of references."""
        limit = self.state.rules.payload_limit_bytes
        try:
            if not is_short(value):
                (sizes or Sizes()).bound(value, limit)
            written = orjson.dumps(value)
            if len(written) > limit:
                raise too_large(limit)
        except OutsizedError as problem:
            raise PayloadRefused(f"{what} {problem}; no more can be {use}") from None
        except TypeError as problem:
            raise PayloadRefused(f"{what} not JSON: {problem}") from None
        return written

    def start_job(self) -> None:
        """The first dispatch makes a job run."""
        if self.state.status is JobStatus.PENDING:
            self.state.move(JobStatus.RUNNING)
            self.state.started_at = self.moment()
            self.emit(EventName.JOB_STARTED)
