"""What a caller knows beyond a workflow file, and what in the file is unknown there: handlers and codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from holdfast.define.definition import Definition
from holdfast.define.fitting import unfit
from holdfast.define.kinds import kind_of
from holdfast.define.registry import Handler, Registry
from holdfast.define.source import Path, Report, Source, did_you_mean
from holdfast.errors import Code, Detail, cut


@dataclass(frozen=True, slots=True)
class Known:
    """The handlers of a process by name, the codes that their modules declare, and the handlers' signatures."""

    handlers: Collection[str]
    codes: Collection[str] | None = None
    signatures: Mapping[str, Handler] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: Registry) -> Known:
        codes = {name for one in registry.codes.values() for name in (one.code, one.public_code)}
        return cls(registry.names, codes, {one.name: one for one in registry})


def check_known(definition: Definition, known: Known, source: Source) -> list[Detail]:
    """Reports unknown handlers, unknown codes, and params that do not fit their handlers."""
    problems = _unknown_handlers(definition, known.handlers, source)
    problems += unfit(definition, known.signatures, source)
    return problems + (_unknown_codes(definition, known.codes, source) if known.codes is not None else [])


def _unknown_handlers(definition: Definition, known: Collection[str], source: Source) -> list[Detail]:
    report = Report(source)
    named = [
        ((*path, "handler"), task.handler) for node in definition.nodes for path, task in kind_of(node).works(node)
    ]
    for rules in definition.breakers:
        if rules.probe_handler is not None:
            named.append((("breakers", rules.name, "probe", "handler"), rules.probe_handler))
    for path, name in named:
        if name not in known:
            report.at_value(path, f"There is no handler '{cut(name)}'.", did_you_mean(name, known))
    return report.problems


def _unknown_codes(definition: Definition, declared: Collection[str], source: Source) -> list[Detail]:
    """Reports the codes in retry_on and in breakers that no failure can have."""
    report = Report(source)
    tasks = [work for node in definition.nodes for work in kind_of(node).works(node)]
    ruled = {rule.code for _, task in tasks for rule in task.errors if rule.code}
    known = {*Code.__members__, *declared, *ruled}
    places: list[tuple[Path, tuple[str, ...]]] = [
        (("breakers", rules.name, "codes"), rules.codes or ()) for rules in definition.breakers
    ]
    for path, task in tasks:
        # A batch inherits retry_on from its node, and a node from the workflow.
        own, of_node = (*path, "retry", "retry_on"), (*path[:2], "retry", "retry_on")
        where = source.first_of(own, of_node, ("retry", "retry_on"))
        places.append((where, task.retry.retry_on or ()))
    for where, codes in dict(places).items():
        for index, code in enumerate(codes):
            if code not in known:
                message = f"There is no code '{code}': no handler declares it, and no rule of this file sets it."
                report.at_value((*where, index), message, did_you_mean(code, known))
    return report.problems
