"""A definition made ready to run: its graph, compiled templates and conditions. Built once, shared by its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from holdfast.define.condition import Condition, compile_condition
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.graph import Graph, build_graph
from holdfast.define.node import Node, NodeType, TaskSpec
from holdfast.define.template import Template, compile_template

ROOTS = frozenset({"inputs", "input", "nodes", "job", "upstream"})
ITEM_ROOTS = ROOTS | {"item", "index"}


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A node with everything of it that is evaluated at run time."""

    node: Node
    params: Template | None
    source: Template | None
    branches: tuple[tuple[Condition | None, tuple[str, ...]], ...]
    limit_keys: tuple[Template | None, Template | None] = (None, None)
    """The keys of its limits of concurrency and rate, where these are shared by a key."""

    @property
    def spec(self) -> TaskSpec:
        assert self.node.task is not None, f"node {self.node.name} runs no handler"
        return self.node.task


@dataclass(frozen=True, slots=True)
class Program:
    definition: Definition
    hash: str
    graph: Graph
    nodes: dict[str, NodeProgram]
    result: Template | None

    def breaker_of(self, name: str) -> str | None:
        """The breaker that the tasks of a node are behind."""
        task = self.nodes[name].node.task if name in self.nodes else None
        return task.breaker if task is not None else None


def compile_definition(definition: Definition) -> Program:
    """The program of a definition that has passed validation."""
    return Program(
        definition=definition,
        hash=definition.hash(),
        graph=build_graph(definition),
        nodes={node.name: _compile_node(node) for node in definition.nodes},
        result=compile_template(definition.result, ROOTS) if definition.has_result else None,
    )


@lru_cache(maxsize=256)
def compile_pinned(definition_hash: str, definition_json: bytes) -> Program:
    """The program of a definition as a job has pinned it; processes keep the ones that they saw last."""
    program = compile_definition(read_pinned(definition_json))
    assert program.hash == definition_hash, f"definition {definition_hash} was altered in the database"
    return program


def _compile_node(node: Node) -> NodeProgram:
    roots = ITEM_ROOTS if node.type is NodeType.FAN_OUT else ROOTS
    return NodeProgram(
        node=node,
        params=compile_template(node.task.params, roots) if node.task else None,
        source=compile_template(node.source, ROOTS) if node.source is not None else None,
        branches=tuple(
            (compile_condition(b.condition, ROOTS) if b.condition is not None else None, b.targets)
            for b in node.branches
        ),
        limit_keys=_limit_keys(node.task) if node.task is not None else (None, None),
    )


def _limit_keys(task: TaskSpec) -> tuple[Template | None, Template | None]:
    concurrency, rate = (
        compile_template(limit.key, ROOTS) if limit is not None and limit.key is not None else None
        for limit in (task.concurrency, task.rate)
    )
    return concurrency, rate
