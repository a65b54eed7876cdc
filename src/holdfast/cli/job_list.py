"""The list of jobs that `status` shows: its filters as they are typed, and its lines."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from rich.text import Text

from holdfast.cli.render import job_mark, job_time, job_wait, pause_text
from holdfast.cli.streams import harmless
from holdfast.cli.words import GAP, aligned, cut, day_and_clock, parse_moment, short
from holdfast.errors import InvalidInput
from holdfast.views.jobs import JobSummary


@dataclass(frozen=True, slots=True)
class Filters:
    """The flags that narrow a list of jobs, as they were typed."""

    status: Sequence[str] = ()
    workflow: str | None = None
    since: str | None = None
    until: str | None = None
    code: str | None = None
    key: str | None = None
    label: Sequence[str] = ()
    unacknowledged: bool = False

    @property
    def are_given(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def arguments(self) -> dict[str, Any]:
        """For `Client.jobs`."""
        return {
            "status": list(self.status) or None,
            "workflow_id": self.workflow,
            "since": parse_moment(self.since, "--since") if self.since is not None else None,
            "until": parse_moment(self.until, "--until") if self.until is not None else None,
            "code": self.code,
            "key": self.key,
            "labels": parse_labels(self.label) or None,
            "unacknowledged": self.unacknowledged,
        }

    def words(self) -> str:
        """The flags again, for the command that shows the next page."""
        words: list[str] = []
        for one in fields(self):
            value = getattr(self, one.name)
            if value is True:
                words.append(f"--{one.name}")
            for text in value if isinstance(value, list | tuple) else [value] if isinstance(value, str) else []:
                words += [f"--{one.name}", shlex.quote(text)]
        return "".join(f" {word}" for word in words)


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """The labels of some `NAME=VALUE`."""
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"--label: '{text}' has no '='.", remedy="Write NAME=VALUE: --label team=maps")
        if name in labels:
            raise InvalidInput(f"--label: the label {name} stands twice.", remedy="Give each label one value.")
        labels[name] = value
    return labels


def job_lines(jobs: Sequence[JobSummary]) -> list[Text]:
    """A heading and one line per job. Nothing is cut: an id that is cut finds no job."""
    rows = [["job", "workflow", "status", "tasks", "created", "took"], *map(_cells, jobs)]
    if any(job.labels for job in jobs):
        rows = [[*rows[0], "labels"], *([*cells, labels_text(job)] for cells, job in zip(rows[1:], jobs, strict=True))]
    heading, *lines = map(Text, aligned(rows))
    heading.stylize("bold")
    begin = max(len(cells[0]) for cells in rows) + max(len(cells[1]) for cells in rows) + 2 * len(GAP)
    shown = [heading]
    for line, cells, job in zip(lines, rows[1:], jobs, strict=True):
        line.stylize(job_mark(job)[1], begin, begin + len(cells[2]))
        shown.append(line)
        if job.pause is not None:
            shown.append(Text(f"{GAP}↳ paused {cut(pause_text(job.pause), 400)}", style="yellow"))
    return shown


def _cells(job: JobSummary) -> list[str]:
    counts = job.counts
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    acknowledged = ", acknowledged" if job.acknowledged is not None else ""
    return [
        short(job.job_id),
        harmless(job.workflow_id),
        f"{job_mark(job)[0]} {job.state}{acknowledged}",
        f"{counts.completed:,}/{counts.total:,}{failed}",
        day_and_clock(job.created_at),
        ", ".join(part for part in (job_time(job), job_wait(job)) if part) if job.started_at is not None else "",
    ]


def labels_text(job: JobSummary) -> str:
    return " ".join(f"{name}={harmless(value)}" for name, value in sorted(job.labels.items()))
