"""Working directories: one per attempt, gone with it. Those of killed workers are removed, those of live ones stay."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.define.workflow import Workflow
from holdfast.worker.context import Context
from holdfast.worker.workdir import Workplace
from tests.conftest import eventually
from tests.running import registry, running
from tests.worker.attempts import lease

pytestmark = pytest.mark.anyio

_LIVES = """
import sys, time
from pathlib import Path
from holdfast.worker.workdir import Workplace
place = Workplace(Path(sys.argv[1])).own
(place / "half.tif").write_text("half")
print(place, flush=True)
sys.stdin.read()
"""


def worker_in(root: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a directory of its own, which lives until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LIVES, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_worker_left_is_removed_and_what_a_live_one_uses_stays(tmp_path: Path) -> None:
    killed, left = worker_in(tmp_path)
    alive, used = worker_in(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        Workplace(tmp_path).sweep()
        assert not left.exists()
        assert (used / "half.tif").exists()
    finally:
        for process in (killed, alive):
            process.communicate()
    Workplace(tmp_path).sweep()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_being_made_is_spared(tmp_path: Path) -> None:
    (tmp_path / "worker-new").mkdir()
    Workplace(tmp_path).sweep()
    assert (tmp_path / "worker-new").exists()


def test_no_directory_is_made_for_attempts_that_use_none(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "work")
    place.sweep()
    place.remove(lease())
    place.close()
    assert not (tmp_path / "work").exists()


def test_every_attempt_has_its_own_directory(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    leases = [lease(), lease(item=3), lease(node="m"), lease(epoch=2)]
    assert len({place.of(one) for one in leases}) == 4
    place.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["returns", "raises", "times_out"])
async def test_a_working_directory_goes_however_its_attempt_ends(
    database_url: str, tmp_path: Path, ending: str
) -> None:
    seen: list[Path] = []

    def work(ctx: Context) -> Any:
        (ctx.workdir / "sub").mkdir()
        (ctx.workdir / "sub" / "half.tif").write_text("half")
        seen.append(ctx.workdir)
        if ending == "raises":
            raise RuntimeError("at the end")
        while ending == "times_out" and not ctx.cancelled:
            pass
        return 1

    flow = Workflow("w")
    flow.task("a", handler="work", retry={"max_retries": 0}, timeout_seconds=1)
    async with running(database_url, registry(work=work), home=tmp_path) as engine:
        await engine.run(flow.definition())
        assert seen[0].is_relative_to(tmp_path / "work")

        async def gone() -> bool:
            return not seen[0].exists()

        await eventually(gone)
    assert list((tmp_path / "work").iterdir()) == []
