"""The unit files in the documentation: systemd accepts them, and they give a service enough time to stop."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.app import execute
from holdfast.settings import Settings, load_settings
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "run-a-fleet.md"
FILES = {block.marks["file"]: block.body for block in blocks(PAGE) if block.language == "ini"}
UNITS = sorted(name for name in FILES if name.endswith(".service"))
COMMAND = "/srv/maps/.venv/bin/holdfast"


def service(name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(FILES[name])
    return dict(parser["Service"])


def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    for line in FILES["holdfast.env"].splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    return load_settings()


def test_there_is_a_unit_for_each_service() -> None:
    assert UNITS == ["holdfast-orchestrator.service", "holdfast-worker@.service"]


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_lets_its_service_drain_and_starts_it_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = service(name)
    assert (unit["KillSignal"], unit["Restart"], unit["User"]) == ("SIGTERM", "always", "holdfast")
    assert float(unit["TimeoutStopSec"]) > settings(monkeypatch).grace_seconds + 5


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command_that_exists(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = service(name)["ExecStart"].split()
    assert command == COMMAND
    assert execute([*arguments, "--help"]) == 0
    assert "Usage:" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name.replace("@.", "@heavy.")
    unit.write_text(FILES[name].replace(COMMAND, str(Path(sys.executable).with_name("holdfast"))))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    # systemd may complain about other units of this machine, but not about ours.
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, [])


def test_systemd_accepts_the_units_of_the_nightly_job(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "run-every-night.md"
    files = {block.marks["file"]: block.body for block in blocks(page) if "file" in block.marks}
    names = {"holdfast-nightly.service", "holdfast-nightly.timer", "holdfast-alert@.service"}
    assert names <= set(files)
    assert "OnFailure=holdfast-alert@%N.service" in files["holdfast-nightly.service"]
    units = [tmp_path / name.replace("@.", "@holdfast-nightly.") for name in sorted(names)]
    for unit, name in zip(units, sorted(names), strict=True):
        unit.write_text(files[name])
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "holdfast" in line]) == (0, [])
