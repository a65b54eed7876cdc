"""A worker notices that the files of its handlers have changed on disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.define.registry import discover
from holdfast.log_events import Line
from holdfast.worker import code_files
from holdfast.worker.code_files import CodeFiles, older_code
from tests.conftest import eventually

TEXT = "import {beside}\nfrom holdfast import handler\n\n@handler\ndef work(): ...\n"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> CodeFiles:
    """A module with handlers, and a module beside it that the first one imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"code_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(TEXT.format(beside=f"{name}_beside"))
    (tmp_path / f"{name}_beside.py").write_text("")
    registry = discover([name], entry_points_too=False)
    assert registry.modules == [name]
    files = CodeFiles(registry.modules)
    assert files.look() == ()
    return files


def main_file(tmp_path: Path) -> Path:
    return next(path for path in tmp_path.glob("code_*.py") if not path.stem.endswith("beside"))


def test_a_file_that_changes_is_named_until_it_is_as_before(code: CodeFiles, tmp_path: Path) -> None:
    file = main_file(tmp_path)
    before = file.read_text()
    file.write_text(f"{before}# changed\n")
    assert code.look() == (file.name,)
    assert older_code("laptop:1", code.look()) == f"laptop:1 runs older code than {file.name}: restart it"
    file.write_text(before)
    assert code.look() == ()


@pytest.mark.anyio
async def test_a_change_is_logged_once_as_an_event(
    code: CodeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_files, "LOOK_SECONDS", 0.0)
    looks = 0

    def look() -> tuple[str, ...]:
        nonlocal looks
        looks += 1
        return ("flow.py", "sales.py")

    monkeypatch.setattr(code, "look", look)
    watching = asyncio.create_task(code.watch("laptop:1"))

    async def has_looked_often() -> bool:
        return looks > 3

    await eventually(has_looked_often)
    watching.cancel()
    (line,) = [record.msg for record in caplog.records if record.name == "holdfast.worker"]
    assert isinstance(line, Line)
    assert (line.event, line.fields) == (
        "older_code",
        {"worker": "laptop:1", "files": "flow.py, sales.py", "reason": "restart the worker"},
    )


def test_a_module_that_the_handlers_import_counts_and_a_new_time_alone_does_not(
    code: CodeFiles, tmp_path: Path
) -> None:
    os.utime(main_file(tmp_path), (1, 1))
    assert code.look() == ()
    (beside,) = tmp_path.glob("*_beside.py")
    beside.write_text("x = 1\n")
    assert code.look() == (beside.name,)
    beside.unlink()
    assert code.look() == (beside.name,)


def test_a_file_is_read_again_only_when_its_time_or_size_has_changed(
    code: CodeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real = code_files._read

    def noted(path: Path) -> Any:
        read.append(path)
        return real(path)

    monkeypatch.setattr(code_files, "_read", noted)
    code.look()
    assert read == []
    main_file(tmp_path).write_text("# changed\n")
    code.look()
    code.look()
    assert read == [main_file(tmp_path)]
