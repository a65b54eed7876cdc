"""Whether the params of a workflow fit its handlers, as far as that is certain before a job runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.define.definition import Definition
from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.gates import BreakerRules
from holdfast.define.kinds import kind_of
from holdfast.define.node import TaskSpec
from holdfast.define.node_program import ITEM_ROOTS, ONLY_IN_PARAMS
from holdfast.define.registry import ContractViolation, Handler, names_in, params_in
from holdfast.define.source import Path, Report, Source, did_you_mean
from holdfast.define.template import always_text, compile_template
from holdfast.errors import Detail, cut

COMPENSATED = frozenset({"params", "output"})
"""What a handler that undoes a task can have: the params of the task, and its output."""
_ROOTS = ITEM_ROOTS | ONLY_IN_PARAMS
SIMILAR = 0.5
"""How similar a param must be to a parameter: less than other words, because a handler has only a few."""


def unfit(definition: Definition, handlers: Mapping[str, Handler], source: Source) -> list[Detail]:
    """The params that the handlers do not take, those that they miss, and literals of a wrong type."""
    report = Report(source)
    for node in definition.nodes:
        for path, task in kind_of(node).works(node):
            handler = handlers.get(task.handler)
            if handler is not None and not report.is_full:
                _check_params(node.name, task, handler, path, report)
        for path, task in kind_of(node).compensations(node):
            handler = handlers.get(task.handler)
            if handler is not None:
                _check_compensation(node.name, handler, path, report)
    for rules in definition.breakers:
        handler = handlers.get(rules.probe_handler or "")
        if handler is not None:
            _check_probe(rules, handler, report)
    return report.problems


def _check_params(node: str, task: TaskSpec, handler: Handler, path: Path, report: Report) -> None:
    params, place = task.params, (*path, "params")
    who, context = f"The handler {handler.name} of node '{node}'", handler.context_parameter
    missing = handler.required - params.keys()
    if context in params:
        report.at_key((*place, context), f"{who} gets its context as '{context}'.", "Give the param another name.")
    for name in params:
        if name in handler.checks:
            _check_value(node, name, params[name], handler, place, report)
        elif name != context and not handler.takes_anything:
            suggestion = _meant(name, missing, handler.checks, is_batch=path[-1] == "batch")
            report.at_key((*place, name), f"{who} has no parameter '{cut(name)}'.", suggestion)
    if missing:
        where = report.source.first_of(place, (*path, "handler"))
        message = f"{who} needs {names_in(missing)}, which the node does not pass ({params_in(params)})."
        (report.at_key if where == place else report.at_value)(where, message)


def _check_compensation(node: str, handler: Handler, path: Path, report: Report) -> None:
    """It may name what it needs of the two."""
    where, more = report.source.first_of((*path, "handler"), path), handler.required - COMPENSATED
    if more:
        message = f"The handler {handler.name} undoes '{node}' and is called with params and output,"
        report.at_value(where, f"{message} but needs {names_in(more)}.", "Read it from 'params' or 'output'.")


def _meant(name: str, missing: Iterable[str], known: Iterable[str], *, is_batch: bool) -> str | None:
    if is_batch and name == "page":
        return "Every batch gets its page: give the function a parameter 'page'."
    for names in (missing, known):
        if close := difflib.get_close_matches(name, list(names), n=1, cutoff=SIMILAR):
            return f"Did you mean '{close[0]}'?"
    return did_you_mean(name, known)


def _check_value(node: str, name: str, value: Any, handler: Handler, place: Path, report: Report) -> None:
    """Runs the worker's own check on what is certain of a value: a literal, or the type of a text or an object."""
    try:
        if not compile_template(value, _ROOTS).is_constant:
            is_any = isinstance(value, str) and not always_text(value, _ROOTS)
            if is_any or name not in handler.plain:
                return
            value = type(value)()
        handler.checks[name](value)
    except ContractViolation as breach:
        if breach.is_certain:
            report.at_value((*place, name), f"A param of node '{node}' does not fit: {breach}.")
    except ExpressionSyntaxError:
        # Reported elsewhere, with its place.
        return
    except Exception:
        # A validator of the user may raise anything; the worker may have what it lacks here.
        return


def _check_probe(rules: BreakerRules, handler: Handler, report: Report) -> None:
    where, who = ("breakers", rules.name, "probe", "handler"), f"The probe {handler.name} of breaker '{rules.name}'"
    if handler.context_parameter is not None:
        report.at_value(where, f"{who} takes '{handler.context_parameter}', but a probe runs outside of any job.")
    if handler.required:
        report.at_value(where, f"{who} needs {names_in(handler.required)}, but a probe is called without params.")
