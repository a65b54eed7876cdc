"""Corrections of jobs that have ended: other inputs, another definition, and the plan of what that means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from holdfast.core.correcting import Corrected, Difference, corrected_state, correction_id, to_count
from holdfast.core.item_keys import match_items
from holdfast.core.matching import Counted, chunk_size, counted, item_keys, tasks_at
from holdfast.core.plans import Action, Refusal, Step
from holdfast.core.plans import Plan as CorePlan
from holdfast.core.states import JobState, NodeState, Status
from holdfast.define.changes import differences
from holdfast.define.contract import Contract
from holdfast.define.defaults import with_defaults
from holdfast.define.definition import Definition
from holdfast.define.inputs import check_inputs
from holdfast.define.node_program import NodeProgram
from holdfast.define.program import Program, compile_pinned
from holdfast.errors import Detail, InvalidInput, PayloadRefused, Refused, TemplateError
from holdfast.operations.defaults import defaults_now
from holdfast.operations.looks import CorrectingLook
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.operations.tenants import refuse_other_queues
from holdfast.remedies import Remedy
from holdfast.store.records import PlanRow
from holdfast.views.verbs import Correction, KeptPlan, Plan, VerbRequest, corrected_plan, refused

MOST_BREACHES = 20
"""How many kept outputs that break a contract are named."""
PAGE = 500


async def plan_correction(scope: Scope, store: OperationsStore, job_id: str, request: VerbRequest) -> Plan:
    """What a verb with a correction would do now. Changes nothing: the plan brings what its owner needs to do exactly
    that, or nothing."""
    assert request.correction is not None
    async with store.reads(scope.tenant).correcting(job_id) as look:
        before = look.state
        definition = await _definition(scope, store, before, request.correction)
        inputs = _inputs(before, definition, request.correction, store.payload_limit_bytes)
        changed = _changed(before, definition, inputs)
        if not changed:
            raise Refused(
                f"Job {job_id} was not changed: the correction changes nothing.",
                remedy=Remedy("A handler that was mended needs no correction; continue with", "resume", job_id),
                instance=job_id,
            )
        pinned = definition.canonical_bytes()
        program = compile_pinned(definition.hash(), pinned)
        await look.read_outputs(_nodes_read(program))
        after = corrected_state(before, program, inputs)
        _check_item_keys(before, after)
        corrected = Corrected(before.program, before.inputs, await look.own_params(), stale=request.correction.stale)
        corrected.counted = {
            node.name: await _counted(look, after, node, difference) for node, difference in to_count(after, corrected)
        }
        planned = await look.corrected_plan(after, request.to_core(), corrected)
        if isinstance(planned, Refusal):
            raise refused(job_id, request.verb, planned)
        await _check_kept(look, before, after, corrected, planned)
    plan_id = correction_id(job_id, before.generation, before.seq, request.to_core(), after, planned)
    content = {"plan": planned.to_json(), "corrected": changed, "stale": request.correction.stale}
    row = PlanRow(plan_id, job_id, before.generation, before.seq, after.program.hash, inputs, content)
    kept = KeptPlan(row, pinned)
    return corrected_plan(job_id, before.generation, look.now, request, planned, kept, tuple(changed))


async def _definition(scope: Scope, store: OperationsStore, job: JobState, correction: Correction) -> Definition:
    """The definition that the job is to have, with the defaults of its tenant."""
    present = job.program.definition
    if correction.definition is None:
        return present
    if correction.definition.workflow_id != present.workflow_id:
        raise Refused(
            f"Job {job.job_id} was not changed: it is of workflow {present.workflow_id}, and the file is of"
            f" {correction.definition.workflow_id}.",
            remedy="Give the corrected file of the same workflow, or submit the other one as a job of its own.",
            instance=job.job_id,
        )
    await refuse_other_queues(store, job.tenant, correction.definition)
    return with_defaults(correction.definition, await defaults_now(scope, store))


def _check_item_keys(before: JobState, after: JobState) -> None:
    """Items are known by the `item_key` with which their fan-out made them: with another one, none would match."""
    problems = []
    for name, node in before.nodes.items():
        if not node.expanded or name not in after.program.nodes or name not in before.program.nodes:
            continue
        old, new = before.program.nodes[name].node, after.program.nodes[name].node
        if old.source is not None and new.source is not None and old.item_key != new.item_key:
            was = f"item_key: {old.item_key!r}" if old.item_key is not None else "no item_key"
            problems.append(Detail(f"{name} has made its items with {was}", path=f"nodes.{name}.item_key"))
    if problems:
        raise Refused(
            f"Job {after.job_id} was not changed: another item_key would match none of its items.",
            remedy="Leave item_key as it was. A new job can have the other one.",
            errors=problems,
            instance=after.job_id,
        )


def _nodes_read(program: Program) -> set[str]:
    """The nodes whose outputs templates and conditions read; `upstream` may be any of them."""
    paths = program.paths_read()
    if any(path[0] == "upstream" or path == ("nodes",) for path in paths):
        return set(program.nodes)
    return {str(path[1]) for path in paths if path[0] == "nodes"}


def _inputs(job: JobState, definition: Definition, correction: Correction, limit_bytes: int) -> dict[str, Any]:
    """The inputs that the job is to have: those that were given, then its own, then defaults."""
    declared = {one.name for one in definition.inputs}
    # An input that was optional and had no value stays without one, so that a new default counts.
    kept = {
        name: value
        for name, value in job.inputs.items()
        if (not declared or name in declared) and not (value is None and correction.definition is not None)
    }
    inputs = check_inputs(definition, {**kept, **correction.inputs})
    size = len(orjson.dumps(inputs))
    if size > limit_bytes:
        raise PayloadRefused(
            f"The inputs of job {job.job_id} would have {size:,} bytes; the limit is {limit_bytes:,}.",
            remedy="Put the data into a file or a store that the handlers can read, and pass its name.",
            instance=job.job_id,
        )
    plain: dict[str, Any] = orjson.loads(orjson.dumps(inputs))
    return plain


def _changed(job: JobState, definition: Definition, inputs: Mapping[str, Any]) -> list[str]:
    """What the correction changes, in words: `inputs.NAME`, and the parts of the workflow that differ."""
    before = job.inputs
    names = [name for name in {**before, **inputs} if _json(before.get(name, ...)) != _json(inputs.get(name, ...))]
    of_workflow = differences(job.program.definition, definition)
    if not of_workflow and definition.hash() != job.program.hash:
        of_workflow = ["its name, its texts or its version"]
    return [*(f"inputs.{name}" for name in sorted(names)), *of_workflow]


def _json(value: Any) -> bytes | None:
    """As JSON, because 1, 1.0 and true are equal for Python."""
    return None if value is ... else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


async def _counted(look: CorrectingLook, after: JobState, node: NodeState, difference: Difference) -> Counted:
    """What matching the items of a fan-out with its tasks would come to."""
    keys = await look.item_keys(node.name)
    if len(keys) < node.expanded:
        raise Refused(
            f"Job {after.job_id} was not changed: {node.name} was made by an earlier version of Holdfast, which did not"
            " note what its items are known by.",
            remedy=Remedy(
                "Run all of it again, without a correction", "rerun", after.job_id, flags=("--from", node.name)
            ),
            instance=after.job_id,
        )
    found = match_items(_keys(after, node), keys)
    total, size = Counted(), chunk_size(after)
    for first in range(0, found.places, size):
        tasks = await look.matched_tasks(node.name, tasks_at(found, first, size))
        part = counted(after, node, found, first, tasks, other_handler=difference.other_handler)
        total = total.plus(part)
    return total


def _keys(after: JobState, node: NodeState) -> list[str]:
    """What the items that the fan-out is to have are known by."""
    try:
        return item_keys(after, node)
    except (TemplateError, TypeError) as problem:
        raise InvalidInput(
            f"Job {after.job_id} was not changed: the source of {node.name} gives no list now: {problem}.",
            remedy="Correct the source, or what it reads.",
            instance=after.job_id,
        ) from None


async def _check_kept(
    look: CorrectingLook, before: JobState, after: JobState, corrected: Corrected, plan: CorePlan
) -> None:
    """Outputs that stay must keep the contracts of the definition that the job is to have."""
    breaches: list[Detail] = []
    for step in plan.steps:
        if step.action is Action.GONE or corrected.is_new(step.node) or not after.nodes[step.node].completed:
            continue
        contracts = _other_contracts(before.program.nodes[step.node], after.program.nodes[step.node])
        stays = _staying(step, corrected) if contracts else None
        if stays is not None:
            breaches += await _breaches(look, step.node, contracts, stays, MOST_BREACHES - len(breaches))
        if len(breaches) >= MOST_BREACHES:
            break
    if breaches:
        if plan.refusal is not None:
            breaches.append(Detail(plan.refusal.reason))
        raise Refused(
            f"Job {after.job_id} was not changed: outputs that would be kept break the contract of the workflow.",
            remedy="Run what gave them again with --stale rerun after you have changed its params or its handler,"
            " or correct the contract.",
            errors=breaches,
            instance=after.job_id,
        )


def _other_contracts(old: NodeProgram, new: NodeProgram) -> dict[bool, Contract]:
    """The contracts of a node that are others now: that of its items or batches (True), and that of its own task."""
    contracts = {}
    for of_items in (True, False):
        before, now = _schema(old, of_items=of_items), _schema(new, of_items=of_items)
        if now is not None and now != before:
            contracts[of_items] = Contract(now)
    return contracts


def _schema(program: NodeProgram, *, of_items: bool) -> dict[str, Any] | None:
    if of_items:
        task = program.items if program.has_items else None
    else:
        task = program.task if program.batches is not None or not program.has_items else None
    return task.spec.output_schema if task is not None else None


def _staying(step: Step, corrected: Corrected) -> Callable[[int], bool] | None:
    """Which of the completed tasks of a node stay as they are; None: none of them."""
    how, counted, selection = step.matching, corrected.counted.get(step.node), step.selection
    if how is not None and counted is not None:
        leaving = {*counted.gone_items, *(counted.stale_items if how.reruns_stale else ())}
        return lambda item: item not in leaving
    if how is not None:
        # Which of its items stay the same is known later.
        return None if how.has_other_handler and how.reruns_stale else lambda _: True
    if selection is not None:
        again = set(selection.also)
        # The task behind batches runs again with any of them.
        return None if Status.COMPLETED in selection.statuses else lambda item: item >= 0 and item not in again
    return None if step.action is Action.RERUN else lambda _: True


async def _breaches(
    look: CorrectingLook, node: str, contracts: Mapping[bool, Contract], stays: Callable[[int], bool], most: int
) -> list[Detail]:
    found: list[Detail] = []
    after = -2
    while len(found) < most:
        page = await look.completed_outputs(node, after, PAGE)
        if not page:
            break
        for item, output in page:
            contract = contracts.get(item >= 0)
            breach = contract.breach(output) if contract is not None and stays(item) else None
            if breach is not None and len(found) < most:
                place = node if item < 0 else f"{node}[{item}]"
                found.append(Detail(f"{place}: {breach}", path=place))
        after = page[-1][0]
    return found
