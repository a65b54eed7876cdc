"""How definitions look to people."""

from __future__ import annotations

from holdfast import load_text
from holdfast.define.definition_text import definition_text, difference_lines

FLOW = """
workflow_id: maps
inputs: {region: {type: string, default: null}}
nodes:
  draw: {handler: draw, params: {legend: null, title: "", text: "-- a\\n", sizes: []}, next: send}
  send: {handler: send}
"""


def test_empty_values_of_the_author_are_shown_and_unused_keys_are_not() -> None:
    text = definition_text(load_text(FLOW))
    for line in ("        legend:\n", "        title: ''\n", "        sizes: []\n", "    default:\n"):
        assert line in text
    for word in ("description", "pattern", "has_default", "any_of", "queue_timeout_seconds", "result"):
        assert word not in text


def test_each_part_that_differs_has_its_lines() -> None:
    before = load_text(FLOW)
    after = load_text(
        FLOW.replace("handler: send", "handler: post").replace("-- a", "-- b").replace("maps\n", "maps\nversion: 2\n")
    )
    lines = difference_lines(before, after)
    assert [line for line in lines if not line.startswith(" ")] == ["workflow", "node draw", "node send"]
    changed = [line.split(maxsplit=1) for line in lines if line.startswith(("  -", "  +"))]
    assert ["-", "version: '1'"] in changed and ["+", "version: '2'"] in changed
    assert ["-", "handler: send"] in changed and ["+", "handler: post"] in changed
    assert ["-", 'text: "-- a\\n"'] in changed and ["+", 'text: "-- b\\n"'] in changed
    assert difference_lines(before, before) == []


def test_a_part_that_is_new_has_only_lines_that_came() -> None:
    after = load_text(FLOW + "  last: {handler: last, depends_on: send}\n")
    lines = difference_lines(load_text(FLOW), after)
    assert "node last" in lines
    place = lines.index("node last")
    assert all(line.startswith("  +") for line in lines[place + 1 :]) and len(lines) > place + 1
