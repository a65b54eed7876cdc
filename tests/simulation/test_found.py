"""Bugs that the simulation found: one test for each, with the shortest way to the bug and without chance."""

from __future__ import annotations

from holdfast.define.workflow import Workflow
from tests.simulation.stage import Stage


def test_a_fan_in_does_not_gather_before_the_last_report_of_its_items_is_committed_invariant_8() -> None:
    """While one fan-in of a job waited for its results, another gathered too early and lost its last items."""
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    for name in ("early", "late"):
        flow.fan_out(name, source="{{ inputs['items'] }}", handler="h", params={"value": "{{ item }}"})
        flow.fan_in(f"{name}_in", after=name)
    stage = Stage(flow, {"items": [1, 2]})
    stage.cycle()
    stage.work("early")
    stage.cycle()
    stage.work("late")
    stage.cycle()
    stage.cycle()
    gathered = {"results": [{"value": 1}, {"value": 2}], "count": 2}
    assert stage.job["result"] == {"early_in": gathered, "late_in": gathered}
