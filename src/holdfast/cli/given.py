"""What a command was given: workflow files, inputs and handlers; everything wrong is refused before work begins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.define.definition import Definition
from holdfast.define.inputs import check_inputs, parse_assignments
from holdfast.define.load import check_file, valid
from holdfast.define.plain import parse_json
from holdfast.define.yaml import read_yaml
from holdfast.errors import Detail, InvalidInput, NotFound


def load_definition(path: Path) -> Definition:
    """The definition in a file; a file that is not there is bad usage."""
    try:
        definition, problems = check_file(path)
    except NotFound:
        raise InvalidInput(f"There is no file {path}.", instance=str(path)) from None
    return valid(definition, problems, str(path))


def read_inputs(definition: Definition, assignments: Sequence[str], file: Path | None) -> dict[str, Any]:
    """The inputs of the file with those of the flags on top, checked against the workflow's own."""
    given = _read_file(file) if file is not None else {}
    given |= parse_assignments(definition, assignments)
    check_inputs(definition, given)
    return given


def _read_file(path: Path) -> dict[str, Any]:
    data = read_data(path, "inputs file")
    if not isinstance(data, dict):
        raise InvalidInput(f"The inputs file {_name(path)} must hold an object, a value for each name.")
    return data


def read_data(path: Path, what: str) -> Any:
    """What a file of JSON or YAML holds; - is stdin."""
    name = _name(path)
    try:
        text = sys.stdin.read() if name == "stdin" else path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InvalidInput(f"There is no {what} {name}.", remedy="Name a file of JSON or YAML; - is stdin.") from None
    except OSError as error:
        raise InvalidInput(f"The {what} {name} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"The {what} {name} is not UTF-8.") from None
    return _parse_json(text, name, what) if path.suffix == ".json" else _parse_yaml(text, name, what)


def _name(path: Path) -> str:
    return "stdin" if str(path) == "-" else str(path)


def _parse_json(text: str, name: str, what: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidInput(f"The {what} {name} is not JSON: {error}.") from None


def _parse_yaml(text: str, name: str, what: str) -> Any:
    source, problems = read_yaml(text, name)
    if source is None or problems:
        details: list[Detail] = problems
        raise InvalidInput(f"The {what} {name} cannot be read.", errors=details)
    return source.data


def handlers_of(definition: Definition) -> dict[str, list[str]]:
    """The handlers that a workflow needs, with the queues that their tasks go to."""
    needed: dict[str, list[str]] = {}
    for task in (task for node in definition.nodes for task in node.tasks):
        queues = needed.setdefault(task.handler, [])
        if task.queue not in queues:
            queues.append(task.queue)
    return needed
