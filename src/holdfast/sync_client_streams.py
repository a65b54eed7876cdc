"""The part of `SyncClient` that follows events as they happen."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from holdfast.sync_client_gates import Face
from holdfast.views.streams import Streamed


class SyncStreams(Face):
    """Streams of events."""

    def stream(
        self,
        job_id: str | None = None,
        *,
        after: str | int | None = None,
        workflows: Collection[str] | None = None,
        events: Collection[str] | None = None,
    ) -> Iterator[Streamed]:
        """The events of a job until it has ended; without a job those of all jobs of the tenant, without an end.

        `after` is the cursor of the last step that was seen. Without it, a job's stream begins with its first event,
        and the stream of all jobs with what happens from now on. Of all jobs, `workflows` and `events` choose by the
        workflow's id and the event's name. A step without an event says that some may be missing before it.
        """
        return self._loop.iterate(self._client.stream(job_id, after=after, workflows=workflows, events=events))
