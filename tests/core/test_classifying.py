"""Transient or permanent: what the handler raised, then the node's rules, then the app's table, then the default."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.classifying import ReportedFailure, classify, failure_in
from holdfast.define.failures import ErrorRule
from holdfast.errors import FailureClass

PERMANENT, TRANSIENT = FailureClass.PERMANENT, FailureClass.TRANSIENT
CLASSES = st.sampled_from([None, PERMANENT, TRANSIENT])
EVERYTHING = ErrorRule(PERMANENT, match="moov", code="NOT_A_MOVIE")


@given(CLASSES, CLASSES, CLASSES)
def test_the_first_who_says_something_decides(
    raised: FailureClass | None, ruled: FailureClass | None, declared: FailureClass | None
) -> None:
    rules = [ErrorRule(ruled, match="x")] if ruled is not None else []
    verdict = classify(ReportedFailure(message="x", raised=raised, declared=declared), rules)
    assert verdict.failure_class is next((c for c in (raised, ruled, declared) if c is not None), TRANSIENT)


def test_the_first_rule_that_fits_decides() -> None:
    rules = [ErrorRule(TRANSIENT, match="never"), ErrorRule(PERMANENT, match="disk"), ErrorRule(TRANSIENT, match="is")]
    assert classify(ReportedFailure(message="the disk is full"), rules).failure_class is PERMANENT


@pytest.mark.parametrize(
    ("reported", "fits"),
    [
        (ReportedFailure(message="ffmpeg: MOOV atom not found"), True),
        (ReportedFailure(message="ffmpeg failed", log="…\nmoov atom not found\n"), True),
        (ReportedFailure(message="ffmpeg failed"), False),
    ],
)
def test_a_text_is_looked_for_in_message_and_log_in_any_case(reported: ReportedFailure, fits: bool) -> None:
    assert (classify(reported, [EVERYTHING]).failure_class is PERMANENT) == fits


@pytest.mark.parametrize(("exit_code", "fits"), [(137, True), (1, False), (None, False)])
def test_an_exit_code_fits_only_itself(exit_code: int | None, fits: bool) -> None:
    rule = ErrorRule(PERMANENT, exit_code=137)
    assert (classify(ReportedFailure(exit_code=exit_code), [rule]).failure_class is PERMANENT) == fits


def test_a_rule_with_both_wants_both() -> None:
    rule = ErrorRule(PERMANENT, match="killed", exit_code=137)
    assert classify(ReportedFailure(message="killed", exit_code=1), [rule]).failure_class is TRANSIENT
    assert classify(ReportedFailure(message="killed", exit_code=137), [rule]).failure_class is PERMANENT


@pytest.mark.parametrize(
    ("message", "log", "fits"),
    [
        ("No such file or directory: input.mp4", "", True),
        ("no such file", "opening INPUT failed", True),
        ("no such file or directory: out.mp4", "", False),
        ("input", "", False),
    ],
)
def test_a_rule_with_several_texts_wants_all_of_them(message: str, log: str, fits: bool) -> None:
    rule = ErrorRule(PERMANENT, match=("no such file", "input"))
    assert (classify(ReportedFailure(message=message, log=log), [rule]).failure_class is PERMANENT) == fits


@pytest.mark.parametrize(
    ("message", "log", "fits"),
    [("HTTP 404", "", True), ("failed", "answer: HTTP 451\n", True), ("HTTP 503", "", False)],
)
def test_a_pattern_is_looked_for_in_message_and_log(message: str, log: str, fits: bool) -> None:
    rule = ErrorRule(PERMANENT, pattern=r"HTTP 4\d\d")
    assert (classify(ReportedFailure(message=message, log=log), [rule]).failure_class is PERMANENT) == fits


def test_a_pattern_that_would_backtrack_for_ever_is_answered_at_once() -> None:
    rule = ErrorRule(PERMANENT, pattern=r"^(a+)+$")
    assert classify(ReportedFailure(message="a" * 100_000 + "b"), [rule]).failure_class is TRANSIENT


def test_a_rule_that_says_nothing_fits_nothing() -> None:
    assert classify(ReportedFailure(message="x"), [ErrorRule(PERMANENT)]).failure_class is TRANSIENT


def test_a_rule_names_the_code_only_where_the_handler_named_none() -> None:
    assert classify(ReportedFailure(message="moov"), [EVERYTHING]).code == "NOT_A_MOVIE"
    assert classify(ReportedFailure(message="moov", code="MINE"), [EVERYTHING]).code == "MINE"


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        ({}, ReportedFailure(message="the attempt failed")),
        ({"class": "odd", "exit_code": "9", "declared_class": 3}, ReportedFailure(message="the attempt failed")),
        (
            {
                "code": "C",
                "message": "m",
                "class": "permanent",
                "declared_class": "transient",
                "exit_code": 3,
                "log": "l",
            },
            ReportedFailure("C", "m", "l", PERMANENT, TRANSIENT, 3),
        ),
    ],
)
def test_a_report_is_read_without_trusting_it(data: dict[str, Any], reported: ReportedFailure) -> None:
    assert failure_in(data) == reported
