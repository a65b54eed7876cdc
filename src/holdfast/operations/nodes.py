"""Which node and which item of a job a person means; refuses those that the job does not have."""

from __future__ import annotations

from holdfast.core.states import Status
from holdfast.define.kinds import kind_of
from holdfast.define.node import Node
from holdfast.define.source import did_you_mean
from holdfast.errors import NotFound
from holdfast.remedies import Remedy
from holdfast.store.read_rows import NodeView, Snapshot
from holdfast.views.verbs import items_text

SHOWN_NODES = 20


def find_node(snapshot: Snapshot, text: str) -> Node:
    """The node of that name, or with that number of its stage."""
    nodes = snapshot.definition.nodes
    for node in nodes:
        if text == node.name or text == str(snapshot.graph.stage_number(node.name)):
            return node
    if snapshot.unreadable is not None:
        # The definition may have it: only nodes that have begun are known.
        return Node(text)
    known = [node.name for node in nodes]
    meant = did_you_mean(text, known)
    raise NotFound(
        f"The job's workflow has no node '{text}'.{f' {meant}' if meant else ''}",
        remedy=f"Its nodes are: {', '.join(known[:SHOWN_NODES])}",
    )


def has_items(snapshot: Snapshot, node: Node) -> bool:
    """Whether the node has many tasks, with item numbers from 0."""
    row = snapshot.nodes.get(node.name)
    if snapshot.unreadable is not None:
        return row is not None and (row.batch_size is not None or row.width > 1)
    return kind_of(node).has_items(node)


def reached(snapshot: Snapshot, node: Node) -> NodeView | None:
    """The row of a node that was reached: then its width is known."""
    row = snapshot.nodes.get(node.name)
    is_unknown = row is None or (row.expanded == 0 and row.status in (Status.PENDING, Status.SKIPPED, Status.CANCELLED))
    return None if is_unknown else row


def check_any_item(snapshot: Snapshot, item: int) -> None:
    """Refuse an item that no node of the job has. A node that was not reached may get it yet."""
    nodes = [node for node in snapshot.definition.nodes if has_items(snapshot, node)]
    rows = [reached(snapshot, node) for node in nodes]
    if snapshot.unreadable is not None or any(row is None or item < row.numbers for row in rows):
        return
    texts = [items_text(row.node, row.numbers) for row in rows if row is not None]
    job_id = snapshot.job.job_id
    raise NotFound(
        f"Job {job_id} has no item {item}. {' '.join(texts) or 'None of its nodes has items.'}",
        remedy=Remedy("See its nodes with", "status", job_id),
        instance=job_id,
    )


def check_item(snapshot: Snapshot, node: Node, item: int) -> None:
    """Refuse an item that the node does not have. Only a node that was reached knows its items."""
    job_id = snapshot.job.job_id
    if not has_items(snapshot, node) and snapshot.unreadable is None:
        what = "one task and no items" if node.tasks else "no items"
        raise NotFound(
            f"Job {job_id} has no item {item} of {node.name}: {node.name} has {what}.",
            remedy="Leave --item out.",
            instance=job_id,
        )
    row = reached(snapshot, node)
    if row is not None and not 0 <= item < row.numbers:
        raise NotFound(
            f"Job {job_id} has no item {item} of {node.name}. {items_text(node.name, row.numbers)}",
            remedy=Remedy("List them with", "tasks", job_id, node.name),
            instance=job_id,
        )
