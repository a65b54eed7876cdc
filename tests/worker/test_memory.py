"""The memory limit of a handler's process, and how its memory is counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.worker import memory
from tests.worker.attempts import data_of, output
from tests.worker.desk import Desk

pytestmark = pytest.mark.anyio


async def test_a_process_that_uses_too_much_memory_is_killed_with_its_children(desk: Desk) -> None:
    assert output(await desk.result("hoards", {"mb": 10})) == 10
    for report in (await desk.result("hoards", {"mb": 300}), await desk.result("hoards_in_a_child")):
        assert (report.outcome, report.alone) == ("lost", True)
        words = data_of(report)["message"].split()
        assert " ".join(words[:4]) == "the handler's process used"
        assert int(words[4]) > 200
        assert " ".join(words[5:]) == "MB, more than its 200 MB"


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_memory_is_counted_with_that_of_children_and_also_where_there_is_no_proc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    hoarding = "hoard = b'x' * 50_000_000; print('has it', flush=True); input()"
    missing = 2**22 + 1
    with subprocess.Popen(
        [sys.executable, "-c", program, hoarding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        counted = memory.resident_mb([leader.pid, missing])
        monkeypatch.setattr(memory, "_PROC", Path("/nowhere"))
        for used in (counted, memory.resident_mb([leader.pid, missing])):
            assert used[leader.pid] > 50
            assert used[missing] == 0
        leader.communicate(b"\n")
