"""Turns a workflow document into a definition: one form for all spellings, with all defaults filled in."""

from __future__ import annotations

from dataclasses import replace

from holdfast.define import pattern
from holdfast.define.definition import Definition, Input, InputType, OnFailure
from holdfast.define.document import BreakerDocument, InputDocument, ScheduleDocument, WorkflowDocument
from holdfast.define.fields import float_or_none
from holdfast.define.gates import DEFAULTED, BreakerRules
from holdfast.define.inputs import check_inputs, value_problems
from holdfast.define.kinds import kind_of_document
from holdfast.define.notify_document import normalise_notify
from holdfast.define.retry_document import normalise_retry
from holdfast.define.source import Path, Report
from holdfast.define.timing import FileSchedule, check_time_zone, check_timing
from holdfast.define.work_document import WorkflowDefaults
from holdfast.errors import InvalidInput

_FITTING: dict[str, tuple[InputType, ...]] = {
    "pattern": (InputType.STRING, InputType.ANY),
    "minimum": (InputType.INTEGER, InputType.NUMBER, InputType.ANY),
    "maximum": (InputType.INTEGER, InputType.NUMBER, InputType.ANY),
    "min_length": (InputType.STRING, InputType.ARRAY, InputType.ANY),
    "max_length": (InputType.STRING, InputType.ARRAY, InputType.ANY),
}


def normalise(document: WorkflowDocument, report: Report) -> Definition:
    """The definition of a document; contradictions go into the report."""
    if document.retry is not None:
        # Checked once here, so that its mistakes are reported at their place and not for every node.
        normalise_retry(document.retry, ("retry",), report)
    defaults = WorkflowDefaults(document.retry, document.breakers or {})
    definition = Definition(
        workflow_id=document.workflow_id,
        version=document.version if document.version is not None else "1",
        name=_text(document.name),
        description=_text(document.description),
        inputs=tuple(_input(name, one, report) for name, one in (document.inputs or {}).items()),
        nodes=tuple(
            kind_of_document(one).normalise(name, one, defaults, report) for name, one in document.nodes.items()
        ),
        timeout_seconds=_job_timeout(document, report),
        result=document.result,
        has_result="result" in document.model_fields_set,
        breakers=tuple(_breaker(name, one, report) for name, one in (document.breakers or {}).items()),
        on_failure=OnFailure(document.on_failure or OnFailure.KEEP),
        notify=normalise_notify(document.notify, report),
    )
    _check_deliverables(definition, report)
    if document.schedule is None:
        return definition
    return replace(definition, schedule=_schedule(document.schedule, definition, report))


def _schedule(document: ScheduleDocument, definition: Definition, report: Report) -> FileSchedule | None:
    inputs = dict(document.inputs or {})
    try:
        check_inputs(definition, inputs)
    except InvalidInput as wrong:
        for problem in wrong.errors:
            report.at_value(("schedule", "inputs"), problem.message, problem.suggestion)
    try:
        timing = check_timing(document.cron, document.every_seconds, document.time_zone)
    except InvalidInput as wrong:
        report.at_value(
            report.source.first_of(("schedule", _wrong_key(document)), ("schedule",)), wrong.message, wrong.remedy
        )
        return None
    return FileSchedule(timing, inputs, document.overlap, document.catch_up)


def _wrong_key(document: ScheduleDocument) -> str:
    """The key at which a mistake in the times is shown."""
    try:
        check_time_zone(document.time_zone)
    except InvalidInput:
        return "time_zone"
    has_interval_alone = document.cron is None and document.every_seconds is not None
    return "time_zone" if has_interval_alone else "cron"


def _text(text: str | None) -> str:
    return (text or "").strip()


def _job_timeout(document: WorkflowDocument, report: Report) -> float | None:
    if document.timeout_minutes is None:
        return float_or_none(document.timeout_seconds)
    if document.timeout_seconds is not None:
        report.at_key(("timeout_seconds",), "Give timeout_minutes or timeout_seconds, not both.")
    return document.timeout_minutes * 60.0


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
        minimum=float_or_none(document.minimum),
        maximum=float_or_none(document.maximum),
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
    # Each allowed value is checked without the list of allowed values.
    otherwise = replace(declared, enum=None)
    for index, value in enumerate(declared.enum or ()):
        if report.is_full:
            return
        for problem in value_problems(otherwise, value):
            report.at_value((*path, "enum", index), f"A value of 'enum' {problem}.")
    if declared.has_default and declared.default is not None:
        for problem in value_problems(declared, declared.default):
            report.at_value((*path, "default"), f"The default {problem}.")


def _check_deliverables(definition: Definition, report: Report) -> None:
    first: dict[str, str] = {}
    for node in definition.nodes:
        if node.deliverable is not None and first.setdefault(node.deliverable.name, node.name) != node.name:
            name = node.deliverable.name
            message = f"The node '{first[name]}' already has a deliverable '{name}'."
            report.at_value(("nodes", node.name, "deliverable", "name"), message, "Give it another name.")


def _breaker(name: str, document: BreakerDocument, report: Report) -> BreakerRules:
    path: Path = ("breakers", name)
    probe = document.probe
    if probe is not None and (probe.url is None) == (probe.handler is None):
        report.at_value((*path, "probe"), "A probe needs either an address or a handler.", "Give 'url' or 'handler'.")
    return breaker_rules(document, path, report, name)


def breaker_rules(document: BreakerDocument, path: Path, report: Report, name: str = "") -> BreakerRules:
    """The rules of a breaker with its defaults filled in."""
    min_calls = document.min_calls if document.min_calls is not None else min(10, document.window_calls)
    if min_calls > document.window_calls:
        report.at_value(
            (*path, "min_calls"), "'min_calls' is greater than 'window_calls': the breaker would never open."
        )
    probe = document.probe
    return BreakerRules(
        name=name,
        window_calls=document.window_calls,
        window_seconds=float_or_none(document.window_seconds),
        failure_share=float(document.failure_share),
        min_calls=min_calls,
        codes=tuple(document.codes) if document.codes is not None else None,
        cooldown_seconds=float(document.cooldown_seconds),
        probes=document.probes,
        probe_url=probe.url if probe is not None else None,
        probe_handler=probe.handler if probe is not None else None,
        given=frozenset(
            key for key in DEFAULTED if key in document.model_fields_set and getattr(document, key) is not None
        ),
    )
