"""Loads workflow files: reads, checks and normalises them, and reports all mistakes at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from holdfast.define.definition import Definition
from holdfast.define.document import WorkflowDocument
from holdfast.define.explain import explain, source_path
from holdfast.define.known import Known, check_known
from holdfast.define.named_file import read_named_file, shown_name
from holdfast.define.normalise import normalise
from holdfast.define.references import check_templates
from holdfast.define.source import MAX_PROBLEMS, DefinitionText, Path, Report, Source, by_place, path_text
from holdfast.define.structure import check_graph, check_references
from holdfast.define.yaml import MAX_BYTES, read_yaml
from holdfast.errors import Detail, InvalidDefinition, NotFound


def load_file(path: FilePath | str, known_handlers: Collection[str] | None = None) -> Definition:
    """The definition in a YAML file. Raises InvalidDefinition with all its mistakes."""
    definition, problems = check_file(path, Known(known_handlers) if known_handlers is not None else None)
    return valid(definition, problems, f"in {path}")


def load_text(text: str, file: str | None = None, known_handlers: Collection[str] | None = None) -> Definition:
    """The definition in a YAML text. Raises InvalidDefinition with all its mistakes."""
    definition, problems = check_text(text, file, Known(known_handlers) if known_handlers is not None else None)
    return valid(definition, problems, f"in {file or 'the text'}")


def check_file(path: FilePath | str, known: Known | None = None) -> tuple[Definition | None, list[Detail]]:
    """Like check_text, for a file. Raises NotFound if the file does not exist."""
    return check_read(*read_file(path), known)


def check_text(
    text: str, file: str | None = None, known: Known | None = None
) -> tuple[Definition | None, list[Detail]]:
    """The definition, or None, and all mistakes in the order of the file.

    With `known`, these are mistakes too: an unknown handler, params that do not fit a handler, and a code that is
    neither known, nor one of the engine's, nor given by a rule of the file.
    """
    return check_read(*read_text(text, file), known)


def read_file(path: FilePath | str) -> tuple[Source | None, list[Detail]]:
    """The data of a file with their places, and what is wrong with its form. Raises NotFound if there is no file."""
    file = shown_name(path)
    try:
        content = read_named_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise NotFound(f"There is no file {file}.", instance=file) from None
    except OSError as error:
        return None, [Detail(f"The file cannot be read: {error.strerror}.", file=file)]
    if file.endswith(".py"):
        return None, [Detail("This is a Python file, not YAML.", file=file, suggestion="Import its Workflow instead.")]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(content) > MAX_BYTES:
            text = " " * len(content)
        else:
            return None, [_not_utf8(content, error, file)]
    return read_text(text, file)


def read_text(text: str, file: str | None = None) -> tuple[Source | None, list[Detail]]:
    """Like read_file, for a text."""
    source, problems = read_yaml(text, file, typed_keys=_may_have_typed_keys, has_key_on=_is_receiver)
    if source is None and _is_python(text):
        return None, [Detail("This is Python, not YAML.", file=file, suggestion="Its name must end with .py.")]
    if source is not None:
        source.text = DefinitionText("yaml", text, file and FilePath(file).name)
    return source, problems


def check_read(
    source: Source | None, problems: list[Detail], known: Known | None = None
) -> tuple[Definition | None, list[Detail]]:
    """Like check_text, for what read_file or read_text gave."""
    if source is None:
        return None, by_place(problems)
    places = {(problem.line, problem.column) for problem in problems}
    definition, more_problems = check_source(source, known)
    # A value that YAML refused is missing now: do not report its place a second time.
    problems = problems + [problem for problem in more_problems if (problem.line, problem.column) not in places]
    if problems or definition is None:
        return None, by_place(problems)
    return replace(definition, text=source.text), []


def check_source(source: Source, known: Known | None = None) -> tuple[Definition | None, list[Detail]]:
    """Like check_text, for data that was built in Python."""
    report = Report(source)
    document, broken = _document(source, report)
    if document is None:
        return None, report.problems
    inner = Report(source)
    definition = normalise(document, inner)
    # A broken piece has lost some of its keys, so further mistakes in it may be false alarms.
    is_broken = _within(broken)
    report.problems += [problem for problem in inner.problems if not is_broken(problem)]
    has_all_edges = check_references(document, source.data["nodes"], report)
    graph = check_graph(definition, has_all_edges and not broken, report)
    check_templates(document, definition, graph, report)
    if known is not None:
        unknown = check_known(definition, known, source)
        report.problems += [problem for problem in unknown if not is_broken(problem)]
    if report.problems:
        return None, report.problems
    return replace(definition, document=_written(source)), []


def _written(source: Source) -> dict[str, Any]:
    """The data as JSON can carry them: there, the version 1.10 would become 1.1."""
    numbers = source.numbers.get(("version",))
    return {**source.data, **({"version": numbers} if numbers is not None else {})}


def valid(definition: Definition | None, problems: list[Detail], name: str) -> Definition:
    """The definition, or InvalidDefinition with its mistakes. The name is like `in flow.yaml`, or the workflow's."""
    if definition is not None and not problems:
        return definition
    count = "an error" if len(problems) == 1 else f"{len(problems)} errors"
    raise InvalidDefinition(
        f"The workflow {name} has {count}.",
        errors=problems,
        remedy="Correct the listed mistakes, then check with: holdfast validate FILE",
    )


def _may_have_typed_keys(path: Path) -> bool:
    """`branches: {true: …, false: …}` is the only object whose keys may be booleans or numbers."""
    return len(path) == 3 and path[0] == "nodes" and path[2] == "branches"


def _is_receiver(path: Path) -> bool:
    """An entry of `notify`."""
    return len(path) == 2 and path[0] == "notify"


def _is_python(text: str) -> bool:
    """Whether a text that is not YAML is a Python program."""
    if not re.search(r"^(import|from|def|async def|@)\b", text, re.M) or len(text) > MAX_BYTES:
        return False
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _not_utf8(content: bytes, error: UnicodeDecodeError, file: str) -> Detail:
    before = content[: error.start]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode("utf-8", "replace")) + 1
    return Detail("The file is not UTF-8.", file=file, line=before.count(b"\n") + 1, column=column)


def _document(source: Source, report: Report) -> tuple[WorkflowDocument | None, set[Path]]:
    """The document without its broken keys, and the broken pieces."""
    data = source.data
    if not isinstance(data, dict):
        report.at_value((), "The file must be an object with the keys 'workflow_id' and 'nodes'.")
        return None, set()
    data = {**data, "version": source.numbers.get(("version",), data.get("version"))}
    errors = _shape_errors(data)
    if not errors:
        return WorkflowDocument.model_validate(data), set()
    report.problems += [explain(error, source) for error in errors[:MAX_PROBLEMS]]
    broken = {_piece(error) for error in errors}
    reduced = _copied(data)
    # Leave out only the broken keys, so that the rest of the node is still checked; if that fails, the whole node.
    for repair in (_leave_out, _leave_out, _drop):
        for error in errors:
            repair(reduced, error)
        errors = _shape_errors(reduced)
        if not errors:
            return WorkflowDocument.model_validate(reduced), broken
    return None, broken


def _shape_errors(data: dict[str, Any]) -> list[ErrorDetails]:
    try:
        WorkflowDocument.model_validate(data)
    except ValidationError as invalid:
        return invalid.errors(include_url=False)
    return []


def _piece(error: ErrorDetails) -> Path:
    """The node, the input, the breaker or the top-level key that an error lies in."""
    path = source_path(error["loc"])
    return path[:2] if path[0] in ("nodes", "inputs", "breakers") else path[:1]


def _leave_out(data: dict[str, Any], error: ErrorDetails) -> None:
    path = source_path(error["loc"])
    place = next((i for i, step in enumerate(path) if isinstance(step, int)), None)
    if path[-1] in ("[key]", "task") or error["type"].startswith("union_tag"):
        _drop(data, error)
    elif error["type"] == "missing" and place is None:
        holder = _object_at(data, path[:-1])
        holder[path[-1]] = "unknown"
    else:
        path = path[:place]
        _object_at(data, path[:-1]).pop(path[-1], None)


def _drop(data: dict[str, Any], error: ErrorDetails) -> None:
    piece = _piece(error)
    _object_at(data, piece[:-1]).pop(piece[-1], None)


def _object_at(data: dict[str, Any], path: Path) -> dict[str | int, Any]:
    """The object at the path; a new one if the path is gone."""
    current: Any = data
    for step in path:
        current = current.get(step) if isinstance(current, dict) else None
    return current if isinstance(current, dict) else {}


def _copied(value: Any) -> Any:
    """A copy of all objects; the other values are shared, because only objects are changed."""
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


def _within(pieces: set[Path]) -> Callable[[Detail], bool]:
    """A test whether a problem lies in one of the pieces. Fast: there may be thousands of both."""
    places = {path_text(piece) for piece in pieces}

    def is_within(problem: Detail) -> bool:
        place = problem.path or ""
        while place and place not in places:
            place = place.rpartition(".")[0]
        return bool(place)

    return is_within
