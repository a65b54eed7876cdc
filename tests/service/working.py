"""A worker over HTTP as a test plays it: plain requests, and what comes back."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.service.serving import API, Service


class PlainWorker:
    """A registered worker; each method is one request."""

    def __init__(self, client: httpx2.AsyncClient, worker_id: int = 0) -> None:
        self.client = client
        self.worker_id = worker_id
        self._claims = 0

    async def send(self, what: str, **body: Any) -> httpx2.Response:
        return await self.client.post(f"{API}/worker/{what}", json={"worker_id": self.worker_id, **body})

    async def ask(self, what: str, **body: Any) -> dict[str, Any]:
        answer = await self.send(what, **body)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def claim(self, free: int = 100, **more: Any) -> list[dict[str, Any]]:
        self._claims += 1
        tasks: list[dict[str, Any]] = (
            await self.ask("claim", **{"claim_id": f"{self._claims}", "free": free, **more})
        )["tasks"]
        return tasks

    async def report(self, *reports: dict[str, Any]) -> list[str]:
        fates: list[str] = (await self.ask("report", reports=list(reports)))["reports"]
        return fates


async def register(client: httpx2.AsyncClient, **body: Any) -> PlainWorker:
    answer = await client.post(
        f"{API}/worker/register", json={"name": "plain", "handlers": ["work"], "concurrency": 4, **body}
    )
    assert answer.status_code == 201, answer.text
    return PlainWorker(client, answer.json()["worker_id"])


async def plain_worker(service: Service, tenant: str = "default", **body: Any) -> PlainWorker:
    """A worker with a key of its own."""
    return await register(await service.as_role("worker", tenant=tenant), **body)


def done(task: dict[str, Any], output: Any = None, **more: Any) -> dict[str, Any]:
    return {"lease": task["lease"], "outcome": "done", "output": output, **more}
