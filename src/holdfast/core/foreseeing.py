"""What will become of a job's nodes when a part of it runs again, as far as that can be known before it does.

Whatever runs is taken to succeed. What a conditional decides, and how wide a fan-out is whose source changes, is known
when they have run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from holdfast.core.batching import batches_of
from holdfast.core.kinds import has_task_per_item
from holdfast.core.readiness import SKIPPED_BY_PERSON, View, view
from holdfast.core.states import TERMINAL, JobState, Status
from holdfast.define.template import Template
from holdfast.errors import TemplateError


class Fate(IntEnum):
    """What happens to a node once all that it waits for has ended. The larger value prevails. For those who wait for
    it, one that ends badly is as good as cancelled."""

    RUNS = 0
    MAY_RUN = 1
    IS_SKIPPED = 2
    IS_CANCELLED = 3


@dataclass(slots=True)
class Foresight:
    """What is known of the nodes that a verb changes; filled in the order of the graph."""

    state: JobState
    fates: dict[str, Fate] = field(default_factory=dict)
    begins_again: set[str] = field(default_factory=set)
    """Those that begin from their start, with a width of their own."""
    skipped: str | None = None
    """The one that a person skips."""
    taken: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The conditionals that run again and whose branch is known."""
    widths: dict[str, int] = field(default_factory=dict)
    """The fan-outs whose items were matched and counted."""

    def fate_of(self, name: str) -> tuple[Fate, str | None]:
        """What happens to a node, and the dependency that makes it so where it does not simply run."""
        graph = self.state.program.graph
        fates: list[tuple[Fate, str | None]] = [(Fate.RUNS, None)]
        if graph.all_of[name]:
            fates.append(_of_all([(self._seen(source, name), source) for source in graph.all_of[name]]))
        if graph.any_of[name]:
            fates.append(_of_any([(self._seen(source, name), source) for source in graph.any_of[name]]))
        return max(fates, key=lambda one: one[0])

    def _seen(self, source: str, target: str) -> View | None:
        """What the target will see; None: that is decided when the source has run."""
        fate = self.fates.get(source)
        if fate is None and self.state.nodes[source].status in TERMINAL:
            return view(self.state, source, target)
        if fate is Fate.IS_CANCELLED:
            return View.BAD
        if fate is Fate.IS_SKIPPED:
            return View.ABSENT
        branches = self.state.program.nodes[source].node.branches
        if source in self.taken and any(target in branch.targets for branch in branches):
            return View.OK if target in self.taken[source] else View.ABSENT
        is_decided_later = fate is Fate.MAY_RUN or any(target in branch.targets for branch in branches)
        return None if is_decided_later else View.OK

    def tasks_of(self, name: str) -> int | None:
        """How many tasks a node has when it begins from its start; None: that is not known yet."""
        program = self.state.program.nodes[name]
        if has_task_per_item(self.state, name):
            return self._width_of(name)
        last = 0 if program.task is None else 1
        if program.batches is None:
            return last
        width = self._width_of(self.state.program.graph.fan_out_of[name])
        if width is None or not (program.batch_size is None or self._is_known(program.batch_size)):
            return None
        return last + batches_of(self.state, name, width)

    def _width_of(self, name: str) -> int | None:
        """How many items a fan-out has when the verb is carried out."""
        node, source = self.state.nodes[name], self.state.program.nodes[name].source
        assert source is not None
        if name == self.skipped:
            return node.expanded
        if name in self.widths:
            return self.widths[name]
        if name not in self.begins_again:
            return node.width if node.width or node.status in TERMINAL else None
        if self._is_known(source):
            try:
                items = source.render(self.state.scope)
            except TemplateError:
                return 0
            return len(items) if isinstance(items, list) else 0
        return node.width if self._stays(source) and _was_expanded(self.state, name) else None

    def _is_known(self, template: Template) -> bool:
        """Whether it is made of the inputs alone. Who makes a plan does not read the outputs of nodes."""
        return template.roots <= {"inputs", "input"}

    def _stays(self, template: Template) -> bool:
        """Whether it gives what it gave: what it reads is kept."""
        if not template.roots <= {"inputs", "input", "nodes"}:
            return False
        read = [path for path in template.paths if path[0] == "nodes"]
        return all(len(path) > 1 and self._is_kept(str(path[1])) for path in read)

    def _is_kept(self, name: str) -> bool:
        return name not in self.fates and self.state.nodes[name].status in TERMINAL


def _of_all(seen: list[tuple[View | None, str]]) -> tuple[Fate, str | None]:
    found = dict(reversed(seen))
    if View.BAD in found:
        return Fate.IS_CANCELLED, found[View.BAD]
    if View.OK in found:
        return Fate.RUNS, None
    return (Fate.MAY_RUN, found[None]) if None in found else (Fate.IS_SKIPPED, found[View.ABSENT])


def _of_any(seen: list[tuple[View | None, str]]) -> tuple[Fate, str | None]:
    found = dict(reversed(seen))
    if View.OK in found:
        return Fate.RUNS, None
    if None in found:
        return Fate.MAY_RUN, found[None]
    return (Fate.IS_CANCELLED, found[View.BAD]) if View.BAD in found else (Fate.IS_SKIPPED, found[View.ABSENT])


def _was_expanded(state: JobState, name: str) -> bool:
    """Whether its width is that of its source. Where a person skipped the rest, it is as wide as it was by then."""
    node = state.nodes[name]
    return node.reason != SKIPPED_BY_PERSON and (node.width > 0 or node.status is Status.COMPLETED)
