"""The part of `Client` that follows events as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from holdfast.client_gates import Bound
from holdfast.operations import streaming
from holdfast.views.streams import Streamed


class Streams(Bound):
    """Streams of events."""

    def stream(
        self,
        job_id: str | None = None,
        *,
        after: str | int | None = None,
        workflows: Collection[str] | None = None,
        events: Collection[str] | None = None,
    ) -> AsyncIterator[Streamed]:
        """The events of a job until it has ended; without a job those of all jobs of the tenant, without an end.

        `after` is the cursor of the last step that was seen. Without it, a job's stream begins with its first event,
        and the stream of all jobs with what happens from now on. Of all jobs, `workflows` and `events` choose by the
        workflow's id and the event's name. A step without an event says that some may be missing before it.
        """
        if job_id is not None:
            return streaming.stream_job(self._scope, self._store, job_id, after=after)
        chosen = streaming.Chosen.of(workflows, events)
        place = str(after) if after is not None else None
        return streaming.stream_tenant(self._scope, self._store, after=place, chosen=chosen)
