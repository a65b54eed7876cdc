"""The receivers of a world, and the check that the outbox has exactly their events: invariant 26."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from holdfast.core.effects import Emit
from holdfast.core.notifying import MOST_ITEMS, names_of
from holdfast.define.definition import Definition
from holdfast.define.notify import OF_JOBS, NotifyRule, events_of
from holdfast.store.records import NewJob
from tests.simulation.database import Database

ADDRESSES = ("ops@example.org", "{{ inputs.n }}@example.org", "{{ inputs['items'] }}")
"""A constant address, one that is made from an input, and one that cannot be made."""


def with_receivers(definition: Definition, chance: random.Random) -> Definition:
    """Sometimes with rules for receivers."""
    if chance.random() < 0.5:
        return definition
    return replace(definition, notify=tuple(_rule(chance) for _ in range(chance.randint(1, 3))))


def with_receivers_of_its_own(job: NewJob, chance: random.Random) -> NewJob:
    """Sometimes the submission names a receiver, too."""
    return job._replace(notify=[_rule(chance).to_json()]) if chance.random() < 0.3 else job


def draw_subscriptions(chance: random.Random) -> dict[str, frozenset[str]]:
    """Sometimes a webhook of the tenant subscribes to some events."""
    if chance.random() < 0.6:
        return {}
    return {"default": frozenset(str(event) for event in chance.sample(OF_JOBS, chance.randint(1, 4)))}


def _rule(chance: random.Random) -> NotifyRule:
    events = tuple(chance.sample(OF_JOBS, chance.randint(1, 4)))
    if chance.random() < 0.5:
        return NotifyRule(events, webhook="pager")
    return NotifyRule(events, email=chance.choice(ADDRESSES))


def check_notices(db: Database, job_id: str, rules: tuple[NotifyRule, ...]) -> None:
    """26: every event that has a receiver is in exactly one notice, and no other event is in any."""
    job = db.jobs[job_id]
    submitted = tuple(NotifyRule.from_json(rule) for rule in job["notify"] or ())
    wanted = events_of((*rules, *submitted)) | db.subscriptions.get(job["tenant"], frozenset())
    expected: Counter[tuple[str, str | None]] = Counter()
    for seq, event, node, item, attempt, data in db.events[job_id]:
        for name in names_of(Emit(job_id, seq, event, node, item, attempt, data)):
            if name in wanted:
                expected[str(name), node] += (data or {}).get("count", 1)
    found: Counter[tuple[str, str | None]] = Counter()
    for notice in db.outbox[job_id]:
        found[notice.event, notice.node] += notice.event_count
        assert len(notice.items) <= min(MOST_ITEMS, notice.event_count), f"26: {notice} lists too many items"
        named = {tuple(sorted(rule.receiver())) for rule in (*rules, *submitted) if notice.event in rule.on}
        assert bool(named) == bool(notice.rules), f"26: {notice} lacks the receivers of {job_id}, or names others"
    assert found == expected, f"26: {job_id} has notices {found} for the events {expected}"
