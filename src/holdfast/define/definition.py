"""The normalised workflow that a job pins: one model behind YAML and Python, with one hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from holdfast.define.gates import BreakerRules
from holdfast.define.kinds import node_from_json, node_to_json
from holdfast.define.node import Node
from holdfast.define.notify import NotifyRule
from holdfast.define.source import DefinitionText
from holdfast.define.timing import FileSchedule
from holdfast.errors import Refused
from holdfast.version import __version__

UNREADABLE_REMEDY = (
    "Another version wrote it. Use that version or a newer one. This lists the versions that serve this database:"
    " holdfast status --json"
)


class InputType(StrEnum):
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    OBJECT = "object"
    ANY = "any"


class OnFailure(StrEnum):
    """What a job does by itself when it has failed: keep what is done, for a resume, or undo it."""

    KEEP = "keep"
    COMPENSATE = "compensate"


@dataclass(frozen=True, slots=True)
class Input:
    """One declared input. `has_default` distinguishes a default of null from no default."""

    name: str
    type: InputType = InputType.ANY
    required: bool = False
    has_default: bool = False
    default: Any = None
    description: str = ""
    pattern: str | None = None
    enum: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": str(self.type),
            "required": self.required,
            "has_default": self.has_default,
            "default": self.default,
            "description": self.description,
            "pattern": self.pattern,
            "enum": list(self.enum) if self.enum is not None else None,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "min_length": self.min_length,
            "max_length": self.max_length,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Input:
        enum = tuple(data["enum"]) if data["enum"] is not None else None
        return cls(**{**data, "type": InputType(data["type"]), "enum": enum})


@dataclass(frozen=True, slots=True)
class Definition:
    """A workflow with every default filled in. Nodes keep the order of the file."""

    workflow_id: str
    version: str = "1"
    name: str = ""
    description: str = ""
    inputs: tuple[Input, ...] = ()
    nodes: tuple[Node, ...] = ()
    timeout_seconds: float | None = None
    result: Any = None
    has_result: bool = False
    breakers: tuple[BreakerRules, ...] = ()
    on_failure: OnFailure = OnFailure.KEEP
    notify: tuple[NotifyRule, ...] = ()
    timeout_is_default: bool = field(default=False, compare=False)
    """Whether the timeout is a default of the installation, and not the author's."""
    text: DefinitionText | None = field(default=None, compare=False, repr=False)
    """No part of the definition: what it was read from, if it was read."""
    document: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    """No part of it either: what was written, before every default was filled in; None if it was read from a store."""
    schedule: FileSchedule | None = field(default=None, compare=False, repr=False)
    """No part of it either: when its jobs start by the clock. Only a registration of the document applies it."""
    _canonical: list[bytes] = field(default_factory=list, init=False, compare=False, repr=False)
    """Its canonical form, computed at the first use: many jobs share a definition."""
    _hash: list[str] = field(default_factory=list, init=False, compare=False, repr=False)
    """The hash of that form, likewise."""

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Leaves out unused keys of later versions, so that upgrades do not change a definition's hash."""
        later: dict[str, Any] = {"breakers": [b.to_json() for b in self.breakers]} if self.breakers else {}
        stated = {b.name: sorted(b.stated) for b in self.breakers if b.stated != b.differing}
        if stated:
            later["stated_of_breakers"] = stated
        if self.timeout_is_default:
            later["timeout_is_default"] = True
        if self.on_failure is not OnFailure.KEEP:
            later["on_failure"] = str(self.on_failure)
        if self.notify:
            later["notify"] = [rule.to_json() for rule in self.notify]
        return later | {
            "workflow_id": self.workflow_id,
            "version": self.version,
            "name": self.name,
            "description": self.description,
            "inputs": [i.to_json() for i in self.inputs],
            "nodes": [node_to_json(n) for n in self.nodes],
            "timeout_seconds": self.timeout_seconds,
            "result": self.result,
            "has_result": self.has_result,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Definition:
        return cls(
            workflow_id=data["workflow_id"],
            version=data["version"],
            name=data["name"],
            description=data["description"],
            inputs=tuple(Input.from_json(i) for i in data["inputs"]),
            nodes=tuple(node_from_json(n) for n in data["nodes"]),
            timeout_seconds=data["timeout_seconds"],
            result=data["result"],
            has_result=data["has_result"],
            breakers=_breakers(data.get("breakers", ()), data.get("stated_of_breakers", {})),
            on_failure=OnFailure(data.get("on_failure", OnFailure.KEEP)),
            notify=tuple(NotifyRule.from_json(rule) for rule in data.get("notify", ())),
            timeout_is_default=data.get("timeout_is_default", False),
        )

    def canonical_bytes(self) -> bytes:
        if not self._canonical:
            self._canonical.append(orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS))
        return self._canonical[0]

    def hash(self) -> str:
        """The same for every spelling of the same workflow, whichever language it was written in."""
        if not self._hash:
            self._hash.append(hashlib.sha256(self.canonical_bytes()).hexdigest())
        return self._hash[0]


def _breakers(stored: Iterable[dict[str, Any]], stated: Mapping[str, list[str]]) -> tuple[BreakerRules, ...]:
    rules = (BreakerRules.from_json(one) for one in stored)
    return tuple(replace(one, given=frozenset(stated[one.name])) if one.name in stated else one for one in rules)


def read_pinned(definition_json: bytes | str) -> Definition:
    """A stored definition. Raises Refused if another version wrote it in a form that this one cannot read."""
    try:
        return Definition.from_json(orjson.loads(definition_json))
    except (LookupError, TypeError, ValueError, AttributeError) as problem:
        raise Refused(
            f"The definition cannot be read by Holdfast {__version__}: {type(problem).__name__}: {problem}.",
            remedy=UNREADABLE_REMEDY,
        ) from problem
