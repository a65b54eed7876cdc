"""What `status` says of the tasks of a job, and of the attempts that were tried again."""

from __future__ import annotations

import pytest

from holdfast.cli.render import task_summary
from holdfast.views.history import Retries
from holdfast.views.jobs import Counts


@pytest.mark.parametrize(
    ("retries", "lost", "words"),
    [
        (0, 0, "3 done"),
        (1, 0, "3 done; 1 attempt failed and was tried again"),
        (2, 0, "3 done; 2 attempts failed and were tried again"),
        (1, 1, "3 done; 1 attempt lost its worker and was tried again"),
        (2, 2, "3 done; 2 attempts lost their worker and were tried again"),
        (2, 1, "3 done; 1 attempt failed and 1 lost its worker; they were tried again"),
        (1500, 1000, "3 done; 500 attempts failed and 1,000 lost their worker; they were tried again"),
    ],
)
def test_attempts_that_lost_their_worker_are_not_called_failed(retries: int, lost: int, words: str) -> None:
    assert task_summary(Counts(total=3, completed=3), Retries(retries, lost)) == words
