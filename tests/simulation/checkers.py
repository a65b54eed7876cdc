"""Checks what must hold after every step: in the state of the database, and in the history, which no state shows.

The numbers are those of the invariants in docs/explanation/invariants.md.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.core.advance import advance
from holdfast.core.effects import AnswerSignal, Lane
from holdfast.core.fanning import items_of
from holdfast.core.item_keys import keys_of
from holdfast.core.kinds import has_task_per_item
from holdfast.core.outcome import counts, is_bad
from holdfast.core.states import JobState, NodeState, Rules
from holdfast.core.turn import Turn
from holdfast.define.node import Importance, NodeType, Safe
from holdfast.define.program import Program, compile_pinned
from holdfast.store.loading import job_state
from holdfast.store.records import NewJob, NodeRow
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import TERMINAL, Database, Key, code_of
from tests.simulation.gates import queue_is_paused
from tests.simulation.selection import advise

BAD = ("failed", "cancelled")
JOB_TERMINAL = ("completed", "partial", "failed", "cancelled")
JOB_ENDS = frozenset(f"job_{status}" for status in JOB_TERMINAL)
NODE_ENDS = frozenset(f"node_{status}" for status in TERMINAL)


class _EndEvents:
    """The events about ends of a job and its nodes, since the job was last recovered."""

    def __init__(self) -> None:
        self.read_count = 0
        self.ends: dict[str, list[str]] = {}
        self.job_ends = 0

    def read(self, events: list[Any]) -> None:
        for _, event, node, *_, data in events[self.read_count :]:
            if event in NODE_ENDS:
                self.ends.setdefault(node, []).append(event)
            elif event in JOB_ENDS:
                self.job_ends += 1
            elif event == "job_recovered":
                self.job_ends = 0
                for name in (*data["rerun"], *data.get("gone", ())):
                    self.ends.pop(name, None)
        self.read_count = len(events)


class Checkers:
    """Checks each step, and remembers earlier states to notice forbidden changes."""

    def __init__(self, database: Database, crash_limit: int = 2, requeue_limit: int = 5) -> None:
        self.db = database
        self._crash_limit = crash_limit
        self._requeue_limit = requeue_limit
        self._requeues: Counter[Key] = Counter()
        self._epochs: dict[Key, int] = {}
        self._final: dict[Key, tuple[str, Any]] = {}
        self._never_again: set[Key] = set()
        self._named_last: set[tuple[str, str]] = set()
        self._completed_at: dict[Key, float] = {}
        self._final_nodes: dict[tuple[str, str], tuple[str, Any]] = {}
        self._final_jobs: dict[str, str] = {}
        self._owner_epochs: dict[str, int] = {}
        self._claims_seen = 0
        self._resets_seen = 0
        self._events_seen: Counter[str] = Counter()
        self._accepted_seen = 0
        self._rejections_seen = 0
        self._holders: dict[tuple[Key, int], int] = {}
        self._accepted: set[tuple[Key, int]] = set()
        self._executions: Counter[Key] = Counter()
        self._attempts: dict[Key, tuple[int, int]] = {}
        self._end_events: dict[str, _EndEvents] = {}
        self._has_gone_back = False
        self.stale: set[tuple[str, str]] = set()
        """Nodes that a verb keeps although it runs what is above them again; the simulation sends no such verb."""

    def memory(self) -> dict[str, Any]:
        """A copy of what the checkers remember, for the case that the database goes back to this moment."""
        return {name: copy.deepcopy(value) for name, value in vars(self).items() if name != "db"}

    def go_back_to(self, memory: dict[str, Any]) -> None:
        vars(self).update(copy.deepcopy(memory))
        self._has_gone_back = True

    def executed(self, key: Key, epoch: int) -> None:
        self._executions[key] += 1

    def begun(self, worker_id: int, key: Key, epoch: int) -> None:
        """3: a handler begins only while its worker's lease lives. A mirror of a real database has no workers."""
        worker = self.db.workers.get(worker_id)
        if self._has_gone_back:
            # The database went back: it may have lost a renewal that the worker relies on.
            return
        assert worker is None or (not worker["ended"] and worker["until"] > self.db.now), (
            f"3: epoch {epoch} of {key} began after the lease of worker {worker_id} had ended"
        )

    def check_step(self) -> None:
        history = self.db.history
        if self.db.dirty:
            self._note_resets()
        if len(history.claims) > self._claims_seen or len(history.accepted) > self._accepted_seen:
            self._check_history()
        for key, epoch in history.rejections[self._rejections_seen :]:
            assert self._has_gone_back or (key, epoch) not in self._accepted, (
                f"1: the report of {key} epoch {epoch} was accepted, and then rejected"
            )
        self._rejections_seen = len(history.rejections)
        assert not history.passed_over, f"10: a job began without reading signals {history.passed_over} of people"
        for job_id in self.db.dirty:
            if job_id in self.db.jobs:
                self._check_job(job_id)
        self.db.dirty.clear()

    def _note_resets(self) -> None:
        """The statuses of tasks that a verb has reset are no longer final; all others still are."""
        named: set[tuple[str, str]] = set()
        for job_id in self.db.dirty:
            events = self.db.events[job_id]
            for _, event, *_, data in events[self._events_seen[job_id] :]:
                if event == "job_recovered":
                    self._named_last = {one for one in self._named_last if one[0] != job_id}
                    self._final_jobs.pop(job_id, None)
                    for name in (*data["rerun"], *data.get("gone", ())):
                        named.add((job_id, name))
                        self._named_last.add((job_id, name))
                        self._final_nodes.pop((job_id, name), None)
                        self.stale.discard((job_id, name))
                        for key in [key for key in self._requeues if key[:2] == (job_id, name)]:
                            del self._requeues[key]
                elif event == "janitor_acted":
                    self._count_requeues(job_id, data)
            self._events_seen[job_id] = len(events)
        for key in self.db.history.resets[self._resets_seen :]:
            node = self.db.nodes[key[0]][key[1]]
            # A fan-out that waited to match its items may turn out to be on a branch that is not taken any more.
            is_matched = node.matching is not None or (node.status == "skipped" and key[:2] in self._named_last)
            assert key[:2] in named or is_matched, f"12: {key} was reset, and no plan had named its node"
            status, _ = self._final.pop(key, ("ready", None))
            if status == "completed":
                self._check_guard(key)
        self._resets_seen = len(self.db.history.resets)

    def _count_requeues(self, job_id: str, acted: dict[str, Any]) -> None:
        """9: a task that vanishes from the queue is queued again only as often as the limit allows."""
        for node, ranges in acted.get("requeued", {}).items():
            # A node's own task has no range.
            for item in [item for first, last in ranges for item in range(first, last + 1)] or [-1]:
                key = (job_id, node, item)
                self._requeues[key] += 1
                assert self._requeues[key] <= self._requeue_limit, (
                    f"9: the janitor made {key} come back {self._requeues[key]} times"
                )

    def _check_guard(self, key: Key) -> None:
        """12: a completed task was reset only if its node's guard allows it. If a person set the node's result instead,
        no task runs; a task that may never run again does not run later either."""
        job = self.db.jobs[key[0]]
        program = compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])
        if key[1] not in program.nodes:
            return  # A correction has taken the node away: nothing of it runs again.
        guard = program.nodes[key[1]].node.rerun
        if self.db.nodes[key[0]][key[1]].reason == "set_by_person":
            if guard.safe is Safe.NEVER:
                self._never_again.add(key)
            return
        assert guard.safe is not Safe.NEVER, f"12: {key} ran again, and that is never safe"
        if guard.within_hours is not None:
            is_matched = self.db.nodes[key[0]][key[1]].matching is not None
            asked_at = job["recovered_at"] if is_matched else self.db.history.decided_at
            ago = asked_at - self._completed_at[key]
            assert ago <= guard.within_hours * 3600, f"12: {key} ran again after {ago:.1f} s"

    # History

    def _check_history(self) -> None:
        history = self.db.history
        for now, key, epoch, holder, due_at in history.claims[self._claims_seen :]:
            assert (key, epoch) not in self._holders, f"2: epoch {epoch} of {key} was leased twice"
            if due_at is not None and not history.stepped_back:
                assert due_at <= now, f"10: {key} was leased {due_at - now:.3f} s before its time"
            row = self.db.queue.get(key)
            if row is not None:
                if "lane" in row:  # A mirror of a real database has only lane ids.
                    self._check_gates(key, row["lane"])
                    is_paused = queue_is_paused(self.db, row["lane"].queue)
                    assert not is_paused, f"10: {key} was leased while its queue was paused"
                self._check_attempt(key, epoch, row["attempt"])
            assert key not in self._never_again, f"12: {key} ran again, and that is never safe"
            assert key not in self._final, f"4: {key} was leased although it is {self._final[key][0]}"
            job = self.db.jobs[key[0]]
            assert job["stop_cause"] is None, f"11: {key} was leased after its job had stopped"
            assert not any(h["by"] == "pause" for h in job["holds"]), f"10: {key} was leased while its job was paused"
            self._check_crashes_before(key, epoch)
            self._holders[(key, epoch)] = holder
        self._claims_seen = len(history.claims)
        for _, key, epoch, holder in history.accepted[self._accepted_seen :]:
            assert self._holders.get((key, epoch)) == holder, f"1: {key} epoch {epoch} was reported by a stranger"
            assert (key, epoch) not in self._accepted, f"1: two reports of {key} epoch {epoch} were accepted"
            self._accepted.add((key, epoch))
        self._accepted_seen = len(history.accepted)

    def _check_attempt(self, key: Key, epoch: int, attempt: int) -> None:
        """2: attempt numbers only grow. A number is free again if a verb came before its report was read."""
        before, number = self._attempts.get(key, (0, 0))
        was_cut_short = self.db.history.ended.get((key, before)) in ("reset", "skipped", "withdrawn")
        assert not was_cut_short or attempt > number, f"2: {key} was leased again as attempt {attempt}"
        self._attempts[key] = (epoch, attempt)

    def _check_crashes_before(self, key: Key, epoch: int) -> None:
        """9: a task that is leased again has all its deaths counted, and fewer of them than the limit."""
        counted = self.db.tasks[key[0]][key[1:]]["crashes"]
        since = self.db.history.reset.get(key, 0)
        deaths = sum(since < death < epoch for death in self.db.history.deaths.get(key, ()))
        assert counted == deaths, f"9: {key} died {deaths} times in its own process, but {counted} were counted"
        assert deaths < self._crash_limit, f"9: {key} was leased after it had died {deaths} times in its own process"

    # State

    def _check_gates(self, key: Key, lane: Lane) -> None:
        """10: breaker and limits had room for the task that was just leased."""
        if not lane.is_gated:
            return
        leased = [row["lane"] for row in self.db.queue.values() if row["state"] == "leased"]
        breaker = self.db.breakers.get(lane.breaker)
        if breaker is not None and breaker.permits is not None:
            running = sum(one.breaker == lane.breaker for one in leased)
            assert running <= breaker.permits, f"10: {key} was leased as number {running} behind {breaker.state}"
        for limit in lane.limits:
            running = sum(one.tenant == lane.tenant and limit in one.limits for one in leased)
            assert limit.concurrency is None or running <= limit.concurrency, f"10: {key} was leased beyond {limit}"

    def _check_job(self, job_id: str) -> None:
        job = self.db.jobs[job_id]
        program = compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])
        nodes = self.db.nodes[job_id]
        self._check_owner(job_id, job)
        self._check_counters(job_id, nodes)
        self._check_tasks(job_id)
        self._check_nodes(job_id, job, nodes, program)
        self._check_status(job_id, job, nodes, program)
        self._check_events(job_id, job, nodes)
        self._check_progress(job_id, job, nodes, program)

    def _check_owner(self, job_id: str, job: dict[str, Any]) -> None:
        assert job["epoch"] >= self._owner_epochs.get(job_id, 0), f"2: the epoch of {job_id} went back"
        self._owner_epochs[job_id] = job["epoch"]

    def _check_counters(self, job_id: str, nodes: dict[str, NodeRow]) -> None:
        counted: dict[str, list[str]] = {}
        for (name, _), task in self.db.tasks[job_id].items():
            counted.setdefault(name, []).append(task["status"])
        for name, node in nodes.items():
            tasks = counted.get(name, [])
            counters = (node.completed, node.failed, node.skipped, node.cancelled, node.expanded)
            expected = (
                *(tasks.count(status) for status in ("completed", "failed", "skipped", "cancelled")),
                len(tasks),
            )
            assert counters == expected, f"8: {job_id}/{name} counts {counters}, its tasks say {expected}"
            most = node.width + (node.batch_size is not None)
            assert node.expanded <= most, f"8: {job_id}/{name} has more rows than its width"
        assert set(counted) <= set(nodes), f"8: {job_id} has tasks of nodes that have not begun"

    def _check_tasks(self, job_id: str) -> None:
        for short, task in self.db.tasks[job_id].items():
            key = (job_id, *short)
            assert task["epoch"] >= self._epochs.get(key, 0), f"2: the epoch of {key} went back"
            self._epochs[key] = task["epoch"]
            now = (task["status"], task["output"])
            if key in self._final and "skipped" in (task["status"], self._final[key][0]) and self._is_matched(key):
                # Its item has gone, or has come back.
                self._final[key] = now
            elif key in self._final:
                assert self._final[key] == now, f"4: {key} was {self._final[key]} and is now {now}"
            elif task["status"] in TERMINAL:
                self._final[key] = now
                assert key not in self.db.queue, f"11: {key} is {task['status']} and still queued"
                if task["status"] == "completed":
                    self._completed_at[key] = task["finished_at"]
                    assert (key, task["epoch"]) in self._accepted, f"1: {key} completed by an epoch that did not report"
                self._check_crashes(key, task)
            queued = self.db.queue.get(key)
            if queued is not None:
                assert not self.has_vanished(key, task), f"16: {key} was queued again as the epoch that had vanished"
                assert queued["epoch"] == task["epoch"], f"2: {key} is queued as another epoch than its task's"

    def _is_matched(self, key: Key) -> bool:
        return self.db.nodes[key[0]][key[1]].matching is not None

    def _check_crashes(self, key: Key, task: dict[str, Any]) -> None:
        """9: a task is quarantined if and only if it died too often in its own process. A stop may come before the last
        death is counted."""
        since = self.db.history.reset.get(key, 0)
        deaths, counted = sum(death > since for death in self.db.history.deaths.get(key, ())), task["crashes"]
        quarantined = code_of(task) == "QUARANTINED"
        assert quarantined == (counted >= self._crash_limit), f"9: {key} died {counted} times and is {task['error']}"
        assert counted <= deaths, f"9: {key} died {deaths} times in its own process, but {counted} were counted"
        if quarantined or task["status"] == "completed":
            assert counted == deaths, f"9: {key} died {deaths} times in its own process, but {counted} were counted"

    def _check_nodes(self, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program) -> None:
        for name, node in nodes.items():
            if name not in program.nodes:
                assert node.status == "pending" and not node.expanded, f"4: {job_id} has lost {name}, which has tasks"
                continue
            key = (job_id, name)
            now = (str(node.status), node.output)
            if key in self._final_nodes:
                assert self._final_nodes[key] == now, f"4: node {key} was {self._final_nodes[key]} and is now {now}"
            elif node.status in TERMINAL:
                self._final_nodes[key] = now
            if node.status == "pending" or node.reason in ("by_person", "set_by_person") or key in self.stale:
                continue
            # A recovery leaves nodes that would end in the same way again, although their sources run again.
            is_left = job["generation"] > 1 and node.status in ("cancelled", "skipped")
            if job["stop_cause"] is None and not is_left:
                for source in program.graph.sources[name]:
                    before = nodes.get(source)
                    assert before is not None and before.status in TERMINAL, (
                        f"6: {name} began before {source} had ended"
                    )
            if node.status in ("ready", "dispatched", "running", "completed"):
                self._check_rule(job_id, name, nodes, program)
            definition = program.nodes[name].node
            if node.status == "completed" and definition.type is NodeType.FAN_OUT:
                settled = node.completed + node.failed + node.skipped
                assert settled == node.width, f"8: {job_id}/{name} completed without all its items"
                items = node.width - (node.matching or {}).get("gone", 0)
                assert definition.tolerate.allows(node.failed, items), f"8: {job_id}/{name} tolerated too many"
            if node.batch_size is not None and node.expanded > node.width:
                batches = node.completed - (node.status == "completed")
                assert batches == node.width, f"8: {job_id}/{name} began its last task before all batches completed"
            fan_out = program.graph.fan_out_of.get(name)
            if fan_out is not None and node.status == "completed" and nodes[fan_out].status == "completed":
                source_node = nodes[fan_out]
                settled = source_node.completed + source_node.failed + source_node.skipped + source_node.cancelled
                assert source_node.width == settled, f"8: fan-in {name} fired with items missing"
                if node.reason is None and program.nodes[name].task is None:
                    self._check_left_out(job_id, name, fan_out, node.output)

    def _check_left_out(self, job_id: str, name: str, fan_out: str, output: Any) -> None:
        """8: the gathered output lists the items that it leaves out, by status."""
        for how in ("failed", "skipped"):
            tasks = self.db.tasks[job_id].items()
            expected = sorted(
                item
                for (node, item), task in tasks
                if node == fan_out and task["status"] == how and task["gone"] is None
            )
            assert output.get(how, []) == expected, (
                f"8: {job_id}/{name} lists {output.get(how)} as {how}, not {expected}"
            )

    def _check_rule(self, job_id: str, name: str, nodes: dict[str, NodeRow], program: Program) -> None:
        """6: a node runs only if none of its sources is bad and one of them is ok."""
        all_of, any_of = program.graph.all_of[name], program.graph.any_of[name]
        verdicts = [self._verdict(source, name, nodes, program) for source in all_of]
        assert "bad" not in verdicts, f"6: {job_id}/{name} runs although one of {all_of} is bad"
        assert not verdicts or "ok" in verdicts, f"6: {job_id}/{name} runs although all of {all_of} are absent"
        if any_of:
            verdicts = [self._verdict(source, name, nodes, program) for source in any_of]
            assert "ok" in verdicts, f"6: {job_id}/{name} runs although none of {any_of} is ok"

    def _verdict(self, source: str, target: str, nodes: dict[str, NodeRow], program: Program) -> str:
        node, definition = nodes[source], program.nodes[source].node
        if node.status == "completed":
            targets = {t for b in definition.branches for t in b.targets}
            return "absent" if target in targets and target not in node.taken else "ok"
        if node.status == "skipped":
            return "ok" if node.reason == "by_person" else "absent"
        return "ok" if node.status == "failed" and definition.importance is Importance.OPTIONAL else "bad"

    def _check_status(self, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program) -> None:
        if job_id in self._final_jobs:
            assert job["status"] == self._final_jobs[job_id], f"4: {job_id} was {self._final_jobs[job_id]}"
        if job["status"] not in JOB_TERMINAL:
            return
        if job_id not in self._final_jobs:
            self._check_advice(job_id, program)
        self._final_jobs[job_id] = job["status"]
        assert job["owner"] is None, f"2: {job_id} is finished and still owned"
        assert code_of(job) != "COUNTERS_DISAGREE", (
            f"16: {job_id} is correct, and was marked as doubtful: {job['error']}"
        )
        assert job["finished_at"] >= job["started_at"], f"5: {job_id} ended before it began"
        assert set(nodes) >= set(program.graph.order), f"13: {job_id} ended before all its nodes had ended"
        nodes = {name: node for name, node in nodes.items() if name in program.nodes}
        assert all(n.status in TERMINAL for n in nodes.values()), f"13: {job_id} ended before all its nodes had ended"
        self._check_corrected(job_id, program)
        expected = self._expected_status(nodes, program)
        if expected in ("completed", "partial") and self.result_fails(job, program):
            expected = "failed"
        assert job["status"] == expected, f"13: {job_id} is {job['status']}"
        assert not any(key[0] == job_id for key in self.db.queue), f"11: {job_id} ended and still has queued tasks"

    def _check_corrected(self, job_id: str, program: Program) -> None:
        """24: what a corrected job has completed is what the corrected job would have done, as if it had begun so.

        Where a person kept stale results, or gave results, only the items are compared.
        """
        if not self._is_corrected(job_id):
            return
        recoveries = [data for _, event, *_, data in self.db.events[job_id] if event == "job_recovered"]
        corrections = [data for data in recoveries if "corrected" in data]
        state = job_state(*ModelCycle(self.db, 0).committed_rows(job_id), program, Rules())
        is_strict = all(data.get("stale") != "keep" for data in corrections)
        is_strict = is_strict and all(data["verb"] not in ("set", "skip", "clear") for data in recoveries)
        for (name, item), task in self.db.tasks[job_id].items():
            if task["status"] == "completed":
                assert task["output"]["params"] == task["params"], f"24: {job_id}/{name}[{item}] was not run as it says"
        for name, node in state.nodes.items():
            is_skipped = node.reason == "by_person"
            if node.status == "completed" and has_task_per_item(state, name) and node.expanded and not is_skipped:
                self._check_items(state, node)
        for (name, item), task in self.db.tasks[job_id].items() if is_strict else ():
            node = state.nodes[name]
            if task["status"] == "completed" and item < 0 and node.status == "completed" and node.batch_size is None:
                expected = program.nodes[name].task_of(item).params.render(Turn(state, 0.0).scope_of(name))
                assert task["params"] == expected, f"24: {job_id}/{name} ran with {task['params']}, not {expected}"

    def _check_items(self, state: JobState, node: NodeState) -> None:
        """24: every item of a fan-out has exactly one task, with the params of that item."""
        tasks = {
            item: task
            for (name, item), task in self.db.tasks[state.job_id].items()
            if name == node.name and task["gone"] is None
        }
        items = items_of(Turn(state, 0.0), node)
        wanted = Counter(keys_of(state.program.nodes[node.name].item_key, items))
        found = Counter(task["item_key"] for task in tasks.values())
        assert found == wanted, f"24: {state.job_id}/{node.name} has tasks for {found}, not {wanted}"

    def result_fails(self, job: dict[str, Any], program: Program) -> bool:
        """Whether the job fails in its result: every result that the simulation draws reads a missing value."""
        return program.result is not None

    def _check_advice(self, job_id: str, program: Program) -> None:
        """22: the owner accepts every verb that is advised for an ended job. There is advice for every job that is not
        completed, unless a guard forbids running completed tasks again."""
        rows = ModelCycle(self.db, 0).committed_rows(job_id)
        state = job_state(*rows, program, Rules())
        advised, refused = advise(self.db, job_id, state)
        for recovery in advised:
            effects = advance(job_state(*rows, program, Rules()), recovery, self.db.now)
            answers = [effect for effect in effects if isinstance(effect, AnswerSignal)]
            assert [one.applied for one in answers] == [True], f"22: {job_id} refuses {recovery.request}: {answers}"
        bad = [name for name, node in state.nodes.items() if counts(state, name) and is_bad(node)]
        is_guarded = any("may never run" in one.reason or "these are over" in one.reason for one in refused)
        is_missing = state.status != "completed" and bool(bad or program.result is not None)
        assert advised or not is_missing or is_guarded, (
            f"22: {job_id} is {state.status} and no verb is advised: {refused}"
        )

    def _expected_status(self, nodes: dict[str, NodeRow], program: Program) -> str:
        borders = (NodeType.START, NodeType.END)
        inner_nodes = [n for name, n in nodes.items() if program.nodes[name].node.type not in borders]
        if any(node.reason == "job_cancelled" for node in inner_nodes):
            return "cancelled"
        worst = "completed"
        for name, node in nodes.items():
            weight = self._weight(name, nodes, program)
            if program.nodes[name].node.type in borders or weight is Importance.OPTIONAL:
                continue
            if node.status in BAD and weight is Importance.CRITICAL:
                return "failed"
            is_missed = node.failed and program.nodes[name].node.tolerate.counts_as != "completed"
            missed = node.skipped - (node.matching or {}).get("gone", 0)
            is_skipped = missed or (node.status, node.reason) == ("skipped", "by_person")
            if node.status in BAD or is_missed or is_skipped:
                worst = "partial"
        return worst

    def _weight(self, name: str, nodes: dict[str, NodeRow], program: Program) -> Importance:
        """13: a node that was cancelled because of a failed source counts as that source."""
        if (nodes[name].status, nodes[name].reason) == ("cancelled", "upstream_failed"):
            bad = [s for s in program.graph.sources[name] if self._verdict(s, name, nodes, program) == "bad"]
            causes = {self._weight(source, nodes, program) for source in bad}
            return next((one for one in Importance if one in causes), program.nodes[name].node.importance)
        return program.nodes[name].node.importance

    def _check_events(self, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow]) -> None:
        end_events = self._end_events.setdefault(job_id, _EndEvents())
        end_events.read(self.db.events[job_id])
        for name, node in nodes.items():
            ends = end_events.ends.get(name, [])
            expected = [f"node_{node.status}"] if node.status in TERMINAL else []
            assert ends == expected, f"5: {job_id}/{name} is {node.status}, and its events say {ends}"
        is_over = job["status"] in JOB_TERMINAL
        assert end_events.job_ends == is_over, f"5: {job_id} is {job['status']} and ended {end_events.job_ends} times"

    def _check_progress(self, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program) -> None:
        """7: an open job has a queued task, an unread signal, or a step that its owner owes."""
        if job["status"] in JOB_TERMINAL:
            return
        if any(key[0] == job_id for key in self.db.queue):
            return
        if any(row["job_id"] == job_id for row in self.db.inbox.values()):
            return
        if any(self.has_vanished((job_id, *key), task) for key, task in self.db.tasks[job_id].items()):
            return
        for name, node in nodes.items():
            if name not in program.nodes:
                continue
            kind = program.nodes[name].node.type
            is_matching = node.matching is not None and not node.matching["is_done"]
            gathers = kind is NodeType.FAN_IN and node.completed == node.width
            if node.status == "running" and (gathers or is_matching or node.expanded < node.width):
                return
            if node.status == "ready" and not node.expanded:
                return
        raise AssertionError(f"7: {job_id} is {job['status']} with nothing queued, unread or owed")

    def has_vanished(self, key: Key, task: dict[str, Any]) -> bool:
        """Whether something outside the engine deleted the task's queue row. The janitor finds such tasks."""
        return task["status"] == "ready" and self.db.history.ended.get((key, task["epoch"])) == "vanished"

    def check_deadlines(self, patience: float) -> None:
        """11: in a calm world, an owner notices a deadline soon after it has passed."""
        for job_id, job in self.db.jobs.items():
            moment = job["deadline_at"] if job["stop_cause"] is None else job["stop_until"]
            waits = job["finished_at"] is None and not job["stop_leases_ended"] and moment is not None
            assert not waits or self.db.now < moment + patience, f"11: {job_id} outlived its deadline {moment}"

    # The end

    def check_end(self, jobs: Sequence[NewJob]) -> None:
        assert not self.db.queue, f"11: rows are left in the queue: {list(self.db.queue)[:5]}"
        unanswered = self.db.history.requests - set(self.db.answers)
        assert not unanswered, f"signals of people were never answered: {unanswered}"
        self._check_cancels()
        events = sum(event == "report_rejected" for log in self.db.events.values() for _, event, *_ in log)
        assert events >= self.db.history.rejected, "1: a report was rejected, and there is no event about it"
        for job in jobs:
            self._check_job(job.job_id)
            self._check_task_events(job.job_id)
            self._check_holds(job.job_id)
            self._check_budgets(job.job_id)
            self._check_batches(job.job_id)

    def _check_cancels(self) -> None:
        """11: a job was cancelled if and only if one of its cancels was applied. No job names a refused cancel as its
        reason."""
        cancels = self.db.history.cancels
        for job_id in set(cancels.values()):
            ends = {event for _, event, *_ in self.db.events[job_id]} & JOB_ENDS
            applied = [self.db.answers[signal_id][0] for signal_id, job in cancels.items() if job == job_id]
            was_cancelled = "job_cancelled" in ends
            assert was_cancelled == any(applied), f"11: cancels of {job_id} applied: {applied}, its ends: {ends}"
            error = self.db.jobs[job_id]["error"]
            message = error.message if error is not None else ""
            assert any(applied) or "cancelled by" not in message, f"22: {job_id} names a refused cancel as its reason"

    def _check_batches(self, job_id: str) -> None:
        """8: the output of a fan-in comes from its batches, and each batch has read its items as they are now."""
        job, tasks = self.db.jobs[job_id], self.db.tasks[job_id]
        program = compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])
        for name, node in self.db.nodes[job_id].items():
            if node.status != "completed" or node.batch_size is None:
                continue
            fan_out = program.graph.fan_out_of[name]
            width = self.db.nodes[job_id][fan_out].width
            assert node.width == -(-width // node.batch_size), f"8: {job_id}/{name} has {node.width} batches"
            for batch in range(node.width):
                page = range(batch * node.batch_size, (batch + 1) * node.batch_size)
                items = [(i, tasks.get((fan_out, i), {})) for i in page]
                expected = [[fan_out, i] for i, item in items if item.get("status") == "completed"]
                read = tasks[(name, batch)]["output"]["read"]
                assert read == expected, f"8: batch {batch} of {job_id}/{name} has read {read} and not {expected}"
            if (last := tasks.get((name, -1))) is not None:
                expected = [[name, batch] for batch in range(node.width)]
                assert last["output"]["read"] == expected, f"8: {job_id}/{name} has read {last['output']['read']}"

    def _check_holds(self, job_id: str) -> None:
        """5: a job has one event when something begins to hold it, and one when that ends."""
        held: set[str] = set()
        for _, event, _, _, _, data in self.db.events[job_id]:
            if event in ("job_held", "job_released"):
                name = data["name"]
                assert (name in held) == (event == "job_released"), f"5: {job_id} has a second {event} of {name}"
                held ^= {name}
            elif event in JOB_ENDS:
                held.clear()

    def _check_task_events(self, job_id: str) -> None:
        """5: every item has exactly one terminal event, alone or within a range."""
        ends: Counter[tuple[str, int]] = Counter()
        for _, event, node, item, _, data in self.db.events[job_id]:
            if event in ("task_completed", "task_failed", "task_cancelled"):
                if item is not None:
                    ends[(node, item)] += 1
                else:
                    for first, last in data["items"]:
                        ends.update((node, i) for i in range(first, last + 1))
        items = {key for key in self.db.tasks[job_id] if key[1] >= 0}
        if self.db.jobs[job_id]["generation"] > 1:
            items = {key for key in items if self.db.tasks[job_id][key]["status"] != "skipped"}
            assert set(ends) >= items, f"5: {job_id}: no event about the end of {items - set(ends)}"
            return
        assert set(ends) == items, f"5: {job_id}: items and events differ in {set(ends) ^ items}"
        assert all(n == 1 for n in ends.values()), f"5: {job_id}: an item ended twice"

    def _check_budgets(self, job_id: str) -> None:
        """9: no task is retried more often than its node allows, or fails with retries left and without a reason."""
        job = self.db.jobs[job_id]
        program = compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])
        repeated = self._repeated(job_id)
        if self._is_corrected(job_id):
            return  # What is kept may have had other limits.
        for (node, item), task in self.db.tasks[job_id].items():
            spec = program.spec_of(node, item)
            if spec is None:
                continue
            limit = spec.retry.max_retries
            assert task["retries"] <= limit, f"9: {job_id}/{node}[{item}] was retried {task['retries']} times"
            given_up = task["status"] == "failed" and code_of(task) == "HANDLER_ERROR"
            if (
                given_up
                and not task["error"].is_permanent
                and job["stop_cause"] is None
                and job["generation"] == 1  # Later it may have failed before a verb, while the job was stopping.
                and (node, item) not in repeated
            ):
                assert task["retries"] == limit, f"9: {job_id}/{node}[{item}] failed with retries left"

    def _is_corrected(self, job_id: str) -> bool:
        return any(event == "job_recovered" and "corrected" in data for _, event, *_, data in self.db.events[job_id])

    def _repeated(self, job_id: str) -> set[tuple[str, int]]:
        """Items that were not retried because too many others had failed in the same way."""
        events = self.db.events[job_id]
        return {(e[2], e[3]) for e in events if e[5] and e[5].get("reason") == "REPEATED_FAILURE"}

    def check_ended_job(self, job_id: str) -> None:
        """Check what the rows of an ended job show; for databases whose history was not recorded."""
        assert self.db.events[job_id], f"5: {job_id} has no events"
        job, nodes = self.db.jobs[job_id], self.db.nodes[job_id]
        program = compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])
        self._check_counters(job_id, nodes)
        self._check_nodes(job_id, job, nodes, program)
        self._check_status(job_id, job, nodes, program)
        self._check_events(job_id, job, nodes)
        self._check_task_events(job_id)
        numbers = [seq for seq, *_ in self.db.events[job_id]]
        assert numbers == list(range(1, len(numbers) + 1)), f"5: the events of {job_id} have gaps: {numbers}"

    def lost_work(self, job_id: str) -> bool:
        """Whether a stop, a verb, lost leases or repeated failures make the results a matter of timing."""
        if self.db.jobs[job_id]["stop_cause"] in ("timeout", "cancelled") or self._repeated(job_id):
            return True
        event_data = [data or {} for *_, data in self.db.events[job_id]]
        if self._is_corrected(job_id):
            return True
        if any(data.get("reason") == "too_many_failed" or data.get("verb") in ("skip", "set") for data in event_data):
            return True
        if any(node.expanded < node.width for node in self.db.nodes[job_id].values()):
            return True  # Too many items failed before the rows of the others were made.
        codes = {code_of(task) for task in self.db.tasks[job_id].values()}
        was_cut_short = "CANCELLED" in codes and self.ran_to_its_end(job_id)
        return was_cut_short or not codes.isdisjoint(("LEASE_LOST", "REQUEUE_LIMIT", "TIMEOUT", "JOB_TIMEOUT"))

    def ran_to_its_end(self, job_id: str) -> bool:
        """Whether nothing stopped the job. Of a stopped job only the status can be compared."""
        return self.db.jobs[job_id]["stop_cause"] is None
