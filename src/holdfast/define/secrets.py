"""Where the params of a workflow's tasks have secrets, and how their values get there.

A param keeps the reference `{{ secrets.NAME }}` until a worker runs its handler. The worker replaces a reference only
where the workflow itself has it: text that came as an input, an item or an output is data and never becomes a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.node_program import ITEM_ROOTS, ONLY_IN_PARAMS
from holdfast.define.parser import SECRETS
from holdfast.define.source import Path, path_text
from holdfast.define.template import secrets_in

_ROOTS = ITEM_ROOTS | ONLY_IN_PARAMS
_BEGINNING = f"{{{{ {SECRETS}.".encode()
_REFERENCE = re.compile(rf"\{{\{{ {SECRETS}\.([A-Za-z0-9_]+) \}}\}}")


class AmbiguousSecret(Exception):
    """A value that a text inserted looks like a reference to a secret."""


def may_have_secrets(params: Any, params_ref: str | None = None) -> bool:
    """Whether params hold text like a reference to a secret. This is asked for every task, so it must be quick.

    Params that are stored elsewhere may have anything.
    """
    return params_ref is not None or _BEGINNING in orjson.dumps(params)


class SecretParams:
    """The references in the params of one task: each place that has some, with their names in order."""

    def __init__(self, places: Iterable[tuple[Path, tuple[str, ...]]]) -> None:
        self.places = tuple(places)

    def __bool__(self) -> bool:
        return bool(self.places)

    @property
    def names(self) -> list[str]:
        return sorted({name for _, names in self.places for name in names})

    def filled(self, params: Any, values: Mapping[str, str]) -> Any:
        """The params with values instead of references. What was given another value by hand keeps that."""
        for path, names in self.places:
            params = _filled(params, path, path, names, values)
        return params


class Secrets:
    """The references in a pinned definition. Ignores all other keys, which another version may have written."""

    def __init__(self, definition_json: bytes | str) -> None:
        nodes = orjson.loads(definition_json)["nodes"]
        self._own = {node["name"]: _of_task(node["task"]) for node in nodes}
        self._of_items = self._own | {
            node["name"]: _of_task(node["batches"]["task"]) for node in nodes if "batches" in node
        }

    def of(self, node: str, item: int) -> SecretParams | None:
        """Those of an item or, below 0, of the node's own task."""
        return (self._of_items if item >= 0 else self._own).get(node) or None


def _of_task(task: dict[str, Any] | None) -> SecretParams:
    return secrets_of((task or {}).get("params"))


def secrets_of(params: Any) -> SecretParams:
    """The references in the params as the workflow has them."""
    return SecretParams(_places(params, ()))


def _places(value: Any, path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _places(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _places(child, (*path, index))
    elif isinstance(value, str) and SECRETS in value:
        try:
            names = secrets_in(value, _ROOTS)
        except ExpressionSyntaxError:
            # Another version of Holdfast accepted it.
            return
        if names:
            yield path, names


def _filled(value: Any, rest: Path, path: Path, names: tuple[str, ...], values: Mapping[str, str]) -> Any:
    """A copy of the value with the text at the end of the path filled in."""
    if not rest:
        return _with_values(value, path, names, values) if isinstance(value, str) else value
    key = rest[0]
    if isinstance(value, dict) and key in value:
        return {**value, key: _filled(value[key], rest[1:], path, names, values)}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return [*value[:key], _filled(value[key], rest[1:], path, names, values), *value[key + 1 :]]
    return value


def _with_values(text: str, path: Path, names: tuple[str, ...], values: Mapping[str, str]) -> str:
    """References cannot overlap, so as many as the workflow has are those of the workflow."""
    found = tuple(_REFERENCE.findall(text))
    if not found:
        return text
    if found != names:
        raise AmbiguousSecret(
            f"params.{path_text(path)} refers to the secrets {', '.join(found)}, but the workflow names only"
            f" {', '.join(names)} there: a value that the text inserts looks like a reference"
        )
    return _REFERENCE.sub(lambda reference: values[reference[1]], text)
