"""The files of a worker's handlers: which of them have changed on disk since the worker imported them."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holdfast.log_events import EventLog

log = EventLog("holdfast.worker")

LOOK_SECONDS = 2.0
MAX_FILES = 500
SHOWN_FILES = 5


@dataclass(slots=True)
class _File:
    """A file as it was imported, and as it was when we last looked."""

    digest: bytes
    stamp: tuple[int, int]
    is_changed: bool = False


class CodeFiles:
    """Looks at the time and the size of each file, and reads only a file of which one has changed."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = list(modules)
        self._files: dict[Path, _File] = {}
        self.changed: tuple[str, ...] = ()
        """The names of the files that differ from the code that runs here; at most SHOWN_FILES."""

    async def watch(self, name: str) -> None:
        """Look every LOOK_SECONDS, in a thread: a disk may hang. Logs the first change of the worker of that name."""
        if not self._modules:
            return
        await asyncio.to_thread(self._remember)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, self.changed = self.changed, await asyncio.to_thread(self.look)
            if self.changed and not before:
                log.write("older_code", worker=name, files=", ".join(self.changed), reason="restart the worker")

    def _remember(self) -> None:
        self._files = {path: one for path in _own_files(self._modules) if (one := _read(path)) is not None}

    def look(self) -> tuple[str, ...]:
        if not self._files:
            self._remember()
        for path, known in self._files.items():
            stamp = _stamp(path)
            # A file that is gone may be on its way: some editors rename.
            if stamp is not None and stamp != known.stamp:
                now = _read(path)
                known.stamp, known.is_changed = stamp, now is not None and now.digest != known.digest
        return tuple(_shown(path) for path, known in self._files.items() if known.is_changed)[:SHOWN_FILES]


def older_code(worker: str, files: Iterable[str]) -> str:
    return f"{worker} runs older code than {', '.join(files)}: restart it"


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}" if path.name == "__init__.py" else path.name


def _own_files(modules: Iterable[str]) -> list[Path]:
    """The files of the modules, and of what lies beside them and was imported too: the user's own code."""
    loaded = {name: Path(file) for name, module in list(sys.modules.items()) if (file := _file_of(module))}
    named = [loaded[name] for name in modules if name in loaded]
    folders = {path.parent for path in named}
    libraries = [Path(sys.prefix), Path(sys.base_prefix)]
    beside = [
        path
        for path in loaded.values()
        if any(path.is_relative_to(folder) for folder in folders)
        and not any(path.is_relative_to(one) for one in libraries)
    ]
    return list(dict.fromkeys([*named, *beside]))[:MAX_FILES]


def _file_of(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and file.endswith(".py") else None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(path: Path) -> _File | None:
    stamp = _stamp(path)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return _File(hashlib.sha256(content).digest(), stamp) if stamp is not None else None
