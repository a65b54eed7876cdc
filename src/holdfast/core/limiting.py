"""Which limits a node's tasks are subject to: its own, or those that it shares with others by a key."""

from __future__ import annotations

from holdfast.core.turn import Turn
from holdfast.define.gates import Limit
from holdfast.define.template import Template
from holdfast.errors import TemplateError

MAX_KEY_LENGTH = 200


def limits_of(turn: Turn, name: str, item: int) -> tuple[Limit, ...]:
    """The same whenever it is asked: what the keys read is finished before the node begins."""
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
