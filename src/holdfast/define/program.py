"""A definition made ready to run: its graph, compiled templates and conditions. Built once, shared by its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from holdfast.define.condition import Condition, compile_condition
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.graph import Graph, build_graph
from holdfast.define.node import AUTO, Importance, Node, NodeType, TaskSpec
from holdfast.define.template import Template, compile_template

ROOTS = frozenset({"inputs", "input", "nodes", "job", "upstream"})
ITEM_ROOTS = ROOTS | {"item", "index"}


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """What a worker is asked to run, with everything of it that is evaluated at run time."""

    spec: TaskSpec
    params: Template
    limit_keys: tuple[Template | None, Template | None] = (None, None)
    """The keys of its limits of concurrency and rate, where these are shared by a key."""


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A node with everything of it that is evaluated at run time."""

    node: Node
    task: TaskProgram | None
    source: Template | None
    branches: tuple[tuple[Condition | None, tuple[str, ...]], ...]
    batches: TaskProgram | None = None
    batch_size: Template | None = None

    @property
    def has_items(self) -> bool:
        """Whether it has many tasks, by number."""
        return self.node.type is NodeType.FAN_OUT or self.batches is not None

    def task_of(self, item: int) -> TaskProgram:
        """What runs for an item, or as the node's own task, which is below all items."""
        found = self.batches if self.batches is not None and item >= 0 else self.task
        assert found is not None, f"node {self.node.name} runs no handler"
        return found

    @property
    def items(self) -> TaskProgram:
        """What runs for each of its items; where it has none, its own task."""
        return self.task_of(0)


@dataclass(frozen=True, slots=True)
class Program:
    definition: Definition
    hash: str
    graph: Graph
    nodes: dict[str, NodeProgram]
    importances: dict[str, Importance]
    result: Template | None

    def spec_of(self, name: str, item: int) -> TaskSpec | None:
        """What runs as that task; None where the definition knows of none."""
        node = self.nodes.get(name)
        if node is None or (node.task is None and (node.batches is None or item < 0)):
            return None
        return node.task_of(item).spec

    def breaker_of(self, name: str, item: int) -> str | None:
        """The breaker that a task is behind."""
        spec = self.spec_of(name, item)
        return spec.breaker if spec is not None else None


def compile_definition(definition: Definition) -> Program:
    """The program of a definition that has passed validation."""
    return Program(
        definition=definition,
        hash=definition.hash(),
        graph=build_graph(definition),
        nodes={node.name: _compile_node(node) for node in definition.nodes},
        importances={node.name: node.importance for node in definition.nodes},
        result=compile_template(definition.result, ROOTS, "result") if definition.has_result else None,
    )


@lru_cache(maxsize=256)
def compile_pinned(definition_hash: str, definition_json: bytes) -> Program:
    """The program of a definition as a job has pinned it; processes keep the ones that they saw last."""
    program = compile_definition(read_pinned(definition_json))
    assert program.hash == definition_hash, f"definition {definition_hash} was altered in the database"
    return program


def _compile_node(node: Node) -> NodeProgram:
    roots = ITEM_ROOTS if node.type is NodeType.FAN_OUT else ROOTS
    batches = node.batches
    return NodeProgram(
        node=node,
        task=_compile_task(node.task, roots) if node.task is not None else None,
        source=compile_template(node.source, ROOTS, "source") if node.source is not None else None,
        branches=tuple(
            (compile_condition(b.condition, ROOTS) if b.condition is not None else None, b.targets)
            for b in node.branches
        ),
        batches=_compile_task(batches.task, ITEM_ROOTS, "batch.") if batches is not None else None,
        batch_size=compile_template(batches.size, ROOTS, "batch.size")
        if batches is not None and batches.size != AUTO
        else None,
    )


def _compile_task(task: TaskSpec, roots: frozenset[str], within: str = "") -> TaskProgram:
    concurrency, rate = (
        compile_template(limit.key, ROOTS, f"{within}{name}.key")
        if limit is not None and limit.key is not None
        else None
        for name, limit in (("concurrency", task.concurrency), ("rate", task.rate))
    )
    return TaskProgram(task, compile_template(task.params, roots, f"{within}params"), (concurrency, rate))
