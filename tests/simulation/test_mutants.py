"""The deliberate breakages themselves: `make mutants` runs them, this only keeps them fit to be run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.simulation.mutants.run import FOLDER, ROOT, copy

LEAST = 30


def test_every_mutant_still_applies_to_the_code(tmp_path: Path) -> None:
    patches = sorted(FOLDER.glob("*.patch"))
    assert len(patches) >= LEAST
    copy(tmp_path)
    refused = {
        patch.stem: done.stderr
        for patch in patches
        if (
            done := subprocess.run(
                ["git", "apply", "--check", "--unsafe-paths", "--recount", str(patch)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
        ).returncode
    }
    assert not refused, f"make these anew, they no longer fit {ROOT.name}: {refused}"
