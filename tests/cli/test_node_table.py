"""How the nodes of a job are drawn, in terminals of any width. Plain data, without a database."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console, RenderableType

from holdfast.cli.node_table import node_table
from holdfast.define.load import load_text
from holdfast.views.fleet import UnservedTasks
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
        Outcome((), (), (), {}, {}, False, None, ()), None, None, None, {}, None, None, definition,
    )  # fmt: skip


def drawn(picture: RenderableType, width: int) -> list[str]:
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    screen.print(picture)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_one_node_that_is_left_out_is_one() -> None:
    three = job(state("a", "running"), state("b", "completed"), state("c", "completed"))
    assert drawn(node_table(three, 80, rows=2), 80)[-1] == "  and 1 more node: 1 completed"
    assert drawn(node_table(three, 80, rows=1), 80)[-1] == "  and 2 more nodes: 2 completed"


@pytest.fixture
def wide() -> Job:
    since = datetime.now(UTC) - timedelta(hours=2, seconds=9)
    unserved = UnservedTasks("no_worker_for_queue", "heavy", "maps.render", 3, since)
    return job(
        state("split", "completed"),
        state("count_the_words", "failed", width=1924),
        state("report", "dispatched", unserved=unserved),
    )


def test_a_narrow_terminal_leaves_out_times_then_bars(wide: Job) -> None:
    shown = {width: "\n".join(drawn(node_table(wide, width, bar_width=10), width)) for width in (80, 62, 40)}
    assert {width: ("1 min 15 s" in text, "━" in text) for width, text in shown.items()} == {
        80: (True, True),
        62: (False, True),
        40: (False, False),
    }
    assert shown[40].splitlines() == [
        "✔ split            completed",
        "✘ count_the_words  failed",
        "    1,923/1,924, 1 failed",
        "… report           dispatched",
        "    ↳ no worker serves 'heavy', for 2 h",
    ]


def test_no_terminal_is_so_narrow_that_a_word_is_cut(wide: Job) -> None:
    wanted = "split completed count_the_words failed 1,923/1,924, 1 report dispatched ↳ no worker serves 'heavy',"
    for width in range(24, 100):
        lines = drawn(node_table(wide, width, bar_width=10), width)
        words = " ".join(lines).split()
        assert set(wanted.split()) <= set(words), lines
        assert [word for word in words if "…" in word] == ["…"], "only the symbol of what is dispatched"
        assert max(map(len, lines)) <= width


def test_a_name_is_shown_whole_however_long_it_is() -> None:
    name = "n" * 64
    for width in (40, 80, 120):
        assert name in "".join("".join(drawn(node_table(job(state(name, "completed")), width), width)).split())
