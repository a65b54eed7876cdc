"""Files with workflows: YAML, or Python with a `Workflow`. `flow.py:NAME` names one of several in a Python file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from holdfast.define.definition import Definition
from holdfast.define.fitting import unfit
from holdfast.define.handler_traps import handler_traps
from holdfast.define.importing import import_file
from holdfast.define.known import Known
from holdfast.define.load import check_read, read_file, valid
from holdfast.define.named_file import read_named_file, shown_name
from holdfast.define.program import compile_definition
from holdfast.define.registry import Registry
from holdfast.define.source import DefinitionText, Source, by_place, did_you_mean
from holdfast.define.traps import traps
from holdfast.define.workflow import Workflow
from holdfast.define.yaml import MAX_BYTES
from holdfast.errors import Detail, InvalidInput

_PYTHON = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^/]*))?", re.S)


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """The definition in a file. A Python file also has a module, which may define handlers."""

    definition: Definition
    source: Source
    """The data of the file, with their places if it is YAML."""
    module: ModuleType | None = None

    def add_handlers_to(self, registry: Registry) -> bool:
        """Add the handlers of the module; returns whether the registry had lacked one."""
        before = len(registry.names)
        if self.module is not None:
            registry.add_module(self.module)
            registry.modules.append(self.module.__name__)
        return len(registry.names) > before

    def refuse_unfit(self, registry: Registry) -> None:
        """Raises InvalidDefinition if the params of a task do not fit the handler that the registry has for it."""
        refuse_unfit(self.definition, registry, self.source)


def refuse_unfit(definition: Definition, registry: Registry, source: Source | None = None) -> None:
    """Like LoadedWorkflow.refuse_unfit; without a source, the mistakes have no places."""
    problems = unfit(definition, {one.name: one for one in registry}, source or Source({}))
    file = source.file if source is not None else None
    valid(definition, by_place(problems), f"in {file}" if file is not None else definition.workflow_id)


def is_python(path: Path | str) -> bool:
    """Whether the name is that of a Python file, or of a workflow in one."""
    return _PYTHON.fullmatch(str(path)) is not None


def python_file(path: Path | str) -> str:
    """The file of `flow.py:NAME`."""
    match = _PYTHON.fullmatch(str(path))
    return match["file"] if match is not None else str(path)


def load_workflow(path: Path | str) -> LoadedWorkflow:
    """The workflow in a file. Raises InvalidDefinition with all its mistakes, or NotFound if there is no file."""
    source, problems, module = _read(path)
    definition, problems = check_read(source, problems)
    definition = valid(definition, problems, f"in {shown_name(path)}")
    assert source is not None
    return LoadedWorkflow(definition, source, module)


class Checked(NamedTuple):
    """The definition, or None, all mistakes in its file, and its warnings."""

    definition: Definition | None
    problems: list[Detail]
    warnings: list[Detail]


def check_workflow(path: Path | str, known: Registry | None) -> Checked:
    """Checks a file. With `known`, what its handlers and codes rule out is a mistake too."""
    source, problems, module = _read(path)
    if known is not None and module is not None:
        # A copy: the handlers of this file are not there for other files.
        others, known = known, Registry(known)
        known.codes = dict(others.codes)
        known.add_module(module)
    facts = Known.of(known) if known is not None else None
    definition, problems = check_read(source, problems, facts)
    if definition is None or source is None:
        return Checked(None, problems, [])
    program = compile_definition(definition)
    warnings = traps(program, source)
    if facts is not None:
        warnings += handler_traps(program, facts.signatures, source)
    return Checked(definition, problems, by_place(warnings))


def _read(path: Path | str) -> tuple[Source | None, list[Detail], ModuleType | None]:
    """What the file contains, what is wrong with its form, and the module of a Python file."""
    if not is_python(path):
        return *read_file(path), None
    workflow, module = _workflow_in(path)
    source, problems = workflow.read()
    name = shown_name(path)
    if source is not None:
        source.file = name
        source.text = _text_of(python_file(path))
    return source, [replace(problem, file=name) for problem in problems], module


def _text_of(file: str) -> DefinitionText | None:
    """The text of a Python file; what it imports is not in it."""
    try:
        content = read_named_file(file, MAX_BYTES)
        return DefinitionText("python", content.decode(), Path(file).name) if len(content) <= MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def _workflow_in(path: Path | str) -> tuple[Workflow, ModuleType]:
    match = _PYTHON.fullmatch(str(path))
    assert match is not None
    module, file, name = import_file(Path.cwd() / match["file"]), shown_name(match["file"]), match["name"]
    workflows = {key: one for key, one in vars(module).items() if isinstance(one, Workflow)}
    different = {id(one): key for key, one in workflows.items()}
    if not workflows:
        raise InvalidInput(
            f"The file {file} defines no workflow.",
            remedy="Assign a Workflow to a variable of the file, or decorate a function with @workflow('id').",
        )
    if name:
        chosen = workflows.get(name) or next((one for one in workflows.values() if one.workflow_id == name), None)
        if chosen is None:
            raise InvalidInput(
                f"The file {file} defines no workflow '{name}'. It defines {_listed(workflows)}.",
                remedy=did_you_mean(name, workflows),
            )
        return chosen, module
    if len(different) > 1:
        raise InvalidInput(
            f"The file {file} defines several workflows: {_listed(different.values())}.",
            remedy=f"Name one of them: {file}:{next(iter(different.values()))}",
        )
    return next(iter(workflows.values())), module


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
