"""A node made ready to run: its compiled templates and conditions."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.define.condition import Condition
from holdfast.define.node import Node, TaskSpec
from holdfast.define.parser import SECRETS
from holdfast.define.template import Template, compile_template

ROOTS = frozenset({"inputs", "input", "nodes", "job", "upstream"})
ITEM_ROOTS = ROOTS | {"item", "index"}
ONLY_IN_PARAMS = frozenset({SECRETS})
"""Nothing that is decided may depend on a secret: only workers know them."""
KEY_ROOTS = frozenset({"item"})
"""What an item is known by must not depend on its place, nor on anything that a correction changes."""


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """What a worker runs, with its compiled templates."""

    spec: TaskSpec
    params: Template
    limit_keys: tuple[Template | None, Template | None] = (None, None)
    """The keys of its concurrency and rate limits, for limits that are shared by a key."""
    compensation: TaskProgram | None = None
    """What undoes it. Its params are not rendered: they are those of the task, and its output."""


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A node with its compiled templates and conditions."""

    node: Node
    task: TaskProgram | None = None
    source: Template | None = None
    item_key: Template | None = None
    branches: tuple[tuple[Condition | None, tuple[str, ...]], ...] = ()
    batches: TaskProgram | None = None
    batch_size: Template | None = None
    has_items: bool = False
    """Whether it has many tasks, with item numbers from 0."""

    def task_of(self, item: int) -> TaskProgram:
        """What runs for an item or, for a number below 0, as the node's own task."""
        task = self.batches if self.batches is not None and item >= 0 else self.task
        assert task is not None, f"node {self.node.name} runs no handler"
        return task

    @property
    def items(self) -> TaskProgram:
        """What runs for each of its items; for a node without items, its own task."""
        return self.task_of(0)


def compile_task(task: TaskSpec, roots: frozenset[str], within: str = "") -> TaskProgram:
    concurrency, rate = (
        compile_template(limit.key, ROOTS, f"{within}{name}.key")
        if limit is not None and limit.key is not None
        else None
        for name, limit in (("concurrency", task.concurrency), ("rate", task.rate))
    )
    params = compile_template(task.params, roots | ONLY_IN_PARAMS, f"{within}params")
    compensation = compile_task(task.compensate, roots) if task.compensate is not None else None
    return TaskProgram(task, params, (concurrency, rate), compensation)
