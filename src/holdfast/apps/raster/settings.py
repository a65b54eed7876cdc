"""What is wrong with the settings of the raster app, said before a task meets it. Messages show no secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.apps.raster.objects import SCHEMES, scrubbed
from holdfast.apps.raster.storage import CONTAINER_RULE, entries, is_container, wrong_entry
from holdfast.extend.settings import SettingsProblem, variable

SHOWN = 200
"""Characters of an entry."""


def problems() -> Iterator[SettingsProblem]:
    yield from _containers()
    yield from _roots()
    yield from _sources()


def _containers() -> Iterator[SettingsProblem]:
    names = set()
    for name, address in entries():
        if not is_container(name, address):
            yield SettingsProblem(f"{wrong_entry(name, address)}.", f"{CONTAINER_RULE}.")
        elif name in names:
            message = f"HOLDFAST_RASTER_CONTAINERS has two addresses for the container '{name}'."
            yield SettingsProblem(message, "Give each container one address.")
        names.add(name)


def _roots() -> Iterator[SettingsProblem]:
    for root in filter(None, variable("RASTER_ROOTS").split(os.pathsep)):
        path, has = Path(root), f"HOLDFAST_RASTER_ROOTS has '{root[:SHOWN]}', which"
        if not path.is_absolute():
            yield SettingsProblem(f"{has} is not an absolute path.", f"Write whole paths, separated by '{os.pathsep}'.")
        elif not path.exists():
            remedy = f"Make or mount the folder, or correct the setting; '{os.pathsep}' separates folders."
            yield SettingsProblem(f"{has} does not exist.", remedy, only_warns=True)
        elif not path.is_dir():
            yield SettingsProblem(f"{has} is not a folder.", "Name the folder above it.")


def _sources() -> Iterator[SettingsProblem]:
    for entry in variable("RASTER_SOURCES").split():
        if not _is_source(entry):
            message = f"HOLDFAST_RASTER_SOURCES has the invalid entry '{scrubbed(entry)[:SHOWN]}'."
            remedy = "Write addresses like https://HOST/FOLDER or s3://BUCKET/FOLDER, separated by spaces; without '?'."
            yield SettingsProblem(message, remedy)


def _is_source(entry: str) -> bool:
    """Whether an address can begin with the entry. The sources look at addresses without their query."""
    try:
        parts = urlsplit(entry)
        has_host = bool(parts.hostname) and (parts.port or True)
    except ValueError:
        return False
    is_plain = not parts.query and not parts.fragment and ".." not in parts.path.split("/")
    return parts.scheme in ("http", "https", *SCHEMES) and bool(has_host) and is_plain
