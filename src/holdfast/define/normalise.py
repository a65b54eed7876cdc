"""From the file to the one model: every spelling ends in the same definition, with all defaults filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from holdfast.define import output_schema, pattern
from holdfast.define.condition import branch_condition, map_condition, normalise_condition
from holdfast.define.definition import Definition, Input, InputType
from holdfast.define.document import (
    BranchDocument,
    BreakerDocument,
    ConditionalDocument,
    DeliverableDocument,
    ErrorRuleDocument,
    FanInDocument,
    FanOutDocument,
    InputDocument,
    JitterRange,
    RerunDocument,
    RetryDocument,
    Surface,
    TaskDocument,
    Work,
    WorkflowDocument,
)
from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.failures import ErrorRule
from holdfast.define.gates import BreakerRules, Concurrency, Rate
from holdfast.define.inputs import value_problems
from holdfast.define.node import (
    Aggregation,
    Batches,
    Branch,
    Deliverable,
    Importance,
    Node,
    NodeType,
    OnItemFailure,
    Rerun,
    Safe,
    TaskSpec,
    Tolerate,
)
from holdfast.define.plain import canonical_size
from holdfast.define.program import ROOTS
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.define.source import Path, Report, did_you_mean
from holdfast.errors import FailureClass, cut

MAX_PARAMS_BYTES = 256 * 1024

# What a node's retry takes over from its workflow's as a whole, or not at all.
_RETRY_PARTS = (
    ("max_retries", "max_attempts"),
    ("backoff", "initial_delay_seconds", "max_delay_seconds", "schedule"),
    ("jitter",),
    ("retry_on",),
)

_FITTING: dict[str, tuple[InputType, ...]] = {
    "pattern": (InputType.STRING, InputType.ANY),
    "minimum": (InputType.INTEGER, InputType.NUMBER, InputType.ANY),
    "maximum": (InputType.INTEGER, InputType.NUMBER, InputType.ANY),
    "min_length": (InputType.STRING, InputType.ARRAY, InputType.ANY),
    "max_length": (InputType.STRING, InputType.ARRAY, InputType.ANY),
}


def normalise(document: WorkflowDocument, report: Report) -> Definition:
    """The definition that a well-shaped document means; what does not fit together goes into the report."""
    if document.retry is not None:
        # Once by itself: its mistakes are reported where they stand, and not in every node.
        _retry(document.retry, ("retry",), report)
    definition = Definition(
        workflow_id=document.workflow_id,
        version=document.version if document.version is not None else "1",
        name=_text(document.name),
        description=_text(document.description),
        inputs=tuple(_input(name, one, report) for name, one in (document.inputs or {}).items()),
        nodes=tuple(_node(name, one, document, report) for name, one in document.nodes.items()),
        timeout_seconds=_job_timeout(document, report),
        result=document.result,
        has_result="result" in document.model_fields_set,
        breakers=tuple(_breaker(name, one, report) for name, one in (document.breakers or {}).items()),
    )
    _check_deliverables(definition, report)
    return definition


def _text(text: str | None) -> str:
    return (text or "").strip()


def _job_timeout(document: WorkflowDocument, report: Report) -> float | None:
    if document.timeout_minutes is None:
        return _float(document.timeout_seconds)
    if document.timeout_seconds is not None:
        report.at_key(("timeout_seconds",), "Give timeout_minutes or timeout_seconds, not both.")
    return document.timeout_minutes * 60.0


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


def _input(name: str, document: InputDocument, report: Report) -> Input:
    declared = Input(
        name=name,
        type=InputType(document.type),
        required=document.required,
        has_default="default" in document.model_fields_set,
        default=document.default,
        description=_text(document.description),
        pattern=document.pattern,
        enum=tuple(document.enum) if document.enum is not None else None,
        minimum=_float(document.minimum),
        maximum=_float(document.maximum),
        min_length=document.min_length,
        max_length=document.max_length,
    )
    _check_input(declared, ("inputs", name), report)
    return declared


def _check_input(declared: Input, path: Path, report: Report) -> None:
    before = len(report.problems)
    for key, types in _FITTING.items():
        if getattr(declared, key) is not None and declared.type not in types:
            report.at_key((*path, key), f"'{key}' does not fit an input of type {declared.type}.")
    if declared.pattern is not None and not pattern.is_readable(declared.pattern):
        report.at_value((*path, "pattern"), f"The pattern {pattern.UNREADABLE}.", pattern.SUGGESTION)
    for low, high in (("minimum", "maximum"), ("min_length", "max_length")):
        least, most = getattr(declared, low), getattr(declared, high)
        if least is not None and most is not None and least > most:
            report.at_value((*path, low), f"'{low}' is greater than '{high}'.")
    if len(report.problems) > before:
        return
    # Each is one of them, so that it is compared with none.
    otherwise = replace(declared, enum=None)
    for index, value in enumerate(declared.enum or ()):
        if report.is_full:
            return
        for problem in value_problems(otherwise, value):
            report.at_value((*path, "enum", index), f"A value of 'enum' {problem}.")
    if declared.has_default and declared.default is not None:
        for problem in value_problems(declared, declared.default):
            report.at_value((*path, "default"), f"The default {problem}.")


def _node(name: str, document: Surface, workflow: WorkflowDocument, report: Report) -> Node:
    path: Path = ("nodes", name)
    depends_on = getattr(document, "depends_on", None)
    return Node(
        name=name,
        type=NodeType(getattr(document, "type", "task")),
        description=_text(getattr(document, "description", None)),
        importance=Importance(getattr(document, "importance", None) or Importance.CRITICAL),
        next=tuple(getattr(document, "next", None) or ()),
        all_of=tuple(depends_on.all_of or ()) if depends_on else (),
        any_of=tuple(depends_on.any_of or ()) if depends_on else (),
        task=_task(document, workflow, path, report),
        source=document.source.strip() if isinstance(document, FanOutDocument) else None,
        aggregation=_aggregation(document, path, report),
        branches=_branches(document, path, report) if isinstance(document, ConditionalDocument) else (),
        tolerate=_tolerate(document),
        on_item_failure=OnItemFailure(getattr(document, "on_item_failure", None) or OnItemFailure.FINISH),
        batches=_batches(document, workflow, path, report),
        deliverable=_deliverable(document),
        rerun=_rerun(document, path, report),
    )


def _batches(document: Surface, workflow: WorkflowDocument, path: Path, report: Report) -> Batches | None:
    """A batch is what its node is, unless it says otherwise; it gets its page beside the params that it names.

    What it returns is its own matter: its output is not the node's.
    """
    if not isinstance(document, FanInDocument) or document.batch is None:
        return None
    batch, path = document.batch, (*path, "batch")
    # Once by itself: its mistakes are reported where they stand, and what it takes over is reported with the node.
    _task_spec(batch, batch.handler, workflow, path, report)
    params = batch.params or {}
    if "page" in params:
        report.at_key((*path, "params", "page"), "'page' is what every batch is given; name the param otherwise.")
    taken_over = {key: getattr(document, key) for key in Work.model_fields if getattr(batch, key) is None}
    own = {"params": {"page": "{{ item }}", **params}, "output_schema": batch.output_schema}
    work = batch.model_copy(update=taken_over | own)
    task = _task_spec(work, batch.handler, workflow, path, Report(report.source))
    return Batches(task, batch.size.strip() if isinstance(batch.size, str) else batch.size)


def _deliverable(document: Surface) -> Deliverable | None:
    declared: DeliverableDocument | None = getattr(document, "deliverable", None)
    return Deliverable(declared.name, _key(declared.location)) if declared is not None else None


def _rerun(document: Surface, path: Path, report: Report) -> Rerun:
    declared: RerunDocument | None = getattr(document, "rerun", None)
    if declared is None:
        return Rerun()
    if isinstance(document, FanInDocument) and document.handler is None and document.batch is None:
        report.at_key((*path, "rerun"), "'rerun' needs a handler: without one nothing is run.")
    if declared.safe == "never" and declared.within_hours is not None:
        message = "What may never run again has no time in which it may."
        report.at_key((*path, "rerun", "within_hours"), message, "Remove the key, or use safe: confirm.")
    return Rerun(Safe(declared.safe), _float(declared.within_hours))


def _check_deliverables(definition: Definition, report: Report) -> None:
    first: dict[str, str] = {}
    for node in definition.nodes:
        if node.deliverable is not None and first.setdefault(node.deliverable.name, node.name) != node.name:
            name = node.deliverable.name
            message = f"The node '{first[name]}' delivers under the name '{name}' already."
            report.at_value(("nodes", node.name, "deliverable", "name"), message, "Give it a name of its own.")


def _tolerate(document: Surface) -> Tolerate:
    if not isinstance(document, FanOutDocument) or document.tolerate is None:
        return Tolerate()
    failures = document.tolerate.failures
    if isinstance(failures, str):
        return Tolerate(percent=float(failures.removesuffix("%")))
    return Tolerate(failures)


def _aggregation(document: Surface, path: Path, report: Report) -> Aggregation:
    if not isinstance(document, FanInDocument) or document.aggregation is None:
        return Aggregation.COLLECT
    if document.handler is not None and document.aggregation != "collect":
        report.at_key((*path, "aggregation"), "With a handler it is the handler that aggregates.", "Remove the key.")
    return Aggregation(document.aggregation)


def _task(document: Surface, workflow: WorkflowDocument, path: Path, report: Report) -> TaskSpec | None:
    if isinstance(document, FanOutDocument):
        return _task_spec(document.task, document.task.handler, workflow, (*path, "task"), report)
    if isinstance(document, TaskDocument | FanInDocument) and document.handler is not None:
        return _task_spec(document, document.handler, workflow, path, report)
    if isinstance(document, FanInDocument):
        for key in Work.model_fields:
            if getattr(document, key) is not None and (document.batch is None or key == "params"):
                report.at_key((*path, key), f"'{key}' needs a handler: without one nothing is run.")
    return None


def _task_spec(work: Work, handler: str, workflow: WorkflowDocument, path: Path, report: Report) -> TaskSpec:
    params = work.params or {}
    if canonical_size(params) > MAX_PARAMS_BYTES:
        report.at_key((*path, "params"), f"The params are larger than {MAX_PARAMS_BYTES // 1024} KiB.")
    return TaskSpec(
        handler=handler,
        queue=work.queue if work.queue is not None else "default",
        params=params,
        timeout_seconds=3600.0 if work.timeout_seconds is None else float(work.timeout_seconds),
        queue_timeout_seconds=_float(work.queue_timeout_seconds),
        retry=_node_retry(work.retry, workflow.retry, (*path, "retry"), report),
        errors=tuple(_rule(rule, (*path, "errors", index), report) for index, rule in enumerate(work.errors or ())),
        breaker=_declared_breaker(work, workflow, path, report),
        concurrency=Concurrency(work.concurrency.limit, _key(work.concurrency.key)) if work.concurrency else None,
        rate=Rate(work.rate.limit, float(work.rate.per_seconds), _key(work.rate.key)) if work.rate else None,
        output_schema=_output_schema(work, path, report),
    )


def _output_schema(work: Work, path: Path, report: Report) -> dict[str, Any] | None:
    """An empty schema asks for nothing."""
    if not work.output_schema:
        return None
    for problem in output_schema.problems(work.output_schema):
        report.at_value((*path, "output_schema", *problem.path), problem.message, problem.suggestion)
    return work.output_schema


def _key(written: str | None) -> str | None:
    return written.strip() if written is not None else None


def _breaker(name: str, document: BreakerDocument, report: Report) -> BreakerRules:
    path: Path = ("breakers", name)
    min_calls = document.min_calls if document.min_calls is not None else min(10, document.window_calls)
    if min_calls > document.window_calls:
        report.at_value((*path, "min_calls"), "'min_calls' is greater than 'window_calls': it would never open.")
    probe = document.probe
    if probe is not None and (probe.url is None) == (probe.handler is None):
        report.at_value((*path, "probe"), "A probe is an address or a handler.", "Give 'url' or 'handler'.")
    return BreakerRules(
        name=name,
        window_calls=document.window_calls,
        window_seconds=_float(document.window_seconds),
        failure_share=float(document.failure_share),
        min_calls=min_calls,
        codes=tuple(document.codes) if document.codes is not None else None,
        cooldown_seconds=float(document.cooldown_seconds),
        probes=document.probes,
        probe_url=probe.url if probe is not None else None,
        probe_handler=probe.handler if probe is not None else None,
    )


def _declared_breaker(work: Work, workflow: WorkflowDocument, path: Path, report: Report) -> str | None:
    declared = workflow.breakers or {}
    if work.breaker is not None and work.breaker not in declared:
        suggestion = did_you_mean(work.breaker, declared) or "Declare it under 'breakers'."
        report.at_value((*path, "breaker"), f"There is no breaker '{work.breaker}'.", suggestion)
    return work.breaker


def _rule(document: ErrorRuleDocument, path: Path, report: Report) -> ErrorRule:
    if document.match is None and document.exit_code is None:
        report.at_value(path, "The rule fits everything.", "Give it 'match', 'exit_code', or both.")
    return ErrorRule(
        failure_class=FailureClass(document.failure_class),
        match=document.match,
        exit_code=document.exit_code,
        code=document.code,
    )


def _node_retry(own: RetryDocument | None, workflow: RetryDocument | None, path: Path, report: Report) -> Retry:
    """What the node says, then what the workflow says, then the defaults: limit, pauses, jitter and codes each."""
    if own is not None:
        _retry(own, path, report)
    merged: dict[str, Any] = {}
    for part in _RETRY_PARTS:
        for document in (own, workflow):
            given = {key: getattr(document, key) for key in part if getattr(document, key, None) is not None}
            if given:
                merged |= given
                break
    # What does not fit together was reported where it stands.
    return _retry(RetryDocument.model_construct(**merged), path, Report(report.source))


def _retry(document: RetryDocument, path: Path, report: Report) -> Retry:
    """A limit that is not given makes room for what is: it never contradicts the file."""
    default = Retry()
    schedule = tuple(float(pause) for pause in document.schedule or ())
    max_retries = document.max_retries if document.max_retries is not None else document.max_attempts
    if max_retries is None:
        max_retries = len(schedule) if schedule else default.max_retries
    initial = default.initial_delay_seconds
    if document.initial_delay_seconds is not None:
        initial = float(document.initial_delay_seconds)
    longest = max(default.max_delay_seconds, initial, *schedule)
    if document.max_delay_seconds is not None:
        longest = float(document.max_delay_seconds)
        if document.initial_delay_seconds is None:
            initial = min(initial, longest)
    _check_retry(document, initial, longest, path, report)
    return Retry(
        max_retries=max_retries,
        backoff=Backoff.SCHEDULE if schedule else Backoff(document.backoff or default.backoff),
        initial_delay_seconds=initial,
        max_delay_seconds=longest,
        jitter=_jitter(document, Jitter.NONE if schedule else default.jitter),
        schedule=schedule,
        jitter_seconds=_jitter_seconds(document),
        retry_on=tuple(document.retry_on) if document.retry_on is not None else None,
    )


def _jitter(document: RetryDocument, default: Jitter) -> Jitter:
    if isinstance(document.jitter, JitterRange):
        return Jitter.RANGE
    return Jitter(document.jitter) if document.jitter is not None else default


def _jitter_seconds(document: RetryDocument) -> tuple[float, float]:
    if not isinstance(document.jitter, JitterRange):
        return (0.0, 0.0)
    return (float(document.jitter.min_seconds), float(document.jitter.max_seconds))


def _check_retry(document: RetryDocument, initial: float, longest: float, path: Path, report: Report) -> None:
    if document.max_retries is not None and document.max_attempts is not None:
        report.at_key((*path, "max_attempts"), "Give max_retries or max_attempts, not both: they mean the same.")
    if initial > longest:
        message = "'initial_delay_seconds' is greater than 'max_delay_seconds'."
        report.at_value((*path, "initial_delay_seconds"), message)
    least, most = _jitter_seconds(document)
    if least > most:
        report.at_value((*path, "jitter", "min_seconds"), "'min_seconds' is greater than 'max_seconds'.")
    if document.schedule is None:
        if document.backoff == "schedule":
            report.at_value((*path, "backoff"), "The backoff 'schedule' needs the key 'schedule'.")
        return
    if document.backoff not in (None, "schedule"):
        report.at_value((*path, "backoff"), "With a schedule the backoff is 'schedule'.", "Remove the key.")
    for key in ("initial_delay_seconds", "max_delay_seconds"):
        if getattr(document, key) is not None:
            report.at_key((*path, key), f"'{key}' has no meaning beside a schedule.", "Remove the key.")


def _branches(document: ConditionalDocument, path: Path, report: Report) -> tuple[Branch, ...]:
    """In file order, with the default last; none if the spelling is not one of the three."""
    if document.condition is not None and document.condition_field is not None:
        report.at_key((*path, "condition"), "Give condition or condition_field, not both.")
        return ()
    if document.on_true is not None or document.on_false is not None:
        found = list(_true_false(document, path, report))
    elif document.branches is None:
        report.at_key(path, "The conditional has no branches.", "Give it 'branches', or 'on_true' and 'on_false'.")
        return ()
    elif isinstance(document.branches, dict):
        found = list(_mapped(document, document.branches, path, report))
    else:
        found = list(_listed(document, document.branches, path, report))
    return tuple(sorted(found, key=lambda branch: branch.condition is None))


def _true_false(document: ConditionalDocument, path: Path, report: Report) -> Iterator[Branch]:
    if document.branches is not None:
        report.at_key((*path, "branches"), "Give branches or on_true and on_false, not both.")
    if document.condition is None:
        report.at_key(path, "'on_true' and 'on_false' need a 'condition'.")
        return
    for key, targets in (("on_true", document.on_true), ("on_false", document.on_false)):
        if not targets:
            report.at_key(path, f"The conditional has no '{key}'.", "Name an end to stop there.")
    places: dict[str, Path] = {"test": (*path, "condition")}
    condition = _condition(places, report, normalise_condition, document.condition)
    yield Branch(tuple(document.on_true or ()), condition)
    yield Branch(tuple(document.on_false or ()), None)


def _mapped(
    document: ConditionalDocument, branches: dict[str, list[str]], path: Path, report: Report
) -> Iterator[Branch]:
    key = "condition" if document.condition is not None else "condition_field"
    value = document.condition or document.condition_field
    if value is None:
        report.at_key(path, "A map of branches needs a 'condition'.")
        return
    for name, targets in branches.items():
        if not targets:
            report.at_value((*path, "branches", name), f"The branch '{cut(name)}' leads nowhere.")
        if name.lower() == "default":
            yield Branch(tuple(targets), None)
        else:
            places: dict[str, Path] = {"field": (*path, key), "test": (*path, "branches", name)}
            yield Branch(tuple(targets), _condition(places, report, map_condition, value, name))


def _listed(
    document: ConditionalDocument, branches: list[BranchDocument], path: Path, report: Report
) -> Iterator[Branch]:
    if document.condition is not None:
        message = "A list of branches tests 'condition_field', not 'condition'."
        report.at_key((*path, "condition"), message, "Rename the key to 'condition_field'.")
    defaults = 0
    for index, branch in enumerate(branches):
        where = (*path, "branches", index)
        if not branch.next:
            report.at_value((*where, "next"), "The branch leads nowhere.")
        defaults += branch.default
        if branch.default and defaults > 1:
            report.at_key((*where, "default"), "There is a second default branch.")
        yield Branch(tuple(branch.next), _listed_condition(document, branch, where, report))


def _listed_condition(document: ConditionalDocument, branch: BranchDocument, path: Path, report: Report) -> str | None:
    if branch.default:
        if branch.condition is not None:
            report.at_key((*path, "condition"), "A default branch has no condition.")
        return None
    if branch.condition is None:
        report.at_key(path, "The branch has no condition.", "Give it a 'condition', or 'default: true'.")
        return None
    places: dict[str, Path] = {"field": (*path[:-2], "condition_field"), "test": (*path, "condition")}
    if document.condition_field is None:
        return _condition(places, report, normalise_condition, branch.condition)
    return _condition(places, report, branch_condition, document.condition_field, branch.condition)


def _condition(places: Mapping[str, Path], report: Report, make: Callable[..., str | None], *parts: str) -> str | None:
    """The stored text of a condition; a mistake is reported at the part of it that holds the mistake."""
    try:
        return make(*parts, ROOTS)
    except ExpressionSyntaxError as error:
        path = places[str(error.path[0]) if error.path else "test"]
        message = f"The condition cannot be read: {error.message}"
        report.at_value(path, message, error.suggestion, error.position)
        return None
