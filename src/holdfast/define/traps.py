"""What has no effect in a valid workflow, or what its author hardly means: warnings, each certain from the file.

`handler_traps.py` has those for which the handlers must be known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

from holdfast.define.definition import Definition, Input, InputType, OnFailure
from holdfast.define.graph import Graph
from holdfast.define.kinds import kind_of
from holdfast.define.node import Importance, Node, OnItemFailure, TaskSpec
from holdfast.define.node_program import NodeProgram
from holdfast.define.plain import shortened
from holdfast.define.program import Program
from holdfast.define.source import Path, Report, Source
from holdfast.errors import Detail, TemplateError, cut

_ONE_INPUT = re.compile(r"\{\{\s*inputs?\.(\w+)\s*\}\}")
_WHOLE_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?![\w.])")
MAX_TRIED = 300
"""How many branches and values of a conditional are tried. A hostile file could have thousands of both."""
_RETRIES = ("max_retries", "max_attempts")


def traps(program: Program, source: Source) -> list[Detail]:
    """The warnings for a definition that has passed validation; `source` is the file that it comes from."""
    report, definition, read = Report(source), program.definition, program.paths_read()
    causes = _important_above(program.graph)
    _retries(definition, report)
    _on_failure(definition, report)
    for node in definition.nodes:
        path: Path = ("nodes", node.name)
        _tolerance(node, program, read, path, report)
        _importance(node, causes.get(node.name), path, report)
        _branches(node, program.nodes[node.name], definition.inputs, path, report)
        for place, task in kind_of(node).works(node):
            _timeout(task, definition, place, report)
        if node.batches is not None and node.batches.size == 1:
            message = "A batch of one item is a task for each item, as in the fan-out."
            report.at_value((*path, "batch", "size"), message, "Give a larger size, or leave it out.")
    return report.problems


def _on_failure(definition: Definition, report: Report) -> None:
    if definition.on_failure is not OnFailure.COMPENSATE:
        return
    if any(task.compensate for node in definition.nodes for task in node.tasks):
        message = "A job that fails undoes what it has completed: a resume then runs all of that again."
        report.at_value(("on_failure",), message, "Leave the key out to keep finished work for a resume.")
    else:
        message = "A job that fails has nothing to undo: no node has 'compensate'."
        report.at_value(("on_failure",), message, "Give nodes a 'compensate', or leave the key out.")


def _tolerance(node: Node, program: Program, read: AbstractSet[Path], path: Path, report: Report) -> None:
    written = report.source.at(path).get("tolerate")
    if not isinstance(written, dict):
        return
    path, tolerate = (*path, "tolerate"), node.tolerate
    width = _largest_width(node, program)
    share = f"{tolerate.percent:g}%" if tolerate.percent is not None else "0"
    counts_as = "counts_as" in written
    if node.importance is Importance.OPTIONAL and (counts_as or _only_names_the_end(node, read)):
        key = "counts_as" if counts_as else "tolerate"
        message = f"'{key}' has no effect on how the job ends: the fan-out '{node.name}' is optional."
        where = (*path, "counts_as") if counts_as else path
        report.at_key(where, message, f"Remove '{key}', or give the node 'importance: important'.")
    elif tolerate.percent and width and not tolerate.allows(1, width):
        items = "1 item" if width == 1 else f"{width} items"
        message = f"{share} of at most {items} is less than one item: no failure is tolerated."
        report.at_value((*path, "failures"), message, "Give a number of items, such as 1, or a larger share.")
    elif counts_as and not tolerate.failures and not tolerate.percent:
        message = "'counts_as' has no effect: no failure is tolerated."
        report.at_key((*path, "counts_as"), message, "Give 'failures' a number above 0, or remove the key.")


def _only_names_the_end(node: Node, read: AbstractSet[Path]) -> bool:
    """Whether a tolerance decides nothing but how the node is called: it stops no items, and no text reads the node."""
    is_read = any(path[:2] == ("nodes", node.name) or path[0] == "upstream" or len(path) == 1 for path in read)
    return node.on_item_failure is OnItemFailure.FINISH and not is_read


def _largest_width(node: Node, program: Program) -> int | None:
    """How many items a fan-out can have at most, if the file says so: by a literal, or by the bound of an input."""
    template = program.nodes[node.name].source
    if template is None:
        return None
    if not template.roots:
        try:
            items = template.render({})
        except TemplateError:
            return None
        return len(items) if isinstance(items, list) else None
    match = _ONE_INPUT.fullmatch(node.source or "")
    declared = next((one for one in program.definition.inputs if match and one.name == match[1]), None)
    return declared.max_length if declared is not None and declared.type is InputType.ARRAY else None


def _important_above(graph: Graph) -> dict[str, str]:
    """The important node that a node waits for, directly or through others, if there is one."""
    found: dict[str, str] = {}
    for name in graph.order:
        for source in graph.all_of[name]:
            is_important = graph.nodes[source].importance is Importance.IMPORTANT
            if (cause := source if is_important else found.get(source)) is not None:
                found.setdefault(name, cause)
    return found


def _importance(node: Node, cause: str | None, path: Path, report: Report) -> None:
    """A consequence counts as its cause: what waits for an important node cannot make the job fail by not running."""
    if cause is None or report.source.at(path).get("importance") != Importance.CRITICAL:
        return
    message = (
        f"The node '{node.name}' is critical, but it waits for '{cause}', which is important: "
        f"if '{cause}' fails, '{node.name}' does not run, and the job ends partial, not failed."
    )
    report.at_value((*path, "importance"), message, f"Give '{cause}' 'importance: critical', or remove this one.")


def _retries(definition: Definition, report: Report) -> None:
    works = [work for node in definition.nodes for work in kind_of(node).works(node)]
    places = {(*path, "retry"): task.retry.max_retries for path, task in works}
    if works:
        # A node may take the workflow's retry_on and have retries of its own.
        places[("retry",)] = max(places.values())
    for path, most in places.items():
        written = report.source.at(path)
        idle = [key for key in written if key not in _RETRIES]
        if most == 0 and idle:
            message = f"'{idle[0]}' has no effect: with 'max_retries: 0' nothing is tried again."
            report.at_key((*path, idle[0]), message, "Remove the key, or allow retries.")


def _timeout(task: TaskSpec, definition: Definition, path: Path, report: Report) -> None:
    whole = definition.timeout_seconds
    if whole is not None and "timeout_seconds" in report.source.at(path) and task.timeout_seconds > whole:
        own = f"'timeout_seconds' of {task.timeout_seconds:g} s"
        message = f"{own} has no effect: the job's timeout of {whole:g} s ends first."
        report.at_value((*path, "timeout_seconds"), message, "Lower it, or raise the timeout of the job.")


def _branches(node: Node, program: NodeProgram, inputs: tuple[Input, ...], path: Path, report: Report) -> None:
    conditions = [branch.condition for branch in node.branches]
    seen: set[str | None] = {None}
    for index, condition in enumerate(conditions):
        if condition in seen and condition is not None:
            message = f"The branch is never taken: an earlier one has the same condition, {cut(condition)}."
            report.at_value((*path, "branches", index), message, "Correct one of the conditions.")
        seen.add(condition)
    if None in conditions or not 0 < len(conditions) <= MAX_TRIED:
        return
    paths = {read for condition, _ in program.branches if condition is not None for read in condition.paths}
    if len(paths) != 1:
        return
    tested = paths.pop()
    for value in islice(_possible_values(program, tested, inputs), MAX_TRIED):
        if not _is_taken(program, tested, value):
            message = f"No branch is taken for the value {shortened(value)}: the job would fail."
            report.at_key((*path, "branches"), message, "Add a default branch.")
            return


def _possible_values(program: NodeProgram, tested: Path, inputs: tuple[Input, ...]) -> Iterator[Any]:
    """Values that the conditions may meet: those that an input allows, or whole numbers around the compared ones."""
    of_input = len(tested) == 2 and tested[0] in ("inputs", "input")
    declared = next((one for one in inputs if of_input and one.name == tested[1]), None)
    if declared is not None and declared.enum is not None:
        yield from declared.enum
    elif declared is not None and declared.type is InputType.BOOLEAN:
        yield from (True, False)
    elif declared is None or declared.type in (InputType.INTEGER, InputType.NUMBER):
        text = " ".join(condition.text for condition, _ in program.branches if condition is not None)
        numbers = {int(one) for one in _WHOLE_NUMBER.findall(text)} if re.search("[<>]", text) else set()
        low = declared.minimum if declared is not None else None
        high = declared.maximum if declared is not None else None
        for number in sorted({near for one in numbers for near in (one - 1, one, one + 1)}):
            if (low is None or number >= low) and (high is None or number <= high):
                yield number


def _is_taken(program: NodeProgram, tested: Path, value: Any) -> bool:
    """Whether a branch is taken for the value. What cannot be evaluated proves nothing."""
    scope: Any = value
    for step in reversed(tested):
        scope = {step: scope}
    try:
        return any(condition is None or condition.evaluate(scope) for condition, _ in program.branches)
    except TemplateError:
        return True
