"""Reads the files that commands name: workflows, inputs, outputs. Everything wrong is refused before work starts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.define.definition import Definition
from holdfast.define.importing import PYTHON_SUFFIX
from holdfast.define.inputs import check_inputs, parse_assignments
from holdfast.define.named_file import read_named_file, read_up_to, shown_name
from holdfast.define.plain import parse_json
from holdfast.errors import Detail, InvalidDefinition, InvalidInput, NotFound
from holdfast.settings import load_settings

if TYPE_CHECKING:
    from holdfast.define.workflow_file import LoadedWorkflow

LARGEST_BYTES = 64 << 20
"""The most that is read of a file or stdin."""


def load_definition(path: Path) -> Definition:
    """The definition in a file of YAML or Python; a missing file is bad usage."""
    return load_named_workflow(path).definition


def load_named_workflow(path: Path, handlers: Sequence[str] = ()) -> LoadedWorkflow:
    """The same, with the module of a Python file, which may define handlers.

    `handlers` are the modules of the command; the advice after a refusal repeats them.
    """
    # Imported here, as in the functions below: most commands read no file, and start quickly without it.
    from holdfast.define.workflow_file import load_workflow

    try:
        with advising_check(path, handlers):
            return load_workflow(path)
    except NotFound:
        name = shown_name(path)
        raise InvalidInput(f"There is no file {name}.", instance=name) from None


@contextmanager
def advising_check(path: Path, handlers: Sequence[str]) -> Iterator[None]:
    """Inside, the refusal of a workflow file names the command that finds the same mistakes."""
    try:
        yield
    except InvalidDefinition as refused:
        words = ["holdfast validate", shlex.quote(shown_name(path))]
        words += [f"--handlers {shlex.quote(module)}" for module in handlers]
        refused.remedy = f"Correct the listed mistakes, then check with: {' '.join(words)}"
        raise


def read_inputs(
    definition: Definition, assignments: Sequence[str], file: Path | None, *, is_whole: bool = True
) -> dict[str, Any]:
    """The inputs of the file and of the flags, which win, checked against what the workflow declares.

    Inputs that are not `is_whole` are completed, and checked, later.
    """
    inputs = read_object(file) if file is not None else {}
    inputs |= parse_assignments(definition, assignments)
    if is_whole:
        check_inputs(definition, inputs)
    return inputs


def read_object(path: Path) -> dict[str, Any]:
    data = read_data(path, "inputs file")
    if not isinstance(data, dict):
        raise InvalidInput(f"The inputs file {_name(path)} must hold an object: a value for each name.")
    return data


def read_data(path: Path, what: str) -> Any:
    """The content of a JSON or YAML file; - is stdin."""
    name, limit = _name(path), _limit_bytes()
    if path.suffix == PYTHON_SUFFIX:
        raise InvalidInput(f"The {what} {name} is a Python file.", remedy="Name a file of JSON or YAML; - is stdin.")
    try:
        is_stdin = str(path) == "-"
        content = read_up_to(sys.stdin.buffer.read, limit) if is_stdin else read_named_file(path, limit)
        if len(content) > limit:
            raise InvalidInput(f"The {what} {name} is larger than {limit >> 20} MiB.")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise InvalidInput(f"There is no {what} {name}.", remedy="Name a file of JSON or YAML; - is stdin.") from None
    except OSError as error:
        raise InvalidInput(f"The {what} {name} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"The {what} {name} is not UTF-8.") from None
    if path.suffix in (".yaml", ".yml"):
        return _parse_yaml(text, name, what)
    try:
        return parse_json(text)
    except ValueError as error:
        from holdfast.define.yaml import MAX_BYTES

        # A stream has no suffix that says what it is: what is not JSON may be YAML.
        if path.suffix != ".json" and isinstance(error, JSONDecodeError) and len(text) <= MAX_BYTES:
            return _parse_yaml(text, name, what)
        raise InvalidInput(f"The {what} {name} is not JSON: {error}.") from None


def _name(path: Path) -> str:
    return "stdin" if str(path) == "-" else shown_name(path)


def _limit_bytes() -> int:
    """Values over the limit of payloads are refused later, with their size; a file may be larger than its value."""
    return max(LARGEST_BYTES, 2 * load_settings().payload_limit_bytes)


def _parse_yaml(text: str, name: str, what: str) -> Any:
    from holdfast.define.yaml import read_yaml

    source, problems = read_yaml(text, name)
    if source is None or problems:
        details: list[Detail] = problems
        raise InvalidInput(f"The {what} {name} cannot be read.", errors=details)
    return source.data
