"""Draws workflows of all shapes from a seed, and a script for each task that says what its handler does."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.define.definition import Definition, OnFailure
from holdfast.define.node import TaskSpec
from holdfast.define.retry import Backoff, Retry
from holdfast.define.workflow import Workflow

UNDO_HANDLER = "undo"
MIXED = ("critical", "critical", "important", "optional")
SECONDARY = ("important", "important", "optional")
DEATHS = (1, 1, 2, 1000)
"""How often a deadly task kills its process."""


def draw_definition(chance: random.Random) -> Definition:
    """A chain, a diamond, a fan-out, a conditional, or a mixture; with importances, retries and timeouts."""
    flow = Workflow(
        "simulated",
        breakers={
            "gateway": {"window_calls": 4, "min_calls": 2, "cooldown_seconds": 3, "codes": ["DEPENDENCY_DOWN"]},
        },
        inputs={"n": {"type": "integer"}, "items": {"type": "array"}},
        timeout_seconds=chance.choice([None, None, None, None, 40.0]),
    )
    last: list[str] = []
    # In a third of the workflows only conditionals are critical: these workflows go on after failures and end partial.
    importances = chance.choice([MIXED, MIXED, SECONDARY])
    for number in range(chance.randint(1, 4)):
        added = _add_piece(flow, chance, f"p{number}", last, importances)
        # Sometimes a piece is a leaf: the next pieces do not wait for it.
        last = added if not last or chance.random() < 0.6 else last
    if _lacks_its_result(chance):
        flow.result({"of": f"{{{{ nodes.{flow.definition().nodes[0].name}.output.absent }}}}"})
    return flow.definition()


def with_compensations(definition: Definition, chance: random.Random) -> Definition:
    """With handlers that undo most of its tasks. Some of the workflows undo by themselves what a failed job did."""
    nodes = []
    for node in definition.nodes:
        task, batches = node.task, node.batches
        if task is not None and chance.random() < 0.85:
            task = _compensated(task, chance)
            if batches is not None and chance.random() < 0.7:
                batches = replace(batches, task=_compensated(batches.task, chance))
        elif task is None and batches is not None and chance.random() < 0.5:
            batches = replace(batches, task=_compensated(batches.task, chance))
        nodes.append(replace(node, task=task, batches=batches))
    on_failure = OnFailure.COMPENSATE if chance.random() < 0.5 else OnFailure.KEEP
    return replace(definition, nodes=tuple(nodes), on_failure=on_failure)


def _compensated(task: TaskSpec, chance: random.Random) -> TaskSpec:
    retry = Retry(max_retries=chance.randint(0, 3), backoff=Backoff.FIXED, initial_delay_seconds=1.0)
    undo = TaskSpec(UNDO_HANDLER, queue=chance.choice(["default", "heavy"]), timeout_seconds=60.0, retry=retry)
    return replace(task, compensate=undo)


def _lacks_its_result(chance: random.Random) -> bool:
    """Sometimes the job's result cannot be made, so that the job fails although all its nodes completed."""
    return random.Random(zlib.crc32(repr(chance.getstate()[1][-7:]).encode())).random() < 0.1


def _add_piece(
    flow: Workflow, chance: random.Random, name: str, after: list[str], importances: Sequence[str]
) -> list[str]:
    def drawn() -> str:
        return chance.choice(importances)

    piece = chance.choice(["task", "task", "fan", "fan", "branch", "diamond"])
    common = {"retry": _retry(chance), "queue": chance.choice(["default", "heavy"]), **_gates(chance)}
    common |= _guard(chance)
    match piece:
        case "task":
            flow.task(
                name, handler="work", params={"n": "{{ inputs.n }}"}, after=after, importance=drawn(),
                timeout_seconds=chance.choice([5, 60]), **common,
            )  # fmt: skip
            return [name]
        case "fan":
            params = chance.choice([{"value": "{{ item }}", "index": "{{ index }}"}, {"value": "{{ item.deep }}"}])
            flow.fan_out(
                name, source="{{ inputs['items'] }}", handler="work", params=params, after=after,
                importance=drawn(), **common, **_tolerance(chance),
            )  # fmt: skip
            gather = f"{name}_in"
            aggregation = chance.choice(["collect", "concat", "first", "last"])
            batches = _batches(chance)
            if "handler" in batches:
                aggregation = "collect"
            guard = _guard(chance) if batches else {}
            flow.fan_in(gather, after=[name], aggregation=aggregation, importance=drawn(), **batches, **guard)
            return [gather]
        case "branch":
            low, high, join = f"{name}_low", f"{name}_high", f"{name}_join"
            flow.conditional(name, condition="{{ inputs.n }} > 5", on_true=high, on_false=low, after=after)
            flow.task(low, handler="work", importance=drawn(), **common)
            flow.task(high, handler="work", importance=drawn(), **common)
            flow.task(join, handler="work", after_any=[low, high], importance=drawn(), **common)
            return [join]
        case _:
            left, right, join = f"{name}_left", f"{name}_right", f"{name}_join"
            flow.task(left, handler="work", after=after, importance=drawn(), **common)
            flow.task(right, handler="work", after=after, importance=drawn(), **common)
            flow.task(join, handler="work", after=[left, right], importance=drawn(), **common)
            return [join]


def _retry(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        [
            {"max_retries": 0},
            {"max_retries": 2, "backoff": "fixed", "initial_delay_seconds": 1, "jitter": "none"},
            {"max_retries": 3, "backoff": "exponential", "initial_delay_seconds": 1, "max_delay_seconds": 10},
            {"max_retries": 2, "backoff": "linear", "initial_delay_seconds": 2, "jitter": "equal"},
            {"schedule": [1, 3], "max_retries": 2},
        ]
    )


def _gates(chance: random.Random) -> dict[str, Any]:
    """Sometimes a breaker or a limit. The draw uses the state of `chance`, and does not advance its sequence."""
    drawn = random.Random(zlib.crc32(repr(chance.getstate()[1][-3:]).encode()))
    gates: dict[str, Any] = {}
    if drawn.random() < 0.3:
        gates["breaker"] = "gateway"
    if drawn.random() < 0.2:
        gates["concurrency"] = drawn.choice([{"limit": 1}, {"limit": 2, "key": "{{ inputs.n }}"}])
    if drawn.random() < 0.1:
        gates["rate"] = {"limit": 2, "per_seconds": 1}
    return gates


def _tolerance(chance: random.Random) -> dict[str, Any]:
    """Sometimes some items may fail, or the first failed item ends the others."""
    drawn = random.Random(zlib.crc32(repr(chance.getstate()[1][-4:]).encode()))
    tolerance: dict[str, Any] = {}
    if drawn.random() < 0.3:
        failures = drawn.choice([1, 2, "50%"])
        tolerance["tolerate"] = {"failures": failures, "counts_as": "completed" if failures == 2 else "partial"}
    if drawn.random() < 0.2:
        tolerance["on_item_failure"] = "stop"
    return tolerance


def _batches(chance: random.Random) -> dict[str, Any]:
    """Sometimes a fan-in reads its items in batches, with or without a last task."""
    drawn = random.Random(zlib.crc32(repr(chance.getstate()[1][-5:]).encode()))
    if drawn.random() < 0.6:
        return {}
    batch = {"handler": "work", "size": drawn.choice([1, 2, 3, 5, "auto"]), "retry": _retry(drawn)}
    last = {"handler": "work", "retry": _retry(drawn)} if drawn.random() < 0.8 else {}
    return {"batch": batch, **last}


def _guard(chance: random.Random) -> dict[str, Any]:
    """Sometimes completed tasks may not run again, or not after a while."""
    drawn = random.Random(zlib.crc32(repr(chance.getstate()[1][-6:]).encode()))
    guards = [{"safe": "never"}, {"within_hours": 5 / 3600}, {"within_hours": 30 / 3600}, {"safe": "always"}]
    return {"rerun": drawn.choice(guards)} if drawn.random() < 0.25 else {}


def draw_inputs(chance: random.Random) -> dict[str, Any]:
    width = chance.choice([0, 1, 2, 3, 5, 8, 13])
    items: list[Any] = [chance.choice([i, {"deep": i}]) if width < 8 else {"deep": i} for i in range(width)]
    return {"n": chance.randint(0, 10), "items": items}


class Script:
    """What a handler does with a task. It depends on the seed and on earlier failures and deaths of the task alone."""

    def __init__(self, seed: int, trouble: float, deaths: float = 0.0) -> None:
        self._seed = seed
        self._trouble = trouble
        self._deaths = deaths

    def outcome(self, job: int, node: str, item: int, retries: int, crashes: int) -> str:
        """`done`, `transient`, `permanent`, `slow` or `dies`."""
        fate = random.Random(zlib.crc32(f"{self._seed}/{job}/{node}/{item}/fate".encode()))
        if fate.random() < self._deaths and crashes < fate.choice(DEATHS):
            return "dies"
        chance = random.Random(zlib.crc32(f"{self._seed}/{job}/{node}/{item}".encode()))
        if chance.random() >= self._trouble:
            return "done"
        kind = chance.choice(["transient", "transient", "transient", "always", "permanent", "slow"])
        match kind:
            case "permanent" | "always":
                return "transient" if kind == "always" else "permanent"
            case _:
                return kind if retries < chance.randint(1, 3) else "done"
