"""A shop whose orders can be undone: its workflow, and handlers that note what they do and what they are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.define.registry import Registry
from holdfast.operations.verbs import Plan, Verb, VerbRequest
from tests.conftest import eventually
from tests.running import Engine, registry

ORDER = """
workflow_id: order
inputs: {book: {type: string, default: atlas}, text: {type: string, default: ""}}
nodes:
  price: {handler: price, params: {book: "{{ inputs.book }}"}, next: reserve}
  reserve:
    handler: reserve
    params: {book: "{{ inputs.book }}", text: "{{ inputs.text }}"}
    compensate: release
    next: charge
  charge:
    handler: charge
    params: {amount: "{{ nodes.price.output }}"}
    compensate: {handler: refund, queue: money, retry: {max_retries: 1, initial_delay_seconds: 0, jitter: none}}
    next: ship
  ship: {handler: ship, params: {text: "{{ inputs.text }}"}, retry: {max_retries: 0}, compensate: recall}
"""


class Shop:
    """What its handlers have done, in order, what of it is still there, and what each undo was given."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.there: set[str] = set()
        self.given: dict[str, tuple[Any, Any]] = {}
        self.refuses: set[str] = set()
        """The handlers that fail."""

    def _do(self, name: str) -> None:
        self.did.append(name)
        if name in self.refuses:
            raise ConnectionError(f"{name} is closed")

    def make(self, name: str) -> None:
        self._do(name)
        self.there.add(name)

    def take_back(self, name: str, handler: str, params: Any, output: Any) -> None:
        self._do(handler)
        self.given[handler] = (params, output)
        self.there.discard(name)

    @property
    def registry(self) -> Registry:
        def price(book: str) -> int:
            self.did.append("price")
            return 30

        def reserve(book: str, text: str) -> str:
            self.make("reserve")
            return book + text

        def charge(amount: int) -> dict[str, int]:
            self.make("charge")
            return {"paid": amount}

        def ship(text: str) -> str:
            self.make("ship")
            return "parcel" + text

        def release(params: Any, output: Any) -> None:
            self.take_back("reserve", "release", params, output)

        def refund(params: Any, output: Any) -> None:
            self.take_back("charge", "refund", params, output)

        def recall(output: Any) -> None:
            self.take_back("ship", "recall", None, output)

        def each(item: int, text: str) -> dict[str, Any]:
            self.make(f"each {item}")
            return {"item": item, "text": text}

        def page(page: Any) -> str:
            self.make(f"page {page['offset']}")
            return f"page {page['offset']}"

        def last() -> str:
            self.make("last")
            return "last"

        def undo_each(params: Any, output: Any) -> None:
            self.take_back(f"each {output['item']}", f"undo each {output['item']}", params, output)

        def undo_page(params: Any, output: str) -> None:
            self.take_back(output, f"undo {output}", params, output)

        def undo_last(output: str) -> None:
            self.take_back(output, f"undo {output}", None, output)

        functions = (price, reserve, charge, ship, release, refund, recall)
        many = (each, page, last, undo_each, undo_page, undo_last)
        return registry(**{function.__name__: function for function in (*functions, *many)})


async def ended(engine: Engine, job_id: str, generation: int) -> dict[str, Any]:
    """The status of the job once that generation of it has ended."""

    async def has_ended() -> bool:
        status = await engine.status(job_id)
        return status["generation"] >= generation and status["finished_at"] is not None

    await eventually(has_ended, 30.0)
    return await engine.status(job_id)


async def carried_out(
    engine: Engine, job_id: str, verb: Verb, node: str | None = None, **more: Any
) -> tuple[Plan, dict[str, Any]]:
    """A verb, and the job when what it has started is over."""
    plan = await engine.client.plan(job_id, replace(VerbRequest(verb, node), **more))
    result = await engine.client.carry_out(plan, seconds=20)
    assert result.is_applied, result
    return plan, await ended(engine, job_id, plan.generation + 1)
