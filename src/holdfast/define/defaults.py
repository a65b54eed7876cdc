"""The defaults of an installation: what holds where a workflow says nothing. Pure; knows no database and no tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from holdfast.define.definition import Definition
from holdfast.define.document import BreakerDocument
from holdfast.define.explain import REMOVE_QUOTES, explain
from holdfast.define.fields import DocumentPart, Minutes
from holdfast.define.gates import DEFAULTED, BreakerRules
from holdfast.define.node import Node, TaskSpec
from holdfast.define.normalise import breaker_rules
from holdfast.define.retry import Retry
from holdfast.define.retry_document import RetryDocument, normalise_retry
from holdfast.define.source import Report, Source, did_you_mean
from holdfast.errors import Detail, InvalidInput


class DefaultsDocument(DocumentPart):
    """The keys of a workflow file that can have a default of the installation, with the same rules."""

    retry: RetryDocument | None = None
    breaker: BreakerDocument | None = None
    timeout_minutes: Minutes | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a workflow says nothing."""

    retry: Retry = field(default_factory=Retry)
    breaker: BreakerRules = field(default_factory=lambda: BreakerRules(""))
    timeout_seconds: float | None = None


_RETRY = ("max_retries", "backoff", "initial_delay_seconds", "max_delay_seconds", "jitter")


def _plain(value: Any) -> Any:
    """As people write it: 30, not 30.0."""
    return str(value) if isinstance(value, str) else int(value) if value is not None and value == int(value) else value


BUILT_IN: Mapping[str, Any] = {
    **{f"retry.{name}": _plain(getattr(Retry(), name)) for name in _RETRY},
    **{f"breaker.{name}": _plain(getattr(BreakerRules(""), name)) for name in DEFAULTED},
    "timeout_minutes": None,
}
"""Every name that can have a default of the installation, with the language's own value."""


def check_names(names: Iterable[str]) -> None:
    """Refuse names that have no default."""
    problems = [
        Detail(f"There is no default '{name}'.", path=name, suggestion=did_you_mean(name, BUILT_IN))
        for name in names
        if name not in BUILT_IN
    ]
    if problems:
        raise InvalidInput(
            f"No default has {'this name' if len(problems) == 1 else 'these names'}.",
            errors=problems,
            remedy=f"Use: {', '.join(BUILT_IN)}",
        )


def check_values(values: Mapping[str, Any]) -> None:
    """Refuse names and values that no default can have, whatever the others are."""
    check_names(values)
    _document(values)


def defaults_of(values: Mapping[str, Any]) -> Defaults:
    """The defaults with these values. Raises InvalidInput with all mistakes: the rules are those of a workflow file."""
    check_names(values)
    document, report = _document(values)
    minutes = document.timeout_minutes
    defaults = Defaults(
        normalise_retry(document.retry or RetryDocument(), ("retry",), report),
        breaker_rules(document.breaker or BreakerDocument(), ("breaker",), report),
        None if minutes is None else minutes * 60.0,
    )
    _refuse(report)
    return defaults


def _document(values: Mapping[str, Any]) -> tuple[DefaultsDocument, Report]:
    data: dict[str, Any] = {}
    for name, value in values.items():
        part, _, key = name.rpartition(".")
        (data.setdefault(part, {}) if part else data)[key] = value
    report = Report(Source(data))
    for name, value in values.items():
        if value is None:
            report.at_value(tuple(name.split(".")), f"'{name}' has no value.", "Reset it to have the built-in one.")
    _refuse(report)
    try:
        return DefaultsDocument.model_validate(data), report
    except ValidationError as invalid:
        report.problems += [explain(error, report.source) for error in invalid.errors(include_url=False)]
    _refuse(report)
    raise AssertionError("an invalid document has problems")


def _refuse(report: Report) -> None:
    if report.problems:
        count = "a value" if len(report.problems) == 1 else f"{len(report.problems)} values"
        raise InvalidInput(
            f"The defaults have {count} that cannot hold.",
            errors=[_named(problem) for problem in report.problems],
            remedy="The rules are those of the same keys in a workflow file.",
        )


def _named(problem: Detail) -> Detail:
    """Without a file, the whole name stands for the place. Quotes are the shell's affair."""
    suggestion = problem.suggestion if problem.suggestion != REMOVE_QUOTES else None
    return replace(problem, message=f"{problem.path}: {problem.message}", suggestion=suggestion)


def with_defaults(definition: Definition, defaults: Defaults) -> Definition:
    """The definition with these defaults where its author gave nothing; what other defaults had filled in is gone."""
    has_own_timeout = definition.timeout_seconds is not None and not definition.timeout_is_default
    return replace(
        definition,
        nodes=tuple(_with_retries(node, lambda retry: retry.with_default(defaults.retry)) for node in definition.nodes),
        breakers=tuple(rules.with_default(defaults.breaker) for rules in definition.breakers),
        timeout_seconds=definition.timeout_seconds if has_own_timeout else defaults.timeout_seconds,
        timeout_is_default=not has_own_timeout and defaults.timeout_seconds is not None,
    )


def as_written(definition: Definition) -> Definition:
    """What two definitions are compared by: with the built-in defaults, whatever the installation's are or were.

    A value that equals the built-in default is the same behaviour, whether the author wrote it down or not.
    """
    written = with_defaults(definition, Defaults())
    return replace(
        written,
        nodes=tuple(_with_retries(node, Retry.forgetting) for node in written.nodes),
        breakers=tuple(replace(rules, given=None) for rules in written.breakers),
    )


def _with_retries(node: Node, change: Callable[[Retry], Retry]) -> Node:
    """The node with the retry of everything that workers run for it changed."""
    task, batches = node.task, node.batches
    if task is not None:
        task = _with_retry(task, change)
    if batches is not None:
        batches = replace(batches, task=_with_retry(batches.task, change))
    return replace(node, task=task, batches=batches)


def _with_retry(task: TaskSpec, change: Callable[[Retry], Retry]) -> TaskSpec:
    compensate = _with_retry(task.compensate, change) if task.compensate is not None else None
    return replace(task, retry=change(task.retry), compensate=compensate)
