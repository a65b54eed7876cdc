"""Draws corrections of ended jobs: other inputs, another definition, or both."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.core.correcting import Corrected, corrected_state, correction_id, to_count
from holdfast.core.item_keys import match_items
from holdfast.core.matching import Counted, chunk_size, counted, item_keys, tasks_at
from holdfast.core.planning import batches_asked, batches_planned, make_plan
from holdfast.core.plans import Plan, Refusal, Stale
from holdfast.core.signals import Request
from holdfast.core.states import JobState, NodeState
from holdfast.define.definition import Definition
from holdfast.define.node import Batches, Importance, Node, NodeType, TaskSpec, Tolerate
from holdfast.define.program import Program, compile_definition
from holdfast.define.retry import Retry
from holdfast.errors import HoldfastError
from holdfast.store.records import PlanRow
from tests.simulation import selection
from tests.simulation.database import Database

OTHER_HANDLER = "other"


def draw_correction(
    db: Database, state: JobState, request: Request, chance: random.Random
) -> tuple[PlanRow, bytes] | None:
    """A stored plan of a correction, and its definition; None: nothing would come of it, or it is refused."""
    program, inputs = state.program, state.inputs
    if chance.random() < 0.9:
        inputs = _other_inputs(inputs, chance)
    if chance.random() < 0.5:
        program = compile_definition(_other_definition(program.definition, chance))
    stale = chance.choice([Stale.RERUN, Stale.RERUN, Stale.KEEP, None])
    plan, row = plan_correction(db, state, request, program, inputs, stale)
    if isinstance(plan, Refusal) or plan.refusal is not None:
        return None
    return row, program.definition.canonical_bytes()


def plan_correction(
    db: Database, state: JobState, request: Request, program: Program, inputs: dict[str, Any], stale: Stale | None
) -> tuple[Plan | Refusal, PlanRow]:
    """The plan of a verb with a correction, and the row that keeps it."""
    after = corrected_state(state, program, inputs)
    corrected = Corrected(state.program, state.inputs, selection.own_params(db, state.job_id), stale=stale)
    corrected.counted = {
        node.name: _counted(db, after, node, other_handler=difference.other_handler)
        for node, difference in to_count(after, corrected)
    }
    node = state.nodes.get(request.node or "")
    asked = batches_asked(state, request, is_corrected=True)
    selected = selection.select(db, state.job_id, request, node.enqueued if node else 0, asked)
    plan = make_plan(after, request, selected, db.now, corrected.fresh())
    if isinstance(plan, Plan) and (planned := batches_planned(state, plan)):
        selected = selection.select(db, state.job_id, request, node.enqueued if node else 0, [*asked, *planned])
        plan = make_plan(after, request, selected, db.now, corrected)
    shown = plan if isinstance(plan, Plan) else Plan(request.verb, ())
    plan_id = correction_id(state.job_id, state.generation, state.seq, request, after, shown)
    content = {"plan": shown.to_json(), "corrected": ["inputs", "workflow"], "stale": stale and str(stale)}
    return plan, PlanRow(plan_id, state.job_id, state.generation, state.seq, program.hash, inputs, content)


def _counted(db: Database, after: JobState, node: NodeState, *, other_handler: bool) -> Counted:
    found = match_items(item_keys(after, node), selection.item_keys(db, after.job_id, node.name))
    total, size = Counted(), chunk_size(after)
    for first in range(0, found.places, size):
        tasks = selection.matched_tasks(db, after.job_id, node.name, tasks_at(found, first, size))
        part = counted(after, node, found, first, tasks, other_handler=other_handler)
        total = total.plus(part)
    return total


def _other_inputs(inputs: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    items = list(inputs["items"])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(items) + 1)
        match chance.choice(["insert", "insert", "remove", "change", "repeat", "move"]):
            case "insert":
                items.insert(place, chance.choice([chance.randrange(100), {"deep": chance.randrange(100)}]))
            case "remove" if items:
                items.pop(place % len(items))
            case "change" if items:
                items[place % len(items)] = {"deep": chance.randrange(100)}
            case "repeat" if items:
                items.insert(place, items[place % len(items)])
            case "move" if items:
                items.append(items.pop(place % len(items)))
    return {"n": chance.choice([inputs["n"], inputs["n"], chance.randint(0, 10)]), "items": items}


def _other_definition(definition: Definition, chance: random.Random) -> Definition:
    nodes = list(definition.nodes)
    place = chance.randrange(len(nodes))
    node = nodes[place]
    match chance.choice(["handler", "params", "retry", "importance", "tolerate", "remove", "add"]):
        case "handler":
            nodes[place] = _with_work(node, lambda task: replace(task, handler=OTHER_HANDLER))
        case "params" if node.task is not None or node.batches is not None:
            more = [1, 2, "{{ job.generation }}"][chance.randint(1, 3) - 1]
            nodes[place] = _with_work(node, lambda task: replace(task, params={**task.params, "more": more}))
        case "retry" if node.task is not None:
            nodes[place] = replace(node, task=replace(node.task, retry=Retry(max_retries=chance.randint(0, 3))))
        case "importance" if node.type not in (NodeType.CONDITIONAL, NodeType.START, NodeType.END):
            nodes[place] = replace(node, importance=chance.choice(list(Importance)))
        case "tolerate" if node.type is NodeType.FAN_OUT:
            nodes[place] = replace(node, tolerate=Tolerate(chance.choice([0, 1, 2, 100])))
        case "remove":
            nodes = _without_a_leaf(nodes, chance)
        case "add":
            name = chance.choice(["more", "most"])
            if name not in {one.name for one in nodes}:
                nodes.append(Node(name, all_of=(node.name,), task=TaskSpec("work", params={"n": "{{ inputs.n }}"})))
    fan_ins = [place for place, one in enumerate(nodes) if one.type is NodeType.FAN_IN]
    if fan_ins and chance.random() < 0.3:
        place = chance.choice(fan_ins)
        nodes[place] = _gathered_otherwise(nodes[place], chance)
    changed = replace(definition, nodes=tuple(nodes))
    try:
        compile_definition(changed)
    except (HoldfastError, KeyError, AssertionError):
        return definition
    return changed


def _gathered_otherwise(node: Node, chance: random.Random) -> Node:
    """A fan-in that gets or loses its batches, or has batches of another size."""
    if node.task is not None and chance.random() < 0.5:
        work = TaskSpec("work", params={"page": "{{ item }}"})
        batches = Batches(work, chance.choice([1, 2, 3])) if node.batches is None else None
        return replace(node, batches=batches)
    if node.batches is not None:
        sizes: list[int | str] = [1, 2, 3, "auto"]
        return replace(node, batches=replace(node.batches, size=chance.choice(sizes)))
    return node


def _with_work(node: Node, change: Callable[[TaskSpec], TaskSpec]) -> Node:
    """With another task or, if it has batches, with other batches."""
    if node.batches is not None:
        return replace(node, batches=replace(node.batches, task=change(node.batches.task)))
    return replace(node, task=change(node.task)) if node.task is not None else node


def _without_a_leaf(nodes: list[Node], chance: random.Random) -> list[Node]:
    """Without a task that no other node names; the first node stays, because a result may read it."""
    named = {name for one in nodes for name in (*one.next, *one.all_of, *one.any_of)}
    named |= {name for one in nodes for branch in one.branches for name in branch.targets}
    leaves = [one for one in nodes[1:] if one.name not in named and one.type is NodeType.TASK]
    gone = chance.choice(leaves) if leaves else None
    return [one for one in nodes if one is not gone]
