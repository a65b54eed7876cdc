"""Everything that is special to a node type is in its own file of define/kinds."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import holdfast
from holdfast.define.kinds import KINDS
from holdfast.define.node import NodeType

SOURCE = Path(holdfast.__file__).parent
KIND_FOLDERS = ("define/kinds", "core/kinds")
"""Files here may name types."""
ALLOWED = {
    "define/node.py": "declares the types, and that a node is a task by default",
    "apps/flood/demo.py": "an app sees the JSON of a job, and no node",
}
"""At most five files outside the folders of the kinds, each with its reason."""

_TYPES = {str(one) for one in NodeType}


def named_types(path: Path) -> Iterator[int]:
    """The lines that name a type of NodeType, or compare a node's type with a text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id="NodeType")) | ast.Call(func=ast.Name(id="NodeType")):
                yield node.lineno
            case ast.Compare(left=left, comparators=comparators):
                sides = [left, *comparators]
                if any(_is_type_text(side) for side in sides) and any("type" in ast.unparse(side) for side in sides):
                    yield node.lineno
            case ast.Match(subject=subject, cases=cases) if "type" in ast.unparse(subject):
                yield from (
                    case.pattern.lineno
                    for case in cases
                    for part in ast.walk(case.pattern)
                    if isinstance(part, ast.MatchValue) and _is_type_text(part.value)
                )


def _is_type_text(side: ast.expr) -> bool:
    parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
    return any(isinstance(part, ast.Constant) and part.value in _TYPES for part in parts)


def test_every_type_has_a_kind() -> None:
    assert list(KINDS) == list(NodeType)
    assert all(kind.node_type is node_type for node_type, kind in KINDS.items())


def offences() -> list[str]:
    """Each place outside the folders of the kinds and the allowed files that names a type."""
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if file not in ALLOWED and not _is_in(file, KIND_FOLDERS):
            places += [f"{file}:{line}" for line in named_types(path)]
    return places


def _is_in(place: str, folders: Iterable[str]) -> bool:
    return any(place.startswith(f"{folder}/") for folder in folders)


def test_only_kinds_name_node_types() -> None:
    assert offences() == [], "ask the node's kind instead: holdfast.define.kinds.kind_of(node)"


def test_the_exceptions_are_few_and_needed() -> None:
    assert len(ALLOWED) <= 5
    assert [file for file in ALLOWED if not list(named_types(SOURCE / file))] == []


WAIT = """
from dataclasses import dataclass
from typing import Annotated, Literal

from holdfast.define.fields import Names, Seconds
from holdfast.define.kinds.kind import Kind
from holdfast.define.node import Node, NodeType
from holdfast.define.node_document import NodeDocument, any_case


class WaitDocument(NodeDocument):
    type: Annotated[Literal["wait"], *any_case("wait")]
    seconds: Seconds
    next: Names | None = None


@dataclass(frozen=True, slots=True)
class WaitNode(Node):
    seconds: float = 0.0


class Wait(Kind[WaitDocument]):
    node_type = NodeType.WAIT
    document = WaitDocument
    node = WaitNode
    accent = "#000000"

    def own_fields(self, document, defaults, path, report):
        return {"seconds": float(document.seconds)}

    def own_json(self, node):
        return {"seconds": node.seconds}

    def own_fields_from_json(self, data):
        return {"seconds": data["seconds"]}

    def details(self, node):
        return f"{node.seconds:g} s"
"""
USE_IT = """
from holdfast.define.definition import read_pinned
from holdfast.define.document import schema
from holdfast.define.drawing import draw_mermaid, draw_svg, draw_text
from holdfast.define.load import check_text, load_text
from holdfast.define.program import compile_definition

HEAD = "workflow_id: w\\nnodes:\\n  pause: {type: wait, next: after, seconds: 5}\\n  after: {handler: echo}\\n"
definition = load_text(HEAD)
assert definition.node("pause").seconds == 5.0
assert read_pinned(definition.canonical_bytes()) == definition
assert compile_definition(definition).graph.stage_number("pause") == 1
assert "wait         5 s" in draw_text(definition)
assert 'n1["pause"]' in draw_mermaid(definition) and "#000000" in draw_svg(definition)
assert "WaitDocument" in schema()["$defs"]
_, problems = check_text(HEAD.replace("seconds: 5", "handler: echo"))
print(*(problem.message for problem in problems), problems[1].suggestion, sep="\\n")
"""


def test_a_new_type_is_one_file_a_member_and_a_line(tmp_path: Path) -> None:
    package = tmp_path / "holdfast"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "apps", "core", "cli", "apps"))
    (package / "define" / "kinds" / "wait.py").write_text(WAIT)
    registry = package / "define" / "kinds" / "__init__.py"
    text = registry.read_text().replace("FanIn())", "FanIn(), Wait())")
    registry.write_text(text.replace("\n__all__", "from holdfast.define.kinds.wait import Wait\n\n__all__"))
    nodes = package / "define" / "node.py"
    nodes.write_text(nodes.read_text().replace('    FAN_IN = "fan_in"\n', '    FAN_IN = "fan_in"\n    WAIT = "wait"\n'))
    answer = subprocess.run(
        [sys.executable, "-c", USE_IT],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines() == [
        "The wait node 'pause' has no 'seconds'.",
        "The key 'handler' does not belong to a wait node.",
        "It belongs to: task, fan_in.",
    ]
