"""How two definitions of one workflow differ, in words. Names, descriptions, versions and defaults do not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.define.defaults import as_written
from holdfast.define.definition import Definition

SHOWN = 5


def differences(before: Definition, after: Definition) -> list[str]:
    """What behaves in another way, part by part; empty if nothing does."""
    return list(_differences(as_written(before).to_json(), as_written(after).to_json()))


def shown(changes: list[str]) -> str:
    """The first differences, and how many more there are."""
    more = len(changes) - SHOWN
    return "; ".join([*changes[:SHOWN], *([f"{more} more" if more > 1 else changes[SHOWN]] if more > 0 else [])])


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for part, singular in (("nodes", "node"), ("inputs", "input"), ("breakers", "breaker")):
        old, new = ({one["name"]: one for one in data.get(part, ())} for data in (before, after))
        yield from (f"{singular} {name} is gone" for name in old if name not in new)
        yield from (f"{singular} {name} is new" for name in new if name not in old)
        for name in old:
            if name in new and (keys := _differing(old[name], new[name])):
                yield f"{singular} {name} differs in {', '.join(keys)}"
        if [name for name in old if name in new] != [name for name in new if name in old]:
            yield f"the {part} have another order"
    if (before["result"], before["has_result"]) != (after["result"], after["has_result"]):
        yield "the result differs"
    if before.get("on_failure") != after.get("on_failure"):
        yield "on_failure differs"
    if before.get("notify") != after.get("notify"):
        yield "notify differs"
    if before["timeout_seconds"] != after["timeout_seconds"]:
        yield "timeout_seconds differs"


def _differing(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The keys with other values; those of a task count as the node's own."""
    keys = [key for key in {**old, **new} if key != "description" and old.get(key) != new.get(key)]
    tasks = old.get("task"), new.get("task")
    if "task" not in keys or not all(isinstance(task, dict) for task in tasks):
        return keys
    place = keys.index("task")
    of_task = [key for key in {**tasks[0], **tasks[1]} if tasks[0].get(key) != tasks[1].get(key)]  # type: ignore[dict-item,union-attr]
    return [*keys[:place], *of_task, *keys[place + 1 :]]
