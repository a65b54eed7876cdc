"""What owners answer to the signals of people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Response

from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.routes.verbs import Wait
from holdfast.service.table import RouteTable

table = RouteTable("signals")


@dataclass(frozen=True, slots=True)
class OwnerAnswer:
    """What the owner of a job has answered."""

    applied: bool
    reason: str
    remedy: str | None
    """What else can be done, if the signal was refused."""


@dataclass(frozen=True, slots=True)
class AnswerState:
    """A signal, and the answer to it if there is one yet."""

    signal_id: int
    answer: OwnerAnswer | None


@table.get("/signals/{signal_id}", Permission.READ, answers=AnswerState)
async def show_answer(
    call: Call,
    signal_id: Annotated[int, Path(ge=1, le=2**63 - 1, description="The id that a verb has answered.")],
    wait: Wait = 0,
) -> Response:
    """What the owner answers to a signal; null if it has not answered in that time, and if there is no such signal."""
    found = await call.client.answer(signal_id, seconds=wait)
    if call.is_ours or found is None:
        return call.answer({"signal_id": signal_id, "answer": found})
    remedy = str(found.remedy) if found.remedy is not None else None
    return call.answer(AnswerState(signal_id, OwnerAnswer(found.applied, found.reason, remedy)))
