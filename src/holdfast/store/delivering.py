"""The locations of a job's deliverables, as far as they are known. Pure: the rows were read before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.define.definition import Definition
from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.node_program import ROOTS
from holdfast.define.template import Template, compile_template
from holdfast.errors import TemplateError


class Locations:
    """The locations of a definition's deliverables, by the deliverable's name."""

    def __init__(self, definition: Definition) -> None:
        declared = {node.deliverable.name: node.deliverable.location for node in definition.nodes if node.deliverable}
        self._templates = {name: _template(location) for name, location in declared.items()}
        paths = [path for template in self._templates.values() if template for path in template.paths]
        everything = any(path == ("nodes",) for path in paths)
        self.outputs = frozenset(
            node.name
            for node in definition.nodes
            if everything or any(path[:2] == ("nodes", node.name) and path[2:3] != ("status",) for path in paths)
        )
        """The nodes whose outputs they are made of."""

    def render(self, scope: Mapping[str, Any]) -> dict[str, str | None]:
        """A location that is not known yet or cannot be rendered is None: looking at a job must not fail."""
        return {name: _rendered(template, scope) for name, template in self._templates.items()}


def scope_of(job: Mapping[str, Any], inputs: Any, nodes: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """As templates see a job while it runs; each node with its status and its output."""
    seen = {name: {"status": status, "output": output} for name, status, output in nodes}
    return {"inputs": inputs, "input": inputs, "job": job, "nodes": seen}


def _template(location: str | None) -> Template | None:
    try:
        return compile_template(location, ROOTS, "location") if location is not None else None
    except ExpressionSyntaxError:
        # Another version wrote it.
        return None


def _rendered(template: Template | None, scope: Mapping[str, Any]) -> str | None:
    try:
        value = template.render(scope) if template is not None else None
    except TemplateError:
        return None
    return str(value).strip() or None if isinstance(value, str | int | float) else None
