"""What handlers printed, as `holdfast logs` shows it: line by line with times, and while they run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from holdfast.cli.streams import answer, answer_json, harmless
from holdfast.cli.words import clock
from holdfast.client import Client
from holdfast.views.encoding import to_json
from holdfast.views.history import RUNNING, Attempt, LogTime
from holdfast.views.jobs import Job


def log_lines(log: str, times: Sequence[LogTime]) -> Iterator[str]:
    """`12:03:11.021 | copying page 3`; without times only the text."""
    at, upcoming = "", deque(times)
    for number, line in enumerate(log.removesuffix("\n").split("\n") if log else ()):
        while upcoming and upcoming[0].line <= number:
            at = f"{clock(upcoming.popleft().at)} "
        yield from (f"{at}| {part}" for part in line.splitlines() or [""])


async def follow(
    client: Client, job_id: str, *, node: str | None, item: int | None, tail: int | None, as_json: bool
) -> None:
    """Show the lines of all attempts as they come, until the job has ended."""
    async for attempt in client.follow_logs(job_id, node=node, index=item, tail=tail):
        if as_json:
            answer_json(to_json(attempt))
        else:
            for line in _followed_lines(attempt):
                answer(harmless(line))


def _followed_lines(attempt: Attempt) -> Iterator[str]:
    """Lines of several attempts mix: each says whose it is."""
    where = attempt.node if attempt.index is None else f"{attempt.node}[{attempt.index}]"
    for line in log_lines(attempt.log or "", attempt.log_times):
        yield f"{where}  {line}"
    if attempt.outcome != RUNNING:
        error = f": {attempt.error.code}: {attempt.error.message}" if attempt.error is not None else ""
        yield f"{where}  attempt {attempt.attempt} {attempt.outcome}{error}"


def nothing_printed(job: Job, node: str | None) -> str:
    """Why there is nothing to show."""
    running = [one for one in job.nodes if one.counts.running and node in (None, one.node)]
    if not running:
        return "Nothing was printed and no attempt failed."
    first = running[0]
    if first.attempt:
        return f"Attempt {first.attempt} of {first.node} is running and has printed nothing yet."
    return f"{first.node} is running and has printed nothing yet."
