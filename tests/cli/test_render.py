"""How the nodes of a job are drawn, in terminals of any width. Plain data, without a database."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, RenderableType

from holdfast.cli.render import node_table
from holdfast.define.load import load_text
from holdfast.views.jobs import Counts, Job, NodeState
from holdfast.views.outcome import Outcome

AT = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def state(node: str, status: str, width: int = 0, **more: Any) -> NodeState:
    """A node that took 75 s; with a width, a fan-out of which one item has failed."""
    return NodeState(
        node,
        1,
        "fan_out" if width else "task",
        status,
        "critical",
        1,
        Counts(width, width - 1, 1) if width else Counts(1, 1),
        {"done": width, "total": width} if width else None,
        None,
        more.pop("held", None),
        None,
        AT,
        AT + timedelta(seconds=75),
        more.pop("unserved", None),
        width=width,
        has_task_per_item=bool(width),
        **more,
    )


def job(*nodes: NodeState) -> Job:
    definition = load_text("workflow_id: w\nnodes: {a: {handler: echo}}\n")
    return Job(
        "1a2b3c4d", "w", "completed", "1", 1, 1, "default", {}, AT, AT, AT, Counts(), None, None, None, nodes,
        Outcome((), (), (), {}, {}, False, None, ()), None, None, None, {}, None, definition,
    )  # fmt: skip


def drawn(picture: RenderableType, width: int) -> list[str]:
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    screen.print(picture)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_one_node_that_is_left_out_is_one() -> None:
    three = job(state("a", "running"), state("b", "completed"), state("c", "completed"))
    assert drawn(node_table(three, rows=2), 80)[-1] == "  and 1 more node: 1 completed"
    assert drawn(node_table(three, rows=1), 80)[-1] == "  and 2 more nodes: 2 completed"
