"""How a workflow file says what a worker runs, and the TaskSpec that it means."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from holdfast.define import output_schema, pattern
from holdfast.define.bounds import MAX_PATTERN_LENGTH, MAX_RULES
from holdfast.define.failures import ErrorRule
from holdfast.define.fields import (
    DocumentPart,
    Expression,
    FailureCode,
    Limit,
    Name,
    Seconds,
    Texts,
    float_or_none,
    stripped,
)
from holdfast.define.gates import Concurrency, Rate
from holdfast.define.node import TaskSpec
from holdfast.define.plain import canonical_size
from holdfast.define.retry_document import RetryDocument, node_retry
from holdfast.define.source import Path, Report, did_you_mean
from holdfast.errors import FailureClass

MAX_PARAMS_BYTES = 256 * 1024


class ErrorRuleDocument(DocumentPart):
    """Classifies failures by texts, a pattern or an exit code; the first rule that matches decides."""

    match: Texts | None = None
    """A text in the failure's message or the attempt's log, or a list of texts that must all occur; case does not
    matter."""

    pattern: Annotated[str, Field(max_length=MAX_PATTERN_LENGTH)] | None = None
    """A regular expression that a part of the message or of the log matches. It takes linear time."""

    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    """The exit code of the command that failed; 128 + n if signal n ended it."""

    failure_class: Annotated[Literal["transient", "permanent"], Field(alias="class")]
    """Whether another attempt may succeed."""

    code: FailureCode | None = None
    """The code that the failure gets, unless the handler gave one."""


class ConcurrencyDocument(DocumentPart):
    """How many tasks may run at once."""

    limit: Limit
    """The largest number of tasks that run at once."""

    key: Expression | None = None
    """Tasks with the same key share the limit, such as "{{ inputs.region }}", in all workflows of the tenant.
    Without a key the limit belongs to the node, across all jobs."""


class RateDocument(DocumentPart):
    """How many tasks may start in a period."""

    limit: Limit
    """The largest number of tasks that start in the period."""

    per_seconds: Seconds = 1
    """The length of the period. Default 1."""

    key: Expression | None = None
    """Tasks with the same key share the limit, such as "{{ inputs.account }}". Without a key it belongs to the node."""


class CompensateDocument(DocumentPart):
    """What undoes a completed task. Its handler is called with `params` and `output`, those of the task."""

    handler: Name
    """The function that takes back the effects of a completed task."""

    queue: Name | None = None
    """The queue in which the undo waits. Default: the queue of the task."""

    timeout_seconds: Seconds | None = None
    """How long one attempt to undo may run. Default: as long as one of the task."""

    retry: RetryDocument | None = None
    """What happens after a failed attempt to undo. Default: the retry of the task."""


def _handler_alone(value: Any) -> Any:
    return {"handler": value} if isinstance(value, str) else value


Compensate = Annotated[
    CompensateDocument, BeforeValidator(_handler_alone, json_schema_input_type=Name | CompensateDocument)
]


class Work(DocumentPart):
    """What a worker runs."""

    queue: Name | None = None
    """The queue of the tasks. Default `default`."""

    params: dict[str, Any] | None = None
    """The handler's arguments; texts may contain templates such as "{{ inputs.region }}"."""

    timeout_seconds: Seconds | None = None
    """How long one attempt may run, from its start. Default 3600."""

    queue_timeout_seconds: Seconds | None = None
    """How long a task may wait in its queue. Default: no limit."""

    retry: RetryDocument | None = None
    """What happens after a failed attempt. Default: the workflow's."""

    errors: Annotated[list[ErrorRuleDocument], Field(min_length=1, max_length=MAX_RULES)] | None = None
    """Rules for failures that the handler does not classify; the first rule that matches decides."""

    breaker: Name | None = None
    """The breaker of a dependency that the handler needs, declared under `breakers`."""

    concurrency: ConcurrencyDocument | None = None
    """How many of these tasks may run at once."""

    rate: RateDocument | None = None
    """How many of these tasks may start in a period."""

    output_schema: dict[str, Any] | None = None
    """A JSON Schema (2020-12) for the output. An output that does not match is a permanent failure."""

    compensate: Compensate | None = None
    """The handler that undoes a completed task, or an object with `handler`, `queue`, `timeout_seconds`, `retry`."""


@dataclass(frozen=True, slots=True)
class WorkflowDefaults:
    """What the nodes of a workflow take from its head."""

    retry: RetryDocument | None
    breakers: Collection[str]


def task_spec(work: Work, handler: str, defaults: WorkflowDefaults, path: Path, report: Report) -> TaskSpec:
    params = work.params or {}
    if canonical_size(params) > MAX_PARAMS_BYTES:
        report.at_key((*path, "params"), f"The params are larger than {MAX_PARAMS_BYTES // 1024} KiB.")
    spec = TaskSpec(
        handler=handler,
        queue=work.queue if work.queue is not None else "default",
        params=params,
        timeout_seconds=3600.0 if work.timeout_seconds is None else float(work.timeout_seconds),
        queue_timeout_seconds=float_or_none(work.queue_timeout_seconds),
        retry=node_retry(work.retry, defaults.retry, (*path, "retry"), report),
        errors=tuple(_rule(rule, (*path, "errors", index), report) for index, rule in enumerate(work.errors or ())),
        breaker=_declared_breaker(work, defaults, path, report),
        concurrency=Concurrency(work.concurrency.limit, stripped(work.concurrency.key)) if work.concurrency else None,
        rate=Rate(work.rate.limit, float(work.rate.per_seconds), stripped(work.rate.key)) if work.rate else None,
        output_schema=_output_schema(work, path, report),
    )
    if work.compensate is None:
        return spec
    return replace(spec, compensate=_compensation(work.compensate, spec, defaults, (*path, "compensate"), report))


def _compensation(
    document: CompensateDocument, task: TaskSpec, defaults: WorkflowDefaults, path: Path, report: Report
) -> TaskSpec:
    own, seconds = document.retry, document.timeout_seconds
    return TaskSpec(
        handler=document.handler,
        queue=document.queue if document.queue is not None else task.queue,
        timeout_seconds=task.timeout_seconds if seconds is None else float(seconds),
        retry=task.retry if own is None else node_retry(own, defaults.retry, (*path, "retry"), report),
    )


def _output_schema(work: Work, path: Path, report: Report) -> dict[str, Any] | None:
    """The schema, or None for an empty one, which accepts every output."""
    if not work.output_schema:
        return None
    for problem in output_schema.problems(work.output_schema):
        report.at_value((*path, "output_schema", *problem.path), problem.message, problem.suggestion)
    return work.output_schema


def _declared_breaker(work: Work, defaults: WorkflowDefaults, path: Path, report: Report) -> str | None:
    if work.breaker is not None and work.breaker not in defaults.breakers:
        suggestion = did_you_mean(work.breaker, defaults.breakers) or "Declare it under 'breakers'."
        report.at_value((*path, "breaker"), f"There is no breaker '{work.breaker}'.", suggestion)
    return work.breaker


def _one_or_all(texts: Sequence[str]) -> str | tuple[str, ...] | None:
    """One text stays what it was before there could be several, so that definitions keep their hash."""
    return tuple(texts) if len(texts) > 1 else next(iter(texts), None)


def _rule(document: ErrorRuleDocument, path: Path, report: Report) -> ErrorRule:
    rule = ErrorRule(
        failure_class=FailureClass(document.failure_class),
        match=_one_or_all(document.match or ()),
        exit_code=document.exit_code,
        code=document.code,
        pattern=document.pattern,
    )
    if rule.is_empty:
        report.at_value(path, "The rule matches everything.", "Give it 'match', 'pattern' or 'exit_code'.")
    if rule.pattern is not None and not pattern.is_readable(rule.pattern):
        report.at_value((*path, "pattern"), f"The pattern {pattern.UNREADABLE}.", pattern.SUGGESTION)
    return rule
