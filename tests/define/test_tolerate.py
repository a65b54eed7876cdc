"""How many failed items a fan-out accepts: a number, or a share that is exact before it is rounded down."""

from __future__ import annotations

import pytest

from holdfast.define.load import load_text

FLOW = """
workflow_id: w
nodes:
  f: {{type: fan_out, source: "{{{{ [1] }}}}", task: {{handler: x}}, tolerate: {{failures: {failures}}}}}
"""


@pytest.mark.parametrize(
    ("failures", "width", "most"),
    [
        ("3", 2, 3),
        ("19%", 10, 1),
        ("1%", 99, 0),
        ("1%", 0, 0),
        ("100%", 7, 7),
        ("0.57%", 10_000, 57),
        ("1.15%", 100_000, 1150),
        ("0.000001%", 100_000_000, 1),
    ],
)
def test_as_many_items_may_fail_as_the_file_says(failures: str, width: int, most: int) -> None:
    (node,) = (node for node in load_text(FLOW.format(failures=failures)).nodes if node.name == "f")
    assert node.tolerate.allows(most, width)
    assert not node.tolerate.allows(most + 1, width)
