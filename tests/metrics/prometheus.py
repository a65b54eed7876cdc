"""A real Prometheus on a free port, which scrapes a process of the tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.conftest import eventually
from tests.ports import free_port
from tests.programs import program

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
RULES = DEPLOY / "prometheus" / "holdfast.rules.yml"
CASES = DEPLOY / "prometheus" / "holdfast.rules.test.yml"
DASHBOARD = DEPLOY / "grafana" / "holdfast.json"


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("promtool", "prometheus"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


class Prometheus:
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that the expression gives now."""
        answer = (await self._client.get("/api/v1/query", params={"query": expression})).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    async def rules(self) -> dict[str, str]:
        """The health of each alert, by its name."""
        groups = (await self._client.get("/api/v1/rules")).json()["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}


@asynccontextmanager
async def scraping(target: str, folder: Path) -> AsyncIterator[Prometheus]:
    """A server that scrapes the target every half second, with our rules."""
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "holdfast", "static_configs": [{"targets": [target]}]}],
    }
    # JSON is YAML.
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program("prometheus", "prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

            async def is_ready() -> bool:
                assert process.returncode is None, (folder / "prometheus.log").read_text()
                try:
                    return (await client.get("/-/ready")).status_code == 200
                except httpx2.TransportError:
                    return False

            await eventually(is_ready, seconds=60.0)
            yield Prometheus(client)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
