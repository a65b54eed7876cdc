"""A worker checks what its handlers return before it reports it, however they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.define.contract import Contract
from holdfast.define.registry import Registry, Result
from holdfast.store.records import Report
from holdfast.worker.context import Context
from holdfast.worker.execute import begin
from tests.worker import isolated
from tests.worker.attempts import Bench, bench, data_of, lease, output

pytestmark = pytest.mark.anyio

BANDS = Contract({"properties": {"bands": {"type": "array", "minItems": 1}}})


async def result(made: Bench, handler: str = "under_test", params: dict[str, Any] | None = None, **more: Any) -> Report:
    attempt = begin(lease(handler, params, node="stack", has_contract=True))
    attempt.contract = BANDS
    for name, value in more.items():
        setattr(attempt, name, value)
    report = await made.run(attempt)
    assert report is not None
    return report


def of(bands: list[int]) -> dict[str, Callable[..., Any]]:
    def plain() -> Any:
        return {"bands": bands}

    async def asynchronous() -> Any:
        return {"bands": bands}

    def rich() -> Any:
        return Result({"bands": bands}, warnings=("careful",), deliverables={"cogs": "a.tif"})

    return {"plain": plain, "asynchronous": asynchronous, "rich": rich}


@pytest.mark.parametrize("kind", ["plain", "asynchronous", "rich"])
async def test_an_output_that_breaks_its_contract_is_a_permanent_failure_with_both_sides(kind: str) -> None:
    report = await result(bench(of([])[kind]))
    assert (report.outcome, report.output) == ("failed", None)
    assert data_of(report) == {
        "code": "CONTRACT_VIOLATION",
        "class": "permanent",
        "message": "the output of stack does not match its output_schema: "
        "at /bands: expected an array of at least 1 item, got []",
    }


@pytest.mark.parametrize("kind", ["plain", "asynchronous", "rich"])
async def test_an_output_that_matches_its_contract_is_reported_unchanged(kind: str) -> None:
    report = await result(bench(of([1])[kind]))
    assert output(report) == {"bands": [1]}


@pytest.mark.parametrize("handler", ["tells_bands", "tells_bands_async"])
async def test_an_output_from_a_process_of_its_own_is_checked_too(handler: str) -> None:
    registry = Registry()
    registry.add_module(isolated)
    broken = await result(Bench(registry), handler, {"bands": []})
    assert data_of(broken)["code"] == "CONTRACT_VIOLATION"
    assert data_of(broken)["log"] == "looking for bands\n"
    kept = await result(Bench(registry), handler, {"bands": [3]})
    assert output(kept) == {"bands": [3]}


async def test_a_large_output_is_checked_before_it_is_stored() -> None:
    def large() -> Any:
        return {"bands": {"a": "x" * 10_000}}

    made = bench(large, inline_bytes=100)
    report = await result(made)
    assert data_of(report)["message"].endswith('at /bands: expected an array, got {"a":"' + "x" * 93 + "…")
    assert "output_ref" not in data_of(report)


async def test_a_task_that_is_given_back_has_no_output_to_check() -> None:
    def stops(*, ctx: Context) -> None:
        assert ctx.cancelled

    assert (await result(bench(stops), cancelled=True)).outcome == "given_back"
