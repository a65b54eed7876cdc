"""The batches of a fan-in: how many items each has, and which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from holdfast.core.states import JobState, NodeState
from holdfast.define.bounds import MAX_ITEMS
from holdfast.define.node import AUTO
from holdfast.define.node_program import NodeProgram
from holdfast.define.plain import kind_of
from holdfast.errors import TemplateError


class Page(NamedTuple):
    """The items of one batch, as `ctx.results` takes them."""

    node: str
    offset: int
    limit: int


class Pages(Sequence[dict[str, Any]]):
    """The batches of a fan-out: batch k is a fixed range of its items, however they ended."""

    def __init__(self, fan_out: NodeState, size: int) -> None:
        self._fan_out, self._size = fan_out, size

    def __len__(self) -> int:
        return -(-self._fan_out.width // self._size)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Sequence[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        first = index * self._size
        return Page(self._fan_out.name, first, min(self._size, self._fan_out.width - first))._asdict()


def automatic_size(width: int) -> int:
    """So that there is 1 batch for up to 100 items, 5 for up to 500, 20 for up to 2,000, then one per 100."""
    for most, batches in ((100, 1), (500, 5), (2000, 20)):
        if width <= most:
            return max(1, -(-width // batches))
    return 100


def batch_size(program: NodeProgram, width: int, scope: dict[str, Any]) -> int:
    """As the workflow says, or by the width of the fan-out."""
    batches = program.node.batches
    size = program.batch_size.render(scope) if program.batch_size is not None else AUTO
    if batches is None or size == AUTO:
        return automatic_size(width)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_ITEMS:
        shown = f"{size:,}" if isinstance(size, int) and not isinstance(size, bool) else kind_of(size)
        message = f"the size of a batch of {program.node.name} must be a whole number from 1 to {MAX_ITEMS:,}, or auto"
        raise TemplateError(f"{message}, not {shown}", expression=str(batches.size))
    return size


def batches_of(state: JobState, name: str, width: int) -> int:
    """How many batches a fan-in will have that begins now, if what their size is made of is known."""
    try:
        size = batch_size(state.program.nodes[name], width, state.scope)
    except TemplateError:
        return 0
    return -(-width // size)
