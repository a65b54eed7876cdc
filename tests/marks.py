"""Which tests wait for `make chaos`: those that take seconds, if `make test` runs another one of their kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests import sources

IN_CHAOS = pytest.mark.chaos

HTTP_IN_CHAOS = pytest.mark.parametrize(
    "each_source", [sources.DATABASE, pytest.param(sources.HTTP, marks=IN_CHAOS)], indirect=True
)
"""For a test that uses `each_source`: `make test` runs it with a worker at the database alone."""


def rest_in_chaos(values: Iterable[Any], *here: Any) -> list[Any]:
    """Parameters, of which `make test` runs only some. A tuple is several parameters."""
    sets = [(one, one if isinstance(one, tuple) else (one,)) for one in values]
    return [pytest.param(*own, marks=() if one in here else IN_CHAOS) for one, own in sets]
