"""Nodes that have not started although every node that they wait for has ended."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.states import TERMINAL
from holdfast.janitor.duty import RECHECK, JobDuty
from holdfast.janitor.ports import JanitorStore
from holdfast.store.upkeep_rows import Fact, Finding


class UnstartedNodes(JobDuty):
    name = "stages"
    """Programs read this name in the janitor's log, so it keeps its old spelling."""

    async def look(self, store: JanitorStore, jobs: Sequence[str]) -> list[Finding]:
        findings = []
        for job in await store.nodes_of(jobs):
            for node in job.graph.order:
                sources = job.graph.sources[node]
                if node not in job.statuses and all(job.statuses.get(source) in TERMINAL for source in sources):
                    seen = {source: job.statuses[source] for source in sources}
                    reason = f"{node} has not started although every node that it waits for has ended"
                    findings.append(self.finding(RECHECK, Fact(job.job_id, node, None, {"sources": seen}), reason))
        return findings
