"""Warnings for which the handlers must be known: their queues, their time limits, and what nothing uses."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.define.kinds import kind_of
from holdfast.define.node import TaskSpec
from holdfast.define.program import Program
from holdfast.define.registry import Handler
from holdfast.define.source import Path, Report, Source
from holdfast.errors import Detail


def handler_traps(program: Program, handlers: Mapping[str, Handler], source: Source) -> list[Detail]:
    """The warnings for a definition that has passed validation."""
    report, definition = Report(source), program.definition
    works = [(node.name, *work) for node in definition.nodes for work in kind_of(node).works(node)]
    for node, path, task in works:
        handler = handlers.get(task.handler)
        if handler is not None:
            _check_options(node, task, handler, path, report)
    used = [handlers.get(task.handler) for _, _, task in works]
    # A handler with a context can read every input and use every breaker.
    if all(one is not None and one.context_parameter is None for one in used):
        _check_use(program, {task.breaker for _, _, task in works}, report)
    return report.problems


def _check_options(node: str, task: TaskSpec, handler: Handler, path: Path, report: Report) -> None:
    written = report.source.at(path)
    if handler.queue is not None and handler.queue != task.queue:
        message = f"The handler {handler.name} declares the queue '{handler.queue}', but '{node}' uses '{task.queue}'."
        where = (*path, "queue") if "queue" in written else (*path, "handler")
        report.at_value(where, message, f"Write 'queue: {handler.queue}' here, or change the handler.")
    limit = handler.timeout_seconds
    if limit is not None and "timeout_seconds" in written and task.timeout_seconds > limit:
        message = f"The handler {handler.name} has a time limit of {limit:g} s itself, which is shorter and counts."
        report.at_value((*path, "timeout_seconds"), message, "Lower it, or raise the limit of the handler.")


def _check_use(program: Program, breakers: set[str | None], report: Report) -> None:
    definition, read = program.definition, program.paths_read()
    if not any(len(path) == 1 and path[0] in ("inputs", "input") for path in read):
        names = {path[1] for path in read if path[0] in ("inputs", "input")}
        for declared in definition.inputs:
            if declared.name not in names:
                message = f"Nothing uses the input '{declared.name}'."
                report.at_key(("inputs", declared.name), message, "Remove it, or use it in a template.")
    for rules in definition.breakers:
        if rules.name not in breakers:
            message = f"No node is behind the breaker '{rules.name}'."
            report.at_key(("breakers", rules.name), message, f"Give a node 'breaker: {rules.name}', or remove it.")
