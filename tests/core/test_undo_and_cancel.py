"""Undo with a cancel or an acceptance: each cancel is answered, a job knows why it had failed, nothing is left out."""

from __future__ import annotations

from holdfast.core.undo_states import Undo
from tests.core.one_job import OneJob
from tests.core.test_undoing import BAD, RULES, done, many, order, run, steps


def failed(*, shipping: str = "fails") -> OneJob:
    """An order that undoes itself, because it cannot be shipped; or whose parcel is still on its way out."""
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    job.submit()
    for node in ("reserve", "price", "charge"):
        job.done(node, output={"did": node})
    if shipping == "fails":
        job.fail("ship", message=BAD.message, permanent=True)
    else:
        job.claim("ship")
    return job


def message_of(job: OneJob) -> str:
    assert job.state.error is not None
    return job.state.error.message


def test_a_cancel_that_is_too_late_to_end_an_undo_leaves_the_error_of_the_job_as_it_is() -> None:
    job = failed()
    job.done("charge")
    job.claim("reserve")
    job.cancel()
    job.done("reserve")
    assert not job.answers[-1].applied
    assert (job.state.status, message_of(job)) == ("failed", "as scripted")


def test_a_job_whose_own_undo_a_person_cancels_says_why_it_had_failed() -> None:
    job = failed()
    job.done("charge")
    job.cancel()
    assert job.answers[-1].applied and job.state.status == "failed"
    assert message_of(job).endswith("; the job had failed: as scripted")


def test_a_job_that_had_failed_keeps_its_error_when_a_person_has_dealt_with_what_was_left() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    run(job, "ship", "undo charge")
    job.recover("skip", "charge")
    assert run(job) == ["undo reserve"]
    assert (job.state.status, message_of(job)) == ("failed", "as scripted")


def test_a_cancel_is_answered_when_the_last_task_fails_and_the_job_undoes_itself() -> None:
    job = failed(shipping="runs")
    job.cancel()
    assert job.answers == []
    job.fail("ship", message=BAD.message, permanent=True)
    assert job.state.is_undoing
    (answer,) = job.answers
    assert (answer.signal_id, answer.applied) == (7, False)
    assert (
        answer.reason == "too late: its last tasks have finished, it has failed, and what it has done is being undone"
    )
    assert run(job) == ["undo charge", "undo reserve"]
    assert (job.state.status, message_of(job)) == ("failed", "as scripted")


def test_an_undo_that_an_earlier_version_has_stored_can_be_read() -> None:
    stored = failed().state.undo
    assert stored is not None and stored.failed_by is not None and stored.failed_by.message == "as scripted"
    assert Undo.from_json(stored.to_json()) == stored
    earlier = {name: value for name, value in stored.to_json().items() if name != "failed_by"}
    assert Undo.from_json(earlier).failed_by is None


def test_a_cancel_that_leaves_the_batches_behind_a_task_says_that_they_are_left() -> None:
    job = done(many(), items=[1, 2, 3])
    job.recover("undo", "all")
    job.claim("all")
    job.cancel()
    job.done("all")
    assert job.answers[-1].applied and job.state.status == "cancelled"
    assert job.state.error is not None and job.state.error.code == "UNDO_INCOMPLETE"
    assert run_again(job) == ["undo all[0]", "undo all[1]"]
    assert job.state.error.code == "UNDONE"


def run_again(job: OneJob) -> list[str]:
    job.recover("undo", "all")
    return run(job)


def test_an_accepted_task_behind_batches_leaves_them_to_be_undone() -> None:
    job = done(many(), items=[1, 2, 3])
    job.recover("undo")
    run(job, "undo all")
    assert job.status_of("all") == "completed"
    expected = ["skip all 1: it counts as undone", "undo all 2: by undo_batch", "undo each 3: by undo_item"]
    assert steps(job.plan("skip", "all")) == expected
    assert job.recover("skip", "all").applied
    ran = run(job)
    assert ran == ["undo all[0]", "undo all[1]", "undo each[0]", "undo each[1]", "undo each[2]"]
    assert job.statuses() == {"each": "cancelled", "all": "cancelled"}
    assert (job.node("all").completed, job.node("all").cancelled) == (0, 3)
