"""What the janitor found and did, and what was pruned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.moments import moment
from holdfast.store.pruning import OldestLeft, Pruned
from holdfast.store.tidying import ActionView, Finding, LeaderView


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "duty": finding.duty,
        "action": finding.action,
        "job_id": finding.job_id,
        "node": finding.node,
        "index": finding.item,
        "reason": finding.reason,
        "before": finding.before,
        "after": finding.after,
    }


def action_json(action: ActionView) -> dict[str, Any]:
    return {
        "run": action.run,
        "duty": action.duty,
        "action": action.action,
        "job_id": action.job_id,
        "node": action.node,
        "index": action.item,
        "reason": action.reason,
        "before": action.before,
        "after": action.after,
        "at": moment(action.at),
    }


def leader_json(leader: LeaderView | None) -> dict[str, Any] | None:
    if leader is None:
        return None
    return {
        "holder": leader.holder,
        "since": moment(leader.since),
        "lease_seconds": round(leader.lease_seconds, 3),
    }


def pruned_json(pruned: Sequence[Pruned], left: OldestLeft | None, leftovers: int, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "jobs": sum(one.jobs for one in pruned),
        "tasks": sum(one.tasks for one in pruned),
        "bytes": sum(one.bytes for one in pruned),
        "pruned": [one._asdict() | {"oldest": moment(one.oldest)} for one in pruned],
        "oldest_left": left._asdict() | {"finished_at": moment(left.finished_at)} if left is not None else None,
        "leftovers": leftovers,
    }
