"""The list of jobs: its filters, its lines, and the database that it names when it is empty."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.cli.words import parse_moment
from holdfast.errors import InvalidInput
from tests.cli.conftest import Command, finished, spawn

LONG = "a_very_long_workflow_identifier_that_someone_chose_for_the_nightly_sales_of_2026"


def ids(database: Command, *filters: str) -> list[str]:
    answer = database("status", "--json", *filters)
    assert answer.code == 0, answer.err
    return [job["job_id"] for job in answer.json["jobs"]]


def submitted(database: Command, *arguments: str) -> str:
    job_id: str = database("submit", *arguments, "--json").json["job_id"]
    return job_id


def test_each_filter_finds_its_jobs(database: Command) -> None:
    failed = database("run", "failing.yaml", "--label", "team=maps", "--json").json["job_id"]
    half = database("run", "half.yaml", "--json").json["job_id"]
    named = submitted(database, "slow.yaml", "--key", "monday", "--label", "team=maps", "--label", "env=test")
    assert ids(database, "--status", "failed", "--status", "partial") == [half, failed]
    assert ids(database, "--workflow", "half") == [half]
    assert ids(database, "--key", "monday") == [named]
    assert ids(database, "--key", "monday", "--workflow", "half") == []
    assert ids(database, "--label", "team=maps") == [named, failed]
    assert ids(database, "--label", "team=maps", "--label", "env=test") == [named]
    assert ids(database, "--code", "HANDLER_ERROR", "--status", "failed") == [failed]
    assert ids(database, "--since", "2h") == [named, half, failed]
    assert ids(database, "--until", "2h") == []
    assert ids(database, "--since", "2000-01-01", "--until", "2001-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--status", "lost"], "'lost' is not the status of a job."),
        (["--since", "soon"], "--since: 'soon' is neither a duration nor a time."),
        (["--label", "team"], "--label: 'team' has no '='."),
        (["--label", "my team=maps"], "'my team' is not the name of a label."),
        (["1a2b3c4d", "--status", "failed"], "status of one job, 1a2b3c4d, takes no filters."),
    ],
)
def test_a_wrong_filter_says_what_is_wrong(database: Command, arguments: list[str], message: str) -> None:
    answer = database("status", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


@pytest.mark.parametrize("flags", [(), ("--label", "team=maps", "--workflow", "slow")])
def test_the_command_for_the_next_page_repeats_the_filters(database: Command, flags: tuple[str, ...]) -> None:
    for key in "abc":
        submitted(database, "slow.yaml", "--key", key, "--label", "team=maps")
    answer = database("status", "--limit", "2", *flags)
    shown = re.search(r"Older ones: holdfast (.*)", answer.err)
    assert shown is not None
    again = database(*shown[1].split())
    assert len(again.out.split("Workers")[0].splitlines()) >= 2
    assert "Older ones" not in again.err


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-16T10:30:00Z", "2026-11-16T10:30:00+00:00"),
        ("2026-11-16T10:30:00+02:00", "2026-11-16T08:30:00+00:00"),
    ],
)
def test_a_time_is_read_with_its_offset(text: str, moment: str) -> None:
    assert parse_moment(text, "--since").isoformat() == moment
    with pytest.raises(InvalidInput):
        parse_moment("99999999999w", "--since")


def test_no_id_is_cut_at_80_columns_and_no_line_ends_with_blanks(
    database: Command, database_url: str, tmp_path: Path
) -> None:
    flow = (tmp_path / "items.yaml").read_text().replace("workflow_id: items", f"workflow_id: {LONG}")
    (tmp_path / "long.yaml").write_text(flow)
    long = database("run", "long.yaml", "--json").json["job_id"]
    labelled = database("run", "half.yaml", "--label", "team=maps", "--json").json["job_id"]
    piped = finished(spawn("status", COLUMNS="80", HOLDFAST_DATABASE_URL=database_url)).out
    head, first, second, *_ = piped.splitlines()
    assert head.split() == ["job", "workflow", "status", "tasks", "created", "took", "labels"]
    assert first.split()[:2] == [labelled[-8:], "half"] and first.endswith("team=maps")
    assert second.split()[:2] == [long[-8:], LONG] and "0/3, 3 failed" in second
    assert not re.search(r"[ \t]$", piped, re.MULTILINE) and "…" not in piped


def test_an_empty_list_names_the_database(database: Command, database_url: str) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    answer = database("status")
    assert re.search(rf"There are no jobs yet in the database {name} on 127.0.0.1:\d+\.", answer.out)
    assert f"in the database {name} on 127.0.0.1" in database("status", "1a2b3c4d").err
    missing = database("status", "00000000-0000-0000-0000-000000000000").err
    assert f"in the database {name} on 127.0.0.1" in missing
    for command in (["why"], ["params", "--last", "a"], ["tasks", "--last", "a"], ["artifacts", "--last"]):
        assert f"There is no job yet in the database {name}" in database(*command).err
    assert "for tenant maps in the database" in database("status", "--tenant", "maps").out
    assert "No job matches in the database" in database("status", "--status", "failed").out
    assert "holdfast@" not in missing + answer.out


def test_a_directory_without_a_database_says_so(command: Command, tmp_path: Path) -> None:
    assert command("status").out == f"There are no jobs yet: {tmp_path}/.holdfast has no database.\n"
    assert f"There is no job '1a2b3c4d': {tmp_path}/.holdfast has no database." in command("why", "1a2b3c4d").err


def test_a_submission_like_a_job_takes_its_workflow_and_inputs(database: Command) -> None:
    first = submitted(database, "flow.yaml", "--input", "name=Ann", "--label", "a=b")
    assert submitted(database, "--like", first[-8:]) == first
    other = database("status", submitted(database, "--like", first, "--input", "numbers=[9]"), "--json").json
    assert other["inputs"] == {"name": "Ann", "numbers": [9]}
    assert (other["labels"], other["workflow_id"]) == ({}, "flow")
    assert database("submit", "--like", "00000000-0000-0000-0000-000000000000").code == 5
    answer = database("submit")
    assert answer.code == 2 and "submit needs a workflow." in answer.err


@pytest.mark.parametrize("arguments", [("submit", "slow.yaml"), ("run", "flow.yaml")])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a=b", "a=c"], "the label a stands twice"),
        (["a b=c"], "'a b' is not the name of a label"),
        (["x" * 64 + "=c"], "is not the name of a label"),
        (["a=" + "x" * 201], "The value of label a has 201 characters; the limit is 200."),
        ([f"l{n}=1" for n in range(21)], "A job has at most 20 labels, not 21."),
    ],
)
def test_wrong_labels_are_refused_before_anything_is_done(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], labels: list[str], message: str
) -> None:
    answer = command(*arguments, *(word for label in labels for word in ("--label", label)))
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / ".holdfast").exists()


def test_the_labels_of_a_job_are_shown(database: Command) -> None:
    job_id = submitted(database, "slow.yaml", "--label", "team=maps", "--label", "day=2026-11-16")
    assert database("status", job_id, "--json").json["labels"] == {"team": "maps", "day": "2026-11-16"}
    assert "Labels    day=2026-11-16 team=maps" in database("status", job_id).out
    again = database("submit", "slow.yaml", "--label", "team=roads")
    assert "The job keeps the labels that it has" in again.err
    assert database("status", "--json").json["jobs"][0]["labels"] == {"team": "maps", "day": "2026-11-16"}


def test_a_job_keeps_the_ids_of_its_first_submission(database: Command) -> None:
    marks = ("--correlation-id", "order 1", "--external-id", "gateway=4711", "--callback-url", "https://host.example/x")
    job = database("status", submitted(database, "slow.yaml", *marks), "--json").json
    assert (job["correlation_id"], job["external_ids"]) == ("order 1", {"gateway": "4711"})
    assert job["callback_url"] == "https://host.example/x"
    assert "Ids       correlation id order 1, gateway=4711" in database("status", job["job_id"]).out
    again = database("submit", "slow.yaml", "--external-id", "gateway=1")
    assert "The job keeps the ids and the receivers that it has" in again.err


def test_a_submission_names_whom_to_tell(database: Command) -> None:
    flags = ("--notify", "me@example.org", "--notify", "pager=completed,node_failed")
    job = database("status", submitted(database, "slow.yaml", *flags), "--json").json
    assert job["notify"] == [
        {"on": ["job_partial", "job_failed"], "email": "me@example.org"},
        {"on": ["job_completed", "node_failed"], "webhook": "pager"},
    ]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--external-id", "gateway"), "--external-id: 'gateway' has no '='"),
        (("--external-id", "a=1", "--external-id", "a=2"), "--external-id: a stands twice"),
        (("--external-id", "a b=1"), "'a b' is not the namespace of an external id"),
        (("--correlation-id", ""), "'' is not a correlation id"),
        (("--callback-url", "host"), "The callback_url is not a URL that can be called"),
        (("--notify", "me@example.org=faild"), "There is no event 'faild' of a job"),
        (("--notify", "Me <me@example.org>"), "'Me <me@example.org>' is not an e-mail address"),
        (("--notify", ""), "'' is not the name of a webhook"),
    ],
)
def test_wrong_ids_are_refused_before_anything_is_done(
    command: Command, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    answer = command("submit", "slow.yaml", *flags)
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / ".holdfast").exists()
