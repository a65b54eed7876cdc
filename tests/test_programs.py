"""Programs from Debian's packages: what the tests do where they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import programs


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "this is no Debian"),
        ("echo E: no network >&2; exit 100", "apt-get cannot get it: E: no network"),
        ("exit 0", "the package somepackage does not have it"),
    ],
)
def test_a_test_without_its_program_is_skipped_loudly(
    script: str | None, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "ROOT", tmp_path / "programs")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("apt-get", "dpkg") if script is not None else ():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(pytest.skip.Exception) as skipped:
        programs.program("someprogram", "somepackage")
    assert str(skipped.value) == f"NOT TESTED: there is no someprogram, and {reason}; install somepackage"


def test_a_package_that_is_unpacked_is_used_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    place = tmp_path / "otherpackage" / "usr" / "sbin" / "otherprogram"
    place.parent.mkdir(parents=True)
    place.touch()
    assert programs.program("otherprogram", "otherpackage") == str(place)
