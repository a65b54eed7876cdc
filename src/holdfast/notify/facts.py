"""From where is known how a job stands about which something is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.store.notify_rows import JobFacts

Look = Callable[[str, str], Awaitable[JobFacts | None]]
"""From tenant and job to its facts; None if it is gone."""
