"""The receivers of a world, and the check that the outbox has exactly their events: invariant 26."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from holdfast.core.effects import Emit
from holdfast.core.notifying import MOST_ITEMS, names_of
from holdfast.define.definition import Definition
from holdfast.define.notify import EVERY_TENANT, JOB_ENDS, OF_JOBS, NotifyRule, events_of
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


def draw_hooks(chance: random.Random) -> dict[str, frozenset[str]]:
    """Sometimes an app has a hook, which gets the ends of the jobs of every tenant."""
    return {EVERY_TENANT: frozenset(map(str, JOB_ENDS))} if chance.random() < 0.3 else {}


def _rule(chance: random.Random) -> NotifyRule:
    events = tuple(chance.sample(OF_JOBS, chance.randint(1, 4)))
    if chance.random() < 0.5:
        return NotifyRule(events, webhook="pager")
    return NotifyRule(events, email=chance.choice(ADDRESSES))


MADE, UNMADE = "an address from an input", "an address that cannot be made"


def _rendered(rule: NotifyRule) -> str:
    """The receiver of a rule of the workflow. A correction may change the input that an address is made from."""
    made = {ADDRESSES[1]: MADE, ADDRESSES[2]: UNMADE}
    return made.get(rule.email or "") or _as_text(rule.receiver())


def _recognised(given: dict[str, str]) -> str:
    """A receiver in a notice, in the same words."""
    if "problem" in given:
        return UNMADE
    email = given.get("email", "")
    return MADE if email.endswith("@example.org") and email not in ADDRESSES else _as_text(given)


def _as_text(receiver: dict[str, str]) -> str:
    return str(sorted(receiver.items()))


def check_notices(db: Database, job_id: str, rules: tuple[NotifyRule, ...]) -> None:
    """26: every event that has a receiver is in exactly one notice, and no other event is in any.

    Each notice names each receiver of its event once, and no other one.
    """
    job = db.jobs[job_id]
    submitted = tuple(NotifyRule.from_json(rule) for rule in job["notify"] or ())
    wanted = events_of((*rules, *submitted))
    wanted = wanted.union(*(db.subscriptions.get(tenant, ()) for tenant in (job["tenant"], EVERY_TENANT)))
    expected: Counter[tuple[str, str | None]] = Counter()
    for seq, event, node, item, attempt, data in db.events[job_id]:
        for name in names_of(Emit(job_id, seq, event, node, item, attempt, data)):
            if name in wanted:
                expected[str(name), node] += (data or {}).get("count", 1)
    found: Counter[tuple[str, str | None]] = Counter()
    for notice in db.outbox[job_id]:
        found[notice.event, notice.node] += notice.event_count
        assert len(notice.items) <= min(MOST_ITEMS, notice.event_count), f"26: {notice} lists too many items"
        named = {_rendered(rule) for rule in rules if notice.event in rule.on}
        named |= {_as_text(rule.receiver()) for rule in submitted if notice.event in rule.on}
        given = sorted(map(_recognised, notice.rules))
        assert given == sorted(named), f"26: {notice} lacks receivers of {job_id}, or names others: {sorted(named)}"
    assert found == expected, f"26: {job_id} has notices {found} for the events {expected}"
