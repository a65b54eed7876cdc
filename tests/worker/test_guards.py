"""`ctx.breaker`: how guarded calls are counted and refused, in a thread and on the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.define.gates import BreakerRules
from holdfast.define.registry import Registry, describe
from holdfast.errors import DependencyDown, Permanent, Transient
from holdfast.outgoing import Outgoing
from holdfast.worker.context import AsyncContext, Context
from holdfast.worker.dependencies import probe
from tests.worker.attempts import bench, data_of, output

pytestmark = pytest.mark.anyio


async def test_the_report_carries_the_calls() -> None:
    def work(*, ctx: Context) -> str:
        for _ in range(2):
            with ctx.breaker("gateway"):
                pass
        return "well"

    report = await bench(work).result()
    assert (output(report), data_of(report)["calls"]) == ("well", {"gateway": [False, False]})


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (Transient("later", code="BUSY"), True),
        (Transient("later", code="OTHER"), False),
        (Permanent("no", code="OTHER"), False),
        (Permanent("no", code=["other"]), False),  # type: ignore[arg-type]
        (ValueError("no"), True),
        (DependencyDown("gateway"), True),
    ],
)
async def test_a_call_that_raises_fails_if_its_code_counts(error: Exception, failed: bool) -> None:
    async def work(*, ctx: AsyncContext) -> None:
        async with ctx.breaker("gateway"):
            pass
        async with ctx.breaker("gateway"):
            raise error

    assert data_of(await bench(work).result())["calls"] == {"gateway": [False, failed]}


async def test_an_open_breaker_lets_no_call_begin() -> None:
    called: list[int] = []

    def work(*, ctx: Context) -> None:
        with ctx.breaker("down"):
            called.append(1)

    data = data_of(await bench(work).result())
    assert (data["code"], data["down"], data["class"], called) == ("DEPENDENCY_DOWN", "down", "transient", [])
    assert "calls" not in data


async def test_an_undeclared_breaker_fails_permanently() -> None:
    async def work(*, ctx: AsyncContext) -> None:
        async with ctx.breaker("gatway"):
            pass

    data = data_of(await bench(work).result())
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")
    assert "declare it under 'breakers'" in data["message"]


# Probes


def probing(function: Any) -> tuple[BreakerRules, Registry, Outgoing]:
    return BreakerRules("gateway", probe_handler="check"), Registry([describe(function, "check")]), Outgoing()


async def test_a_probe_that_returns_finds_the_dependency_well() -> None:
    async def well() -> int:
        return 1

    assert await probe(*probing(well)) is None
    assert await probe(*probing(lambda: None)) is None


async def test_a_probe_that_raises_says_what_is_wrong() -> None:
    def broken() -> None:
        raise ConnectionError("no route")

    async def leaves() -> None:
        raise SystemExit(3)

    async def is_cancelled() -> None:
        raise asyncio.CancelledError

    assert await probe(*probing(broken)) == "ConnectionError: no route"
    assert await probe(*probing(leaves)) == "SystemExit: 3"
    assert await probe(*probing(is_cancelled)) == "CancelledError: "


async def test_a_probe_cannot_ask_for_a_context() -> None:
    def wants(*, ctx: Context) -> None: ...

    problem = await probe(*probing(wants))
    assert problem is not None
    assert "must do without ctx" in problem


async def test_an_address_that_does_not_answer_is_not_well() -> None:
    rules = BreakerRules("gateway", probe_url="http://127.0.0.1:9/")
    problem = await probe(rules, Registry(), Outgoing(["127.0.0.1"]))
    assert problem is not None
    assert problem.startswith("http://127.0.0.1:9/: ")
