"""One cycle's decisions: signals go into the core, and what the core asks for in between is done at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from holdfast import failpoint
from holdfast.core.advance import advance
from holdfast.core.breaking import Breaker
from holdfast.core.effects import AnswerSignal, WithdrawTasks
from holdfast.core.failing import failure
from holdfast.core.gathering import Gathering
from holdfast.core.holding import breaker_of, consult, named_by
from holdfast.core.item_keys import match_items
from holdfast.core.matching import chunk_size, item_keys, tasks_at
from holdfast.core.planning import batches_asked, batches_planned
from holdfast.core.plans import MOVED, Correction
from holdfast.core.signals import (
    ItemsAggregated,
    MatchedTask,
    RecoveryRequested,
    Signal,
    TaskReported,
    TasksWithdrawn,
    WorkContinued,
)
from holdfast.core.states import JobState, Rules, Status
from holdfast.define.gates import breaker_key
from holdfast.define.program import Program
from holdfast.errors import Code, PayloadRefused
from holdfast.orchestrator.loading import correction, inconsistency, recovery, signal
from holdfast.store.batch import Batch
from holdfast.store.interface import Cycle
from holdfast.store.records import GATHERED, LEFT_OUT, Examined, SignalRow

RECHECK = "recheck"
RECOVER = "recover"


class Decider:
    """Decides inside an open cycle. It keeps nothing from one cycle to the next."""

    def __init__(
        self,
        cycle: Cycle,
        rules: Rules,
        chance: Callable[[], float],
        program: Callable[[str, str], Awaitable[Program]],
    ) -> None:
        self._cycle = cycle
        self._rules = rules
        self._chance = chance
        self._program = program

    async def signals(
        self, given: Iterable[SignalRow | Signal], state: JobState, now: float, examined: Examined | None
    ) -> list[Signal]:
        """What a job gets in this cycle, but for verbs: these come last."""
        at_once = [one for one in given if not (isinstance(one, SignalRow) and one.kind == RECOVER)]
        return [await self._signal(one, state, now, examined) for one in at_once]

    async def _signal(
        self, given: SignalRow | Signal, state: JobState, now: float, examined: Examined | None
    ) -> Signal:
        if not isinstance(given, SignalRow):
            return given
        if given.lacks_its_output:
            given = await self._cycle.with_full_output(given)
        if given.kind == RECHECK:
            assert examined is not None
            return inconsistency(given, examined)
        return signal(given, now, self._chance(), state)

    async def breakers(
        self, states: dict[str, JobState], signals_of: Mapping[str, Iterable[Signal]]
    ) -> dict[str, Breaker]:
        """The breakers that the reports of this cycle concern, by key, locked; usually none."""
        keys: set[str] = set()
        for job_id, signals in signals_of.items():
            state, tenant = states[job_id], states[job_id].tenant
            for one in signals:
                if isinstance(one, TaskReported) and (named := named_by(one, breaker_of(state, one.node, one.item))):
                    keys |= {breaker_key(tenant, name) for name in named}
        return {found.key: found for found in await self._cycle.breakers(sorted(keys))} if keys else {}

    async def advance(
        self,
        batch: Batch,
        state: JobState,
        signals: Iterable[Signal],
        owed: Iterable[str],
        breakers: dict[str, Breaker],
        now: float,
    ) -> list[WithdrawTasks]:
        """Run the core with a job's signals, then with the results that were owed before this cycle."""
        withdrawals: list[WithdrawTasks] = []
        own = {breaker.name: breaker for breaker in breakers.values() if breaker.tenant == state.tenant}
        for received in signals:
            changes: Sequence[Signal] = ()
            if own and isinstance(received, TaskReported):
                breaker = breaker_of(state, received.node, received.item)
                received, changes = consult(received, breaker, own, now)
            elif isinstance(received, WorkContinued):
                received = received._replace(tasks=await self._matched(state, received.limit))
            for one in (received, *changes):
                withdrawals += batch.add(advance(state, one, now))
        for node in owed:
            answer = await self._gather(state, node, now)
            withdrawals += batch.add(advance(state, answer, now))
        if state.stop is None:
            await failpoint.hit("decide.job", state.program.definition.workflow_id)
        return withdrawals

    async def _matched(self, state: JobState, limit: int | None) -> dict[str, dict[int, MatchedTask]]:
        """Of each fan-out that is matched with its items, the tasks that the next chunk concerns."""
        matched = {}
        for node in state.nodes.values():
            if node.status is Status.RUNNING and node.matching is not None and node.is_matching:
                if node.name not in state.matches:
                    tasks = await self._cycle.item_keys(state.job_id, node.name)
                    state.matches[node.name] = match_items(item_keys(state, node), tasks)
                wanted = tasks_at(state.matches[node.name], node.matching.place, chunk_size(state, limit))
                matched[node.name] = await self._cycle.matched_tasks(state.job_id, node.name, wanted)
        return matched

    async def _gather(self, state: JobState, node: str, now: float) -> ItemsAggregated:
        """Read what the items gave; all their reports are committed by now."""
        fan_out, mode = state.program.graph.fan_out_of[node], state.program.nodes[node].node.aggregation
        left_out: dict[str, list[int]] = {how: [] for how in LEFT_OUT}
        # Where there were batches, what they gave is gathered; items that were left out are still listed.
        is_batched = state.nodes[node].batch_size is not None
        readings = [(node, GATHERED), (fan_out, LEFT_OUT)] if is_batched else [(fan_out, GATHERED)]
        gathering = Gathering(mode, self._rules.payload_limit_bytes, readings[0][0])
        try:
            for source, statuses in readings:
                after, more = -1, True
                while more:
                    page, more = await self._cycle.results(state.job_id, source, after, statuses)
                    for result in page:
                        after = result.item
                        if result.status == Status.COMPLETED:
                            gathering.add(result.output, result.size_bytes, result.item)
                        else:
                            left_out[result.status].append(result.item)
            return ItemsAggregated(node, gathering.answer(left_out))
        except (ValueError, PayloadRefused) as problem:
            code = problem.code if isinstance(problem, PayloadRefused) else Code.CONTRACT_VIOLATION
            error = failure(code, str(problem), permanent=True, at=now, node=node)
            return ItemsAggregated(node, error=error)

    async def withdraw(
        self, batch: Batch, states: dict[str, JobState], withdrawals: list[WithdrawTasks], now: float
    ) -> None:
        """End what waits in the queue, after everything decided so far is written, until no job asks for more."""
        while withdrawals:
            withdrawals = _merged(withdrawals)
            await self._cycle.write(batch)
            batch.clear()
            ended = await self._cycle.withdraw(withdrawals)
            leases_too = {w.job_id for w in withdrawals if w.leases_too}
            withdrawals = []
            for job_id, items in ended.items():
                state = states[job_id]
                answer = TasksWithdrawn(items, leases_too=job_id in leases_too)
                withdrawals += batch.add(advance(state, answer, now))

    async def recover(self, batch: Batch, states: dict[str, JobState], row: SignalRow, now: float) -> None:
        """Carry out a verb last, when the rows say what the cycle has decided so far: a plan counts them."""
        state, request = states[row.job_id], recovery(row)
        await self._cycle.write(batch)
        batch.clear()
        node = state.nodes.get(request.node or "")
        enqueued = node.enqueued if node is not None else 0
        plan_id = (row.data or {}).get("correction")
        corrected = await self._correction(state, plan_id) if plan_id is not None else None
        if plan_id is not None and corrected is None:
            batch.answers.append(AnswerSignal(row.id, row.job_id, False, MOVED.reason, MOVED.remedy))
            return
        asked_batches = batches_asked(state, request, is_corrected=corrected is not None)
        if corrected is not None and corrected.seq == state.seq:
            asked_batches += batches_planned(state, corrected.plan)
        selected = await self._cycle.select(row.job_id, request, enqueued, asked_batches)
        asked = RecoveryRequested(
            row.id, row.actor or "", row.reason or "", request, selected, corrected, row.request_id
        )
        await self.withdraw(batch, states, batch.add(advance(state, asked, now)), now)

    async def _correction(self, state: JobState, plan_id: str) -> Correction | None:
        """The stored plan of a correction, with the definition that the job is to have; None: it is gone."""
        row = await self._cycle.plan_of_correction(state.job_id, plan_id)
        return correction(row, await self._program(state.tenant, row.definition_hash)) if row is not None else None


def _merged(withdrawals: Sequence[WithdrawTasks]) -> list[WithdrawTasks]:
    """One withdrawal for each job that stops: where a failure and a timeout stop it in the same cycle, the last one
    says how its tasks end, as it does for the counters of its nodes."""
    merged: dict[tuple[str, str | None], WithdrawTasks] = {}
    for one in withdrawals:
        same = [key for key in merged if key[0] == one.job_id and (one.node is None or key[1] is None)]
        before = [merged.pop(key) for key in same]
        last = before[-1] if before and one.node is not None else one
        unqueued = tuple(dict.fromkeys(found for each in (*before, one) for found in each.unqueued))
        waiting = tuple(dict.fromkeys(name for each in (*before, one) for name in each.waiting))
        leases_too = any(each.leases_too for each in (*before, one))
        key = (one.job_id, last.node)
        merged[key] = last._replace(unqueued=unqueued, waiting=waiting, leases_too=leases_too)
    return list(merged.values())
