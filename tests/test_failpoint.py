"""Failpoints: each is at one place, causes the fault that is armed there, and an invalid setting is refused."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import failpoint
from holdfast.cli.session import begin
from holdfast.errors import InvalidInput, Unreachable

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoint.arm(None)


SOURCES_OF_TASKS = ("remote/task_source.py", "remote/attempts.py", "store/bound_workers.py")
"""They do over HTTP what store/task_source.py does at the database, in other processes, and pass the same points."""


def test_every_failpoint_is_placed_once_and_again_only_where_workers_go_over_http() -> None:
    package = Path(holdfast.__file__).parent
    placed, over_http = Counter[str](), set[str]()
    for source in package.rglob("*.py"):
        points = re.findall(r'failpoint\.hit\(\s*"([^"]+)"', source.read_text())
        if source.relative_to(package).as_posix() in SOURCES_OF_TASKS:
            over_http |= set(points)
        else:
            placed.update(points)
    assert placed == Counter(dict.fromkeys(failpoint.POINTS, 1))
    assert over_http < set(failpoint.POINTS)


async def test_a_failpoint_that_is_not_armed_does_nothing() -> None:
    await failpoint.hit("claim.before")
    failpoint.arm("claim.before:error")
    await failpoint.hit("claim.after_commit")


async def test_an_error_is_that_of_a_lost_connection() -> None:
    failpoint.arm("renew.before:error, renew.after:error")
    with pytest.raises(Unreachable, match=r"renew\.after"):
        await failpoint.hit("renew.after")


async def test_only_the_visit_that_was_named_counts() -> None:
    failpoint.arm("run.before:error@2")
    await failpoint.hit("run.before")
    with pytest.raises(Unreachable):
        await failpoint.hit("run.before")
    await failpoint.hit("run.before")


async def test_a_marker_file_keeps_the_next_process_from_failing_again(tmp_path: Path) -> None:
    once = tmp_path / "markers"
    failpoint.arm("run.before:error", once)
    with pytest.raises(Unreachable):
        await failpoint.hit("run.before")
    failpoint.arm("run.before:error", once)
    await failpoint.hit("run.before")
    assert [marker.name for marker in once.iterdir()] == ["run.before"]


async def test_a_delay_lasts_as_long_as_it_says() -> None:
    failpoint.arm("run.before:delay=0.05")
    before = time.monotonic()
    await failpoint.hit("run.before")
    assert time.monotonic() - before >= 0.05


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("claim.befor:kill", "there is no failpoint 'claim.befor'"),
        ("claim.before:explode", "'claim.before:explode' is not a valid fault"),
        ("claim.before", "'claim.before' is not a valid fault"),
        ("claim.before:kill=3", "'claim.before:kill=3' is not a valid fault"),
        ("claim.before:kill@0", "'claim.before:kill@0' is not a valid fault"),
        ("claim.before:kill,", "'' is not a valid fault"),
    ],
)
def test_an_invalid_setting_is_refused_at_the_start_with_all_names(
    monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    monkeypatch.setenv("HOLDFAST_FAILPOINT", text)
    with pytest.raises(InvalidInput) as refused:
        begin()
    assert error in str(refused.value)
    remedy = refused.value.remedy
    assert remedy is not None
    assert all(name in remedy for name in (*failpoint.POINTS, *failpoint.ACTIONS))
