"""What the items of a fan-out are known by, so that a later generation recognises them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from holdfast.core.match_states import NEW, Matches
from holdfast.define.template import Template
from holdfast.errors import TemplateError


def keys_of(template: Template | None, items: Sequence[Any]) -> list[str]:
    """The key of each item: the hash of what `item_key` gives or, without one, of the item itself."""
    if template is None:
        return [_hash(item) for item in items]
    return [_hash(_named(template, item)) for item in items]


def match_items(keys: Sequence[str], tasks: Iterable[tuple[int, str]]) -> Matches:
    """Which task each item has. Of items with the same key the first has the first task, and so on.

    The answer does not change when new items get tasks: their numbers are above all others.
    """
    numbers_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, key in tasks:
        numbers_of[key].append(number)
    for numbers in numbers_of.values():
        numbers.sort(reverse=True)
    found = [numbers_of[key].pop() if numbers_of.get(key) else NEW for key in keys]
    return Matches(found, sorted(number for numbers in numbers_of.values() for number in numbers))


def _named(template: Template, item: Any) -> Any:
    """Where an item lacks what `item_key` reads, its whole value counts."""
    try:
        return template.render({"item": item})
    except TemplateError:
        return item


def _hash(value: Any) -> str:
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
