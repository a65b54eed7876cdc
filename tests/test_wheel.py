"""The wheel of this repository in an environment that does not see the repository, with and without `geo`."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).resolve().parent.parent
GEO = ("numpy", "pil", "pillow", "pystac", "rasterio", "rio_cogeo")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "holdfast"
    files = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in files if "__pycache__" not in name}
    assert {Path(name).suffix for name in packed} >= {".py", ".sql", ".yaml", ".toml", ".typed", ".md"}


def test_an_installed_wheel_runs_in_an_empty_folder_with_and_without_the_raster_libraries(
    wheel: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path)
    # Without an index, pip refuses a wheel whose dependencies are not there.
    environment.install(str(wheel))
    # What our messages advise: the extra of the holdfast that is installed, wherever it came from.
    environment.install("holdfast[geo]")
    assert environment.run("--version") == f"holdfast {holdfast.__version__}\n"
    environment.run("init", "x")
    assert "9 words in 3 texts" in environment.run("run", "workflow.yaml", "--json", folder="x")
    environment.run(
        "validate", environment.packaged("apps/flood/flood_stack.yaml"), "--handlers", "holdfast.apps.flood"
    )

    environment.remove(*GEO)
    refused = environment.run("demo", "flood", code=2)
    assert "not installed: numpy" in refused and "pip install 'holdfast[geo]'" in refused
    assert "raster" in environment.run("--help")
    environment.run("validate", environment.packaged("apps/words/words.yaml"), "--handlers", "holdfast.apps.words")


class Environment:
    """A virtual environment of its own. It sees the libraries of this one, but not this holdfast."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "empty"
        self.folder.mkdir()
        self._libraries = place / "libraries"
        self._libraries.mkdir()
        for entry in sys.path:
            if entry.endswith("site-packages"):
                self._link(Path(entry))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
        (own,) = (place / "venv").glob("lib/python*/site-packages")
        (own / "libraries.pth").write_text(f"{self._libraries}\n")
        self._own, self._bin = own, place / "venv" / "bin"

    def _link(self, packages: Path) -> None:
        for path in packages.iterdir():
            is_ours = path.name.startswith(("holdfast", "_editable", "__pycache__")) or path.suffix == ".pth"
            target = self._libraries / path.name
            if not is_ours and not target.exists():
                target.symlink_to(path)

    def install(self, what: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self._bin / "python"), "--disable-pip-version-check"]
        done = subprocess.run([*pip, "install", "--quiet", "--no-index", what], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def remove(self, *names: str) -> None:
        for path in self._libraries.iterdir():
            if path.name.lower().startswith(names):
                path.unlink()

    def packaged(self, name: str) -> str:
        return str(self._own / "holdfast" / name)

    def run(self, *words: str, folder: str = "", code: int = 0) -> str:
        """The output of a command of this environment."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON"))}
        done = subprocess.run(
            [self._bin / "holdfast", *words],
            cwd=self.folder / folder,
            env=variables | {"NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr
