"""A definition made ready to run: its graph, compiled templates and conditions. Built once, shared by its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from holdfast.define.condition import Condition
from holdfast.define.definition import Definition, read_pinned
from holdfast.define.expression import Path
from holdfast.define.graph import Graph, build_graph
from holdfast.define.kinds import kind_of
from holdfast.define.node import Importance, TaskSpec
from holdfast.define.node_program import ROOTS, NodeProgram
from holdfast.define.notify import NotifyRule
from holdfast.define.template import Template, compile_template

NOTIFY_ROOTS = frozenset({"inputs", "input", "job"})
"""What the address of a receiver may read: what is known before any node has ended."""


@dataclass(frozen=True, slots=True)
class Program:
    definition: Definition
    hash: str
    graph: Graph
    nodes: dict[str, NodeProgram]
    importances: dict[str, Importance]
    result: Template | None
    notify: tuple[tuple[NotifyRule, Template | None], ...] = ()
    """The rules of `notify`, each with the template of its address."""

    def spec_of(self, name: str, item: int) -> TaskSpec | None:
        """What runs as that task; None if the definition has no such task."""
        node = self.nodes.get(name)
        if node is None or (node.task is None and (node.batches is None or item < 0)):
            return None
        return node.task_of(item).spec

    def breaker_of(self, name: str, item: int) -> str | None:
        """The breaker that a task is behind."""
        spec = self.spec_of(name, item)
        return spec.breaker if spec is not None else None

    def paths_read(self) -> frozenset[Path]:
        """Everything that templates and conditions of the workflow read."""
        templates: list[Template | Condition | None] = [self.result]
        for name, node in self.nodes.items():
            deliverable = self.graph.nodes[name].deliverable
            if deliverable is not None and deliverable.location is not None:
                templates.append(compile_template(deliverable.location, ROOTS, "deliverable.location"))
            templates += [node.source, node.batch_size, *(condition for condition, _ in node.branches)]
            for task in (node.task, node.batches):
                templates += [task.params, *task.limit_keys] if task is not None else []
        templates += [address for _, address in self.notify]
        return frozenset().union(*(one.paths for one in templates if one is not None))


def compile_definition(definition: Definition) -> Program:
    """Compiles a definition that has passed validation."""
    return Program(
        definition=definition,
        hash=definition.hash(),
        graph=build_graph(definition),
        nodes={node.name: kind_of(node).compile(node) for node in definition.nodes},
        importances={node.name: node.importance for node in definition.nodes},
        result=compile_template(definition.result, ROOTS, "result") if definition.has_result else None,
        notify=tuple((rule, _address(rule)) for rule in definition.notify),
    )


def _address(rule: NotifyRule) -> Template | None:
    return compile_template(rule.email, NOTIFY_ROOTS, "notify.email") if rule.email is not None else None


@lru_cache(maxsize=256)
def compile_pinned(definition_hash: str, definition_json: bytes) -> Program:
    """The program of a pinned definition. The latest ones stay in memory."""
    program = compile_definition(read_pinned(definition_json))
    assert program.hash == definition_hash, f"definition {definition_hash} was altered in the database"
    return program
