"""Every row of "What the job is called" in docs/how-to/tolerate-failures.md is what the engine does."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from holdfast.cli.ending import exit_code
from holdfast.core.plans import Plan
from holdfast.define.load import load_text
from tests.core.one_job import Fails, OneJob
from tests.docs.pages import ROOT, prose

PAGE = ROOT / "docs" / "how-to" / "tolerate-failures.md"
FLOW = """
workflow_id: scans
nodes:
  read:
    {{type: fan_out, source: "{{{{ [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }}}}", next: all, {read}
     task: {{handler: scans.read, params: {{page: "{{{{ item }}}}"}}}}}}
  all: {{type: fan_in, next: report}}
  report: {{handler: scans.report, {report} params: {{pages: "{{{{ nodes.all.output.results }}}}"}}}}
"""


class Row(NamedTuple):
    read_declares: str
    report_declares: str
    fails: str
    read: str
    report: str
    job: str
    exit_code: str
    resume: str


def rows() -> list[Row]:
    table = prose(PAGE).partition("## What the job is called")[2].partition("\n## ")[0]
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("|")]
    return [Row(*(cell.strip().strip("`") for cell in line)) for line in lines[2:]]


ROWS = rows()


def ended(row: Row) -> OneJob:
    """The job of a row, run to its end."""
    found = re.search(r"(\d+) item", row.fails)
    bad_items, bad_report = int(found[1]) if found else 0, "report" in row.fails
    declared = {"read": row.read_declares, "report": row.report_declares}
    text = FLOW.format(**{node: f"{keys}," if keys else "" for node, keys in declared.items()})

    def handle(node: str, item: int, attempt: int, params: Any) -> Any:
        if node == "report":
            assert len(params["pages"]) == 10 - bad_items
            return Fails(permanent=True) if bad_report else "done"
        return Fails(permanent=True) if item < bad_items else item

    return OneJob(load_text(text)).run(handle)


def shown(plan: object) -> str:
    """What a plan runs again, as the page says it."""
    if not isinstance(plan, Plan):
        return "refused"
    return ", ".join(f"{step.node} {step.items}" if step.items else step.node for step in plan.reruns)


def test_the_page_has_a_row_for_each_importance_and_for_each_status() -> None:
    assert len(ROWS) >= 18
    assert {row.job for row in ROWS} == {"completed", "partial", "failed"}
    assert all(any(word in row.read_declares for row in ROWS) for word in ("important", "optional", "counts_as", "%"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.read_declares}; {row.report_declares}; {row.fails}")
def test_a_job_ends_as_the_row_says(row: Row) -> None:
    job = ended(row)
    status = str(job.state.status)
    seen = row._replace(
        read=job.status_of("read"),
        report=job.status_of("report"),
        job=status,
        exit_code=str(exit_code(status)),
        resume=shown(job.plan("resume")),
    )
    assert seen == row


@pytest.mark.parametrize("row", [row for row in ROWS if "item and report" in row.fails])
def test_resume_runs_tolerated_items_again_with_the_flag(row: Row) -> None:
    assert shown(ended(row).plan("resume", tolerated=True)) == "read 1, all, report 1"


@pytest.mark.parametrize("row", [row for row in ROWS if row.job == "completed" and "item" in row.fails])
def test_retry_runs_the_failed_items_of_a_completed_job_again(row: Row) -> None:
    job, failed = ended(row), row.fails[0]
    assert shown(job.plan("resume", tolerated=True)) == "refused"
    assert shown(job.plan("retry", "read")) == f"read {failed}, all, report 1"


def test_a_skip_by_a_person_makes_the_job_partial_whatever_is_tolerated() -> None:
    row = ROWS[0]._replace(read_declares="tolerate: {failures: 1, counts_as: completed}", fails="2 items")
    job = ended(row)
    assert job.recover("skip", "read").applied
    assert job.run(lambda *_: "done").state.status == "partial"


def test_a_cancel_names_the_job_cancelled_if_it_ended_something_early() -> None:
    job = OneJob(load_text(FLOW.format(read="", report="")))
    job.submit()
    job.cancel()
    assert (job.state.status, exit_code(str(job.state.status))) == ("cancelled", 7)
