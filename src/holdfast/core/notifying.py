"""Which events of a job have receivers, and what the outbox keeps of them: one notice per event, node and cycle.

The owner writes the notices in the commit that writes the events. The delivering processes find the receivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.effects import Effect, Emit, Notice
from holdfast.core.events import EventName
from holdfast.core.states import JobState
from holdfast.define.notify import NotifyEvent, is_address
from holdfast.errors import TemplateError, cut

MOST_ITEMS = 100
"""How many items a notice lists; it counts all."""
_NAMES: dict[str, NotifyEvent] = {
    EventName.JOB_COMPLETED: NotifyEvent.JOB_COMPLETED,
    EventName.JOB_PARTIAL: NotifyEvent.JOB_PARTIAL,
    EventName.JOB_FAILED: NotifyEvent.JOB_FAILED,
    EventName.JOB_CANCELLED: NotifyEvent.JOB_CANCELLED,
    EventName.JANITOR_ACTED: NotifyEvent.JOB_STUCK,
    EventName.TASK_FAILED: NotifyEvent.TASK_EXHAUSTED,
    EventName.NODE_FAILED: NotifyEvent.NODE_FAILED,
    EventName.BREAKER_OPENED: NotifyEvent.BREAKER_OPENED,
    EventName.BREAKER_CLOSED: NotifyEvent.BREAKER_CLOSED,
}
_KEPT = ("code", "message", "class", "reason", "duty", "breaker", "until")
"""What a notice keeps of the data of an event."""


def names_of(event: Emit) -> tuple[NotifyEvent, ...]:
    """The names under which receivers get an event of the history. The failure of a node's own task has two."""
    name = _NAMES.get(event.event)
    if name is None:
        return ()
    if name is NotifyEvent.NODE_FAILED and event.attempt is not None:
        return NotifyEvent.TASK_EXHAUSTED, name
    return (name,)


def notices(state: JobState, effects: Iterable[Effect]) -> Iterator[Notice]:
    """The notices of those events among these effects that have a receiver."""
    for effect in effects:
        if isinstance(effect, Emit):
            for event in names_of(effect):
                if state.wants(event):
                    yield _notice(state, effect, event)


def merged(first: Notice, second: Notice) -> Notice:
    """Two notices of the same event and node in one cycle as one: it says what the first failure was."""
    return first._replace(
        seq=second.seq,
        event_count=first.event_count + second.event_count,
        items=[*first.items, *second.items][:MOST_ITEMS],
        rules=first.rules or second.rules,
    )


def _notice(state: JobState, event: Emit, name: NotifyEvent) -> Notice:
    data = event.data or {}
    return Notice(
        tenant=state.tenant,
        job_id=state.job_id,
        workflow_id=state.program.definition.workflow_id,
        node=event.node,
        event=str(name),
        generation=state.generation,
        seq=event.seq,
        event_count=data.get("count", 1),
        items=_items(event, data),
        data={key: data[key] for key in _KEPT if key in data},
        rules=list(_receivers(state, name)),
    )


def _items(event: Emit, data: Mapping[str, Any]) -> list[int]:
    """The first of the items that the event concerns."""
    if event.item is not None:
        return [event.item]
    listed: list[int] = []
    for first, last in data.get("items", ()):
        listed += range(first, min(last + 1, first + MOST_ITEMS))
    return listed[:MOST_ITEMS]


def _receivers(state: JobState, name: NotifyEvent) -> Iterator[dict[str, str]]:
    """The receivers that the job itself names: by the rules of its workflow and of its submission.

    No rule stops the job: one whose address cannot be made says why instead.
    """
    seen = []
    for rule, address in state.program.notify:
        if name in rule.on:
            receiver = rule.receiver()
            if address is not None and not address.is_constant:
                receiver = _rendered(address.render, state.scope)
            seen.append(receiver)
    seen += [rule.receiver() for rule in state.notify if name in rule.on]
    for place, receiver in enumerate(seen):
        if receiver not in seen[:place]:
            yield receiver


def _rendered(render: Any, scope: Mapping[str, Any]) -> dict[str, str]:
    try:
        address = render(scope)
    except TemplateError as problem:
        return {"email": "", "problem": str(problem)}
    if not isinstance(address, str) or not is_address(address):
        return {"email": "", "problem": f"notify.email gives {cut(str(address))!r}, which is not an e-mail address"}
    return {"email": address}
