"""Generated requests to every operation; `make chaos` sends many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.every_operation import check_every_operation

pytestmark = pytest.mark.anyio


async def test_every_operation_answers_as_it_is_described(database_url: str, tmp_path: Path) -> None:
    assert await check_every_operation(database_url, 4, tmp_path, phases="examples,fuzzing") == ""
    report = (tmp_path / "report.txt").read_text()
    assert "Operations:" in report
    assert " 0 selected" not in report
