"""The reference page of the raster app names every handler, every code and every setting."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from holdfast.apps import raster
from holdfast.apps.raster import handlers
from holdfast.define.registry import Registry

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "reference" / "raster.md").read_text()
SOURCES = "".join(file.read_text() for file in Path(raster.__file__).parent.glob("*.py"))


def test_every_handler_and_its_params_are_named() -> None:
    registry = Registry()
    assert registry.add_module(handlers) == 7
    for known in registry:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{known.name}("))
        named = row.partition("(")[2].partition(")")[0]
        params = [name for name in inspect.signature(known.function).parameters if name != "ctx"]
        shown = [part.partition("=")[0] for part in named.split(", ") if part not in ("", "…")]
        assert shown == params[: len(shown)] and (len(shown) == len(params) or named.endswith("…"))


def test_every_code_is_explained() -> None:
    codes = set(re.findall(r'code="([A-Z_]+)"', SOURCES))
    assert len(codes) > 15
    assert codes == {code for row in PAGE.split("## Codes")[1].splitlines() for code in re.findall(r"`([A-Z_]+)`", row)}


def test_every_setting_is_explained() -> None:
    settings = set(re.findall(r"HOLDFAST_RASTER_[A-Z]+", SOURCES))
    assert settings == set(re.findall(r"\| `(HOLDFAST_RASTER_[A-Z]+)`", PAGE))
