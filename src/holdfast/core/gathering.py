"""A fan-in without a handler: the outputs of many items become one value."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from holdfast.define.node import Aggregation
from holdfast.define.plain import OutsizedError, Sizes, kind_of, may_be_deep
from holdfast.errors import PayloadRefused

NOT_SUMMED = "which cannot be summed: return a number, or an object with numbers"


class Gathering:
    """Takes the items' outputs one by one, in item order, and keeps no more of them than its aggregation needs."""

    def __init__(self, mode: Aggregation, limit_bytes: int, node: str) -> None:
        """`node` is the one whose items or batches are gathered."""
        self._mode = mode
        self._node = node
        self._limit_bytes = limit_bytes
        self._kept: list[Any] = []
        self._kept_bytes = 0
        self._total: float | int = 0
        self._count = 0
        self._largest_bytes = 0

    def add(self, output: Any, size_bytes: int, item: int) -> None:
        """Raises PayloadRefused as soon as what is kept is too large, ValueError for what cannot be aggregated."""
        self._count += 1
        if size_bytes > self._largest_bytes:
            self._largest_bytes = size_bytes
        match self._mode:
            case Aggregation.COLLECT:
                self._keep([output], size_bytes)
            case Aggregation.CONCAT:
                self._keep(_parts(output), size_bytes)
            case Aggregation.SUM:
                if (number := _number(output)) is None:
                    raise ValueError(f"item {item} of {self._node} is {kind_of(output)}, {NOT_SUMMED}")
                self._total = _checked(self._total + number)
            case Aggregation.FIRST:
                self._kept = self._kept or [output]
            case Aggregation.LAST:
                self._kept = [output]

    def _keep(self, parts: list[Any], size_bytes: int) -> None:
        self._kept_bytes += size_bytes
        if self._kept_bytes > self._limit_bytes:
            raise PayloadRefused(
                f"the first {self._count:,} results have {self._kept_bytes:,} bytes together; "
                f"at most {self._limit_bytes:,} can be gathered into one output"
            )
        self._kept += parts

    def answer(self, left_out: Mapping[str, list[int]]) -> dict[str, Any]:
        """All of it as one value; items that failed or were skipped are left out, and listed.

        Raises PayloadRefused if it cannot be kept.
        """
        match self._mode:
            case Aggregation.COLLECT | Aggregation.CONCAT:
                answer: dict[str, Any] = {"results": self._kept, "count": len(self._kept)}
            case Aggregation.SUM:
                answer = {"total": self._total, "count": self._count}
            case Aggregation.FIRST | Aggregation.LAST:
                answer = {"result": self._kept[0] if self._kept else None, "count": self._count}
        answer |= {how: items for how, items in left_out.items() if items}
        if may_be_deep(self._largest_bytes):
            try:
                # Its bytes were counted one by one.
                Sizes().bound(answer, sys.maxsize)
            except OutsizedError as problem:
                raise PayloadRefused(f"what was gathered is {problem}; no more can be kept in one output") from None
        return answer


def _parts(result: Any) -> list[Any]:
    """A list gives its elements, an object the elements of its lists, anything else itself."""
    if isinstance(result, list):
        return result
    if isinstance(result, dict) and any(isinstance(value, list) for value in result.values()):
        return [part for value in result.values() if isinstance(value, list) for part in value]
    return [result]


def _number(result: Any) -> float | int | None:
    """A number counts itself, an object its numbers; anything else cannot be summed: None."""
    if isinstance(result, dict):
        return sum(v for v in result.values() if isinstance(v, int | float) and not isinstance(v, bool))
    if isinstance(result, int | float) and not isinstance(result, bool):
        return result
    return None


def _checked(total: float | int) -> float | int:
    if isinstance(total, int) and not -(2**63) <= total < 2**63:
        raise ValueError("the sum of the results does not fit into 64 bits")
    if not math.isfinite(total):
        raise ValueError("the sum of the results is not a finite number")
    return total
