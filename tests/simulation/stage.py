"""One owner and one worker on a model of the store, step by step and without chance."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import orjson

from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.owner import CycleResult, Owner
from holdfast.store.records import Report, WorkerIdentity
from tests.simulation.database import Database
from tests.simulation.store import ModelStore

Answer = TypeVar("Answer")


def finish(running: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine of the model to its end, without steps of other processes."""
    while True:
        try:
            running.send(None)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


class Stage:
    def __init__(self, flow: Workflow, inputs: dict[str, Any] | None = None, rules: Rules | None = None) -> None:
        self.db = Database()
        self.store = ModelStore(self.db)
        self.rules = rules or Rules()
        self.job_id = new_job(flow.definition(), inputs or {}, key="job").job_id
        self.owner = self.new_owner()
        self.worker: WorkerIdentity = finish(self.store.register_worker("w", None, ("h",), 9, 1e9))
        job = new_job(flow.definition(), inputs or {}, key="job")._replace(job_id=self.job_id)
        finish(self.store.submit([job]))

    @property
    def job(self) -> dict[str, Any]:
        return self.db.jobs[self.job_id]

    def statuses(self) -> dict[str, str]:
        return {name: str(node.status) for name, node in self.db.nodes[self.job_id].items()}

    def new_owner(self) -> Owner:
        number = finish(self.store.register_orchestrator("o", 10.0))
        return Owner(self.store, number, f"o{number}", self.rules, lambda: 0.5)

    def take_over(self) -> Owner:
        """Let the owner's lease expire, and let another orchestrator take over its jobs."""
        self.db.now += 11.0
        successor = self.new_owner()
        successor.adopt(finish(self.store.take_over(successor.orchestrator_id, 100)))
        finish(self.store.sweep_inbox())
        self.owner = successor
        return successor

    def cycle(self) -> CycleResult:
        return finish(self.owner.run_cycle())

    def cycles(self) -> None:
        """Run cycles until there is nothing more to do."""
        while self.cycle().more:
            pass

    def work(self, *nodes: str, outcome: str = "done", data: dict[str, Any] | None = None) -> None:
        """Claim all ready tasks and report those of these nodes; the others go back to the queue."""
        leases = finish(self.store.claim(self.worker, None, ("h",), 999))
        chosen = [lease for lease in leases if lease.node in nodes]
        for lease in leases:
            if lease not in chosen:
                row = self.db.queue[(lease.job_id, lease.node, lease.item)]
                row["state"], row["holder"] = "ready", None
        output = [orjson.dumps(lease.params) if outcome == "done" else None for lease in chosen]
        error = orjson.dumps(data) if data is not None else None
        reports = [
            Report(*lease[:5], outcome, self.db.now, one, error) for lease, one in zip(chosen, output, strict=True)
        ]
        assert finish(self.store.report(self.worker, reports)) == len(chosen)
