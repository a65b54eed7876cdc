"""Transient or permanent: the one place that decides, from what the handler raised and what its node and app declare.

In this order: what the handler raised, the node's rules, the app's table of codes, else transient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.define import pattern
from holdfast.define.failures import ErrorRule
from holdfast.errors import Code, FailureClass


class ReportedFailure(NamedTuple):
    """A failure as the worker reports it; what it does not say is None."""

    code: str = str(Code.HANDLER_ERROR)
    message: str = ""
    log: str = ""
    raised: FailureClass | None = None
    declared: FailureClass | None = None
    exit_code: int | None = None


class Verdict(NamedTuple):
    failure_class: FailureClass
    code: str


def classify(reported: ReportedFailure, rules: Sequence[ErrorRule] = ()) -> Verdict:
    """A rule names the code where the handler named none; whether it is retried, the handler knows best."""
    rule = next((rule for rule in rules if _fits(rule, reported)), None)
    ruled = rule.failure_class if rule is not None else None
    code = reported.code
    if rule is not None and rule.code is not None and reported.code == Code.HANDLER_ERROR:
        code = rule.code
    return Verdict(reported.raised or ruled or reported.declared or FailureClass.TRANSIENT, code)


def failure_in(data: dict[str, Any]) -> ReportedFailure:
    """From the data of a report. A class that this version does not know counts as none."""
    exit_code = data.get("exit_code")
    return ReportedFailure(
        code=str(data.get("code") or Code.HANDLER_ERROR),
        message=str(data.get("message") or "the attempt failed"),
        log=str(data.get("log") or ""),
        raised=_class(data.get("class")),
        declared=_class(data.get("declared_class")),
        exit_code=exit_code if isinstance(exit_code, int) else None,
    )


def _class(value: Any) -> FailureClass | None:
    return FailureClass(value) if value in tuple(FailureClass) else None


def _fits(rule: ErrorRule, reported: ReportedFailure) -> bool:
    """Every text, the pattern and the exit code; each text and the pattern in the message or in the log."""
    if rule.is_empty or (rule.exit_code is not None and rule.exit_code != reported.exit_code):
        return False
    places = (reported.message, reported.log)
    if rule.pattern is not None and not any(pattern.matches(rule.pattern, place) for place in places):
        return False
    folded = [place.casefold() for place in places] if rule.texts else []
    return all(any(text.casefold() in place for place in folded) for text in rule.texts)
