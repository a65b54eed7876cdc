"""How a task comes into the queue: its lane, with the limits of its node, its priority and its times."""

from __future__ import annotations

from holdfast.core.effects import OWN_TASK, CreateTasks, EnqueueTasks, EnqueueWaiting, Lane, RetryTask
from holdfast.core.failing import Failure
from holdfast.core.signals import TaskView
from holdfast.core.states import JobState, NodeState
from holdfast.core.turn import Turn
from holdfast.core.undo_states import UndoStage
from holdfast.define.gates import Limit, breaker_key
from holdfast.define.node import TaskSpec
from holdfast.define.template import Template
from holdfast.errors import TemplateError

MAX_KEY_LENGTH = 200


def spec_of(state: JobState, name: str, item: int) -> TaskSpec:
    """What runs as a task now: its handler, or the one that undoes what it did."""
    undo, program = state.nodes[name].undo, state.program.nodes[name]
    if undo is None or undo.is_over:
        return program.task_of(item).spec
    compensation = program.task_of(OWN_TASK if undo.stage is UndoStage.OWN else item).compensation
    assert compensation is not None, f"nothing undoes {name}"
    return compensation.spec


def lane_of(turn: Turn, name: str, item: int) -> Lane:
    spec = spec_of(turn.state, name, item)
    tenant = turn.state.tenant
    breaker = breaker_key(tenant, spec.breaker) if spec.breaker else ""
    return Lane(spec.queue, spec.handler, tenant, breaker, limits_of(turn, name, item))


def create(turn: Turn, node: NodeState, first: int, params: list[bytes], keys: list[str] | None = None) -> None:
    """Make the rows of tasks. Their epochs follow those of an earlier run of the node."""
    epoch, attempt = node.base_epoch + 1, node.base_attempt
    contract = has_contract(turn, node.name, first)
    turn.effects.append(CreateTasks(turn.state.job_id, node.name, first, params, epoch, attempt, contract, keys))


def has_contract(turn: Turn, name: str, item: int) -> bool:
    return turn.state.program.nodes[name].task_of(item).spec.output_schema is not None


def enqueue(turn: Turn, node: NodeState, first: int, last: int, lane: Lane, rank: int) -> None:
    """Queue the first attempt of these items."""
    state, spec = turn.state, turn.state.program.nodes[node.name].task_of(first).spec
    turn.effects.append(
        EnqueueTasks(
            state.job_id,
            node.name,
            first,
            last,
            lane,
            state.priority,
            rank,
            spec.timeout_seconds,
            spec.queue_timeout_seconds,
        )
    )


def enqueue_waiting(turn: Turn, node: NodeState, number: int, lane: Lane) -> None:
    """Queue the next of a node's tasks that were reset and wait."""
    state, spec = turn.state, spec_of(turn.state, node.name, 0)
    turn.effects.append(
        EnqueueWaiting(
            state.job_id,
            node.name,
            number,
            lane,
            state.priority,
            state.queued_now,
            spec.timeout_seconds,
            spec.queue_timeout_seconds,
        )
    )


def enqueue_again(
    turn: Turn,
    node: str,
    item: int,
    task: TaskView,
    *,
    attempt: int,
    due_at: float | None,
    error: Failure | None,
    requeued: bool = False,
) -> None:
    """Queue a task once more as a new epoch. `task` has its budgets as they are from now on.

    `requeued`: it had vanished from the queue.
    """
    state, spec = turn.state, spec_of(turn.state, node, item)
    turn.effects.append(
        RetryTask(
            job_id=state.job_id,
            node=node,
            item=item,
            epoch=task.epoch + 1,
            attempt=attempt,
            error=error,
            retries=task.retries,
            lost=task.lost,
            crashes=task.crashes,
            lane=lane_of(turn, node, item),
            due_at=due_at,
            priority=state.priority,
            rank=state.queued_now,
            suspect=task.lost > 0,
            timeout_seconds=spec.timeout_seconds,
            queue_timeout_seconds=spec.queue_timeout_seconds,
            requeued=requeued,
        )
    )


def limits_of(turn: Turn, name: str, item: int) -> tuple[Limit, ...]:
    """The limits of a task: its node's own, or those that the node shares with others by a key.

    The answer never changes: what the keys read is finished before the node begins.
    """
    if turn.state.nodes[name].is_undoing:
        return ()
    program = turn.state.program.nodes[name].task_of(item)
    spec = program.spec
    if spec.concurrency is None and spec.rate is None:
        return ()
    found: dict[str, Limit] = {}
    by_concurrency, by_rate = program.limit_keys
    if spec.concurrency is not None:
        shared = _name(turn, name, by_concurrency)
        found[shared] = Limit(shared, concurrency=spec.concurrency.limit)
    if spec.rate is not None:
        shared = _name(turn, name, by_rate)
        rate = spec.rate.limit / spec.rate.per_seconds
        found[shared] = found.get(shared, Limit(shared))._replace(rate=rate, burst=spec.rate.limit)
    return tuple(found.values())


def _name(turn: Turn, node: str, key: Template | None) -> str:
    if key is None:
        return f"node:{turn.state.program.definition.workflow_id}.{node}"
    value = key.render(turn.scope_of(node))
    if isinstance(value, bool | int | float):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_KEY_LENGTH or "\n" in value:
        shown = "a long text" if isinstance(value, str) else type(value).__name__
        message = f"the key of a limit of {node} must be a text of one line, at most {MAX_KEY_LENGTH} long, not {shown}"
        raise TemplateError(message, expression=str(turn.state.program.nodes[node].items.spec.concurrency))
    return f"key:{value}"
