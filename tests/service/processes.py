"""`holdfast api` as a process of its own, which a test can kill, end and flood."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.chaos.fleet import Process
from tests.service.serving import GENEROUS


@asynccontextmanager
async def api_process(url: str, scratch: Path, **environment: str) -> AsyncIterator[tuple[Process, str]]:
    """A process, and the address of its service."""
    rates = {f"HOLDFAST_{name.upper()}": str(value) for name, value in GENEROUS.items()}
    own = {"HOLDFAST_PORT": "0", "HOLDFAST_GRACE_SECONDS": "10", **rates}
    process = Process("api", url, scratch, {**own, **environment})
    try:
        await process.ready()
        found = re.search(r"at (http://\S+?)\.(?:\s|$)", process.log.read_text())
        assert found is not None, process.log.read_text()
        yield process, found[1]
    finally:
        process.kill()
