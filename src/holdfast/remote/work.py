"""A worker's requests to the service, and what it holds: the tokens of its leases, by what they are for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from holdfast.errors import TooManyRequests, Unreachable
from holdfast.remote.connection import Connection
from holdfast.store.leases import Held
from holdfast.store.records import JobFacts, Lease, Report

MOST_ENDED = 10_000
"""How many tokens of leases are kept that the worker holds no more: late messages about them may follow."""


class Token(NamedTuple):
    text: str
    tenant: str


class Tokens:
    """The tokens of a worker's leases. Threads of handlers read here, too."""

    def __init__(self) -> None:
        self._held: dict[Held, Token] = {}
        self._ended: OrderedDict[Held, Token] = OrderedDict()

    def add(self, held: Held, token: Token) -> None:
        self._held[held] = token

    def end(self, several: Iterable[Held]) -> None:
        """The worker holds these no more."""
        for held in several:
            token = self._held.pop(held, None)
            if token is not None:
                self._ended[held] = token
        while len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    def end_all_but(self, held: Iterable[Held]) -> None:
        kept = set(held)
        self.end([one for one in self._held if one not in kept])

    def of(self, held: Held) -> str | None:
        token = self._held.get(held) or self._ended.get(held)
        return token.text if token is not None else None

    # The newest first: the report of an older one may be under way, and end it before its answer is here.

    def of_job(self, job_id: str) -> str | None:
        """The token of any lease of that job."""
        return next((token.text for held, token in reversed(list(self._held.items())) if held[0] == job_id), None)

    def of_tenant(self, tenant: str) -> str | None:
        """The token of any lease of that tenant's jobs."""
        return next((token.text for token in reversed(list(self._held.values())) if token.tenant == tenant), None)

    def refused(self, text: str) -> None:
        """The service says that this lease has ended: another one of the same job may stand in for it."""
        self.end([held for held, token in list(self._held.items()) if token.text == text])


class WorkConnection:
    """Requests of a worker. What the service cannot answer now is as if it were out of reach."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        self._connection = Connection(url, key)

    async def send(self, what: str, body: dict[str, Any], *, seconds: float = 0.0) -> Any:
        try:
            return await self._connection.send("POST", f"/worker/{what}", body=body, seconds=seconds)
        except TooManyRequests as problem:
            raise Unreachable(str(problem), remedy=problem.remedy) from None

    async def get(self, path: str, lease: str, *, patience_seconds: float | None = None, **query: Any) -> Any:
        try:
            return await self._connection.send(
                "GET",
                f"/worker/{path}",
                query=[(name, str(value)) for name, value in query.items()],
                headers={"Holdfast-Lease": lease},
                is_repeatable=True,
                patience_seconds=patience_seconds,
            )
        except TooManyRequests as problem:
            raise Unreachable(str(problem), remedy=problem.remedy) from None

    async def close(self) -> None:
        await self._connection.close()


def held_of(task: dict[str, Any]) -> Held:
    return task["job_id"], task["node"], item_of(task), task["epoch"]


def item_of(task: dict[str, Any]) -> int:
    index: int | None = task["index"]
    return index if index is not None else -1


def lease_of(task: dict[str, Any]) -> Lease:
    """A task as the worker runs it. The service checks its contract."""
    point = task["resume_point"]
    return Lease(
        task["job_id"],
        task["node"],
        item_of(task),
        task["epoch"],
        task["attempt"],
        task["handler"],
        task["timeout_seconds"],
        task["suspect"],
        task["params"],
        (point["name"], point["data"]) if point is not None else None,
        task["checkpoint_seq"],
        task["owner"],
        task["params_ref"],
        has_contract=False,
        is_undo=task["undo"],
        output_ref=task["output_ref"],
        secrets=tuple((tuple(one["path"]), tuple(one["names"])) for one in task.get("secrets", ())),
    )


def facts_of(task: dict[str, Any], inputs: Any) -> JobFacts:
    """What handlers may ask of the job of a task."""
    return JobFacts(
        task["generation"],
        inputs,
        task["definition_hash"],
        tenant=task["tenant"],
        correlation_id=task["correlation_id"],
        external_ids=task["external_ids"],
        traceparent=task["job_traceparent"],
    )


FAILURE = ("code", "message", "class", "declared_class", "exit_code", "retry_after_seconds", "down")
BESIDE = ("artifacts", "extra", "calls", "log", "log_times", "output_ref")


def report_body(token: str, report: Report) -> bytes:
    """A report as the service takes it."""
    data = orjson.loads(report.data) if report.data is not None else {}
    body: dict[str, Any] = {
        "lease": token,
        "outcome": report.outcome,
        "started_at": report.started_at,
        "alone": report.alone,
        **{name: data[name] for name in BESIDE if name in data},
    }
    failure = {name: data[name] for name in FAILURE if data.get(name) is not None}
    if failure:
        body["failure"] = failure
    if report.output is not None:
        body["output"] = orjson.Fragment(report.output)
    return orjson.dumps(body)
