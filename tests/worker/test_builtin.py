"""The handlers of every installation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.attempts import builtin, data_of, output

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("params", [{}, {"a": 1, "b": [None]}, {"steps": "1"}, {"message": "hi", "step_delay": "0"}])
async def test_echo_returns_all_params(params: dict[str, Any]) -> None:
    assert output(await builtin().result(params, "echo")) == {"echoed_params": params}


async def test_echo_saves_a_checkpoint_between_its_steps_and_resumes_there() -> None:
    desk = builtin()
    params = {"steps": "3", "step_delay": "0"}
    assert output(await desk.result(params, "echo")) == {"echoed_params": params}
    assert desk.checkpoints == [(1, "step_1", {"next_step": 2}), (2, "step_2", {"next_step": 3})]
    desk.checkpoints.clear()
    await desk.result(params, "echo", resume_point=("step_1", {"next_step": 2}), checkpoint_seq=1)
    assert desk.checkpoints == [(2, "step_2", {"next_step": 3})]


async def test_hello_world_greets() -> None:
    assert output(await builtin().result({}, "hello_world")) == {"message": "Hello, World!", "name": "World"}
    assert output(await builtin().result({"name": "Ada"}, "hello_world"))["message"] == "Hello, Ada!"


async def test_sleep_takes_numbers_as_strings() -> None:
    assert output(await builtin().result({"duration_seconds": "0.001"}, "sleep")) == {"slept_seconds": 0.001}


@pytest.mark.parametrize(
    ("params", "permanent"),
    [({}, False), ({"permanent": True}, True), ({"permanent": "true"}, True), ({"permanent": False}, False)],
)
async def test_fail_fails_as_asked(params: dict[str, Any], permanent: bool) -> None:
    report = await builtin().result({"error_message": "no luck", **params}, "fail")
    assert (report.outcome, data_of(report)["message"], data_of(report)["class"]) == (
        "failed",
        "no luck",
        "permanent" if permanent else "transient",
    )


async def test_flaky_echo_fails_with_its_rate() -> None:
    assert output(await builtin().result({"failure_rate": "0", "a": 1}, "flaky_echo"))["echoed_params"]["a"] == 1
    report = await builtin().result({"failure_rate": "1.0"}, "flaky_echo")
    assert (report.outcome, data_of(report)["class"]) == ("failed", "transient")


async def test_multi_phase_goes_on_in_the_phase_that_was_not_finished() -> None:
    desk = builtin()
    assert output(await desk.result({"phases": "3"}, "multi_phase")) == {"phases": 3, "resumed_from": 0}
    assert [name for _, name, _ in desk.checkpoints] == ["phase_1", "phase_2", "phase_3"]
    desk.checkpoints.clear()
    again = await desk.result({}, "multi_phase", resume_point=("phase_2", {"phase": 2}), checkpoint_seq=2)
    assert output(again) == {"phases": 3, "resumed_from": 2}
    assert desk.checkpoints == [(3, "phase_3", {"phase": 3})]


@pytest.mark.parametrize(("size", "route"), [(5, "light"), ("209715200", "heavy")])
async def test_size_check_names_the_route(size: int | str, route: str) -> None:
    result = output(await builtin().result({"size_bytes": size}, "size_check"))
    assert (result["route"], result["size_bytes"]) == (route, int(size))


async def test_chunk_processor_names_the_chunk_that_it_processed() -> None:
    result = output(await builtin().result({"chunk_id": "7", "chunk_data": [1, 2, 3]}, "chunk_processor"))
    assert result == {"chunk_id": "7", "processed": 3}
