"""What a type of node does in the core."""

from __future__ import annotations

from abc import ABC, abstractmethod

from holdfast.core.states import NodeState
from holdfast.core.turn import Turn
from holdfast.define.node import Node


class Kind(ABC):
    """The behaviour of one type of node."""

    cannot_be_skipped: str | None = None
    """Why a person cannot skip it or give its result."""
    cannot_be_set: str | None = None
    """Why a person cannot give its result."""

    @abstractmethod
    def begin(self, turn: Turn, node: NodeState) -> None:
        """What it depends on holds: do its work, or hand it to the workers. TemplateError and PayloadRefused end it."""

    def owes_results(self, node: NodeState) -> bool:
        """Whether it waits for its owner to gather results."""
        return False

    def leads_to(self, definition: Node, node: NodeState, target: str) -> bool:
        """Whether a dependent may run now that it has completed."""
        return True
