"""How two definitions of a workflow differ, in words."""

from __future__ import annotations

import pytest

from holdfast.define.changes import differences, shown
from holdfast.define.load import load_text

BEFORE = """
workflow_id: w
version: 1
inputs: {day: {type: string, default: today}}
nodes:
  read: {handler: read, params: {day: "{{ inputs.day }}"}, next: write}
  write: {handler: write}
"""


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("version: 1", "version: 2", []),
        ("version: 1", "version: 1\nname: Words\ndescription: nothing else", []),
        ("{handler: write}", "{handler: write, description: writes it}", []),
        ("{handler: write}", "{handler: other}", ["node write differs in handler"]),
        ("{handler: write}", "{handler: write, timeout_seconds: 5}", ["node write differs in timeout_seconds"]),
        ('day: "{{ inputs.day }}"', "day: now", ["node read differs in params"]),
        ("  write: {handler: write}", "  keep: {handler: write}\n  write: {handler: write}", ["node keep is new"]),
        (", next: write}\n  write: {handler: write}", "}", ["node write is gone", "node read differs in next"]),
        ("default: today", "default: never", ["input day differs in default"]),
        ("version: 1", 'version: 1\nresult: "{{ inputs.day }}"', ["the result differs"]),
        ("version: 1", "version: 1\ntimeout_seconds: 9", ["timeout_seconds differs"]),
    ],
)
def test_what_behaves_in_another_way_is_named(old: str, new: str, changes: list[str]) -> None:
    assert old in BEFORE
    assert differences(load_text(BEFORE), load_text(BEFORE.replace(old, new))) == changes


def test_many_differences_are_counted() -> None:
    assert shown([f"node {n} is new" for n in range(2)]) == "node 0 is new; node 1 is new"
    assert shown([f"node {n} is new" for n in range(6)]).endswith("node 4 is new; node 5 is new")
    assert shown([f"node {n} is new" for n in range(9)]).endswith("node 4 is new; 4 more")
