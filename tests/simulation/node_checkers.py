"""Checks nodes: their counters, when they begin, how they end, and what a fan-in gathers."""

from __future__ import annotations

from typing import Any

from holdfast.define.node import Importance, NodeType
from holdfast.define.program import Program, compile_pinned
from holdfast.store.records import NodeRow
from tests.simulation.checker_memory import Memory
from tests.simulation.database import TERMINAL, Database
from tests.simulation.undo_checkers import is_orphaned, is_undoing


def check_counters(db: Database, job_id: str, nodes: dict[str, NodeRow]) -> None:
    counted: dict[str, list[str]] = {}
    for (name, _), task in db.tasks[job_id].items():
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


def check_nodes(
    db: Database, memory: Memory, job_id: str, job: dict[str, Any], nodes: dict[str, NodeRow], program: Program
) -> None:
    for name, node in nodes.items():
        if name not in program.nodes:
            assert node.status == "pending" and not node.expanded, f"4: {job_id} has lost {name}, which has tasks"
            continue
        key = (job_id, name)
        now = (str(node.status), node.output)
        if is_undoing(job):
            # It may go back to its end more than once; `undo_checkers` says when.
            memory.final_nodes.pop(key, None)
            continue
        if key in memory.final_nodes:
            assert memory.final_nodes[key] == now, f"4: node {key} was {memory.final_nodes[key]} and is now {now}"
        elif node.status in TERMINAL:
            memory.final_nodes[key] = now
        if is_orphaned(name, nodes, program):
            continue
        if node.status == "pending" or node.reason in ("by_person", "set_by_person") or key in memory.stale:
            continue
        # A recovery leaves nodes that would end in the same way again, although their sources run again.
        is_left = job["generation"] > 1 and node.status in ("cancelled", "skipped")
        if job["stop_cause"] is None and not is_left:
            for source in program.graph.sources[name]:
                before = nodes.get(source)
                assert before is not None and before.status in TERMINAL, f"6: {name} began before {source} had ended"
        if node.status in ("ready", "dispatched", "running", "completed"):
            _check_rule(job_id, name, nodes, program)
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
                _check_left_out(db, job_id, name, fan_out, node.output)


def _check_left_out(db: Database, job_id: str, name: str, fan_out: str, output: Any) -> None:
    """8: the gathered output lists the items that it leaves out, by status."""
    for how in ("failed", "skipped"):
        tasks = db.tasks[job_id].items()
        expected = sorted(
            item for (node, item), task in tasks if node == fan_out and task["status"] == how and task["gone"] is None
        )
        assert output.get(how, []) == expected, f"8: {job_id}/{name} lists {output.get(how)} as {how}, not {expected}"


def _check_rule(job_id: str, name: str, nodes: dict[str, NodeRow], program: Program) -> None:
    """6: a node runs only if none of its sources is bad and one of them is ok."""
    all_of, any_of = program.graph.all_of[name], program.graph.any_of[name]
    verdicts = [verdict(source, name, nodes, program) for source in all_of]
    assert "bad" not in verdicts, f"6: {job_id}/{name} runs although one of {all_of} is bad"
    assert not verdicts or "ok" in verdicts, f"6: {job_id}/{name} runs although all of {all_of} are absent"
    if any_of:
        verdicts = [verdict(source, name, nodes, program) for source in any_of]
        assert "ok" in verdicts, f"6: {job_id}/{name} runs although none of {any_of} is ok"


def verdict(source: str, target: str, nodes: dict[str, NodeRow], program: Program) -> str:
    node, definition = nodes[source], program.nodes[source].node
    if node.status == "completed":
        targets = {t for b in definition.branches for t in b.targets}
        return "absent" if target in targets and target not in node.taken else "ok"
    if node.status == "skipped":
        return "ok" if node.reason == "by_person" else "absent"
    return "ok" if node.status == "failed" and definition.importance is Importance.OPTIONAL else "bad"


def check_batches(db: Database, job_id: str) -> None:
    """8: the output of a fan-in comes from its batches, and each batch has read its items as they are now."""
    job, tasks = db.jobs[job_id], db.tasks[job_id]
    program = compile_pinned(job["definition_hash"], db.definitions[job["definition_hash"]])
    for name, node in db.nodes[job_id].items():
        if node.status != "completed" or node.batch_size is None or is_orphaned(name, db.nodes[job_id], program):
            continue
        fan_out = program.graph.fan_out_of[name]
        width = db.nodes[job_id][fan_out].width
        assert node.width == -(-width // node.batch_size), f"8: {job_id}/{name} has {node.width} batches"
        for batch in range(node.width):
            page = range(batch * node.batch_size, (batch + 1) * node.batch_size)
            items = [(i, tasks.get((fan_out, i), {})) for i in page]
            expected = [[fan_out, i] for i, item in items if item.get("status") == "completed"]
            output = tasks[(name, batch)]["output"]
            read, saw = output["read"], output["saw"]
            assert read == expected, f"8: batch {batch} of {job_id}/{name} has read {read} and not {expected}"
            now = [item["output"]["params"] for _, item in items if item.get("status") == "completed"]
            assert saw == now, f"8: batch {batch} of {job_id}/{name} has read results of {saw} and not of {now}"
        if (last := tasks.get((name, -1))) is not None:
            expected = [[name, batch] for batch in range(node.width)]
            assert last["output"]["read"] == expected, f"8: {job_id}/{name} has read {last['output']['read']}"
