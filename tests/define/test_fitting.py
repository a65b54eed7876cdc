"""Params against signatures: what a workflow passes, and what its handlers take."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, FilePath

from holdfast import Context, Workflow, handler
from holdfast.define.known import Known
from holdfast.define.load import check_text
from holdfast.define.registry import ATTRIBUTE, Registry

HEAD = "workflow_id: w\nnodes:\n"


@handler("report")
def report(day: str, files: int, total: float = 0.0) -> None: ...


@handler("anything")
def anything(ctx: Context, **params: Any) -> None: ...


@handler("page_of")
def page_of(page: dict[str, Any], scale: int = 1) -> None: ...


@handler("no_page")
def no_page(scale: int = 1) -> None: ...


def shouting(text: str) -> str:
    if text != "LOUD":
        raise ValueError("not loud")
    return text


def raising(text: str) -> str:
    raise RuntimeError("no network here")


@handler("rich")
def rich(
    mode: Literal["fast", "slow"] = "fast",
    numbers: list[int] | None = None,
    file: FilePath | None = None,
    text: Annotated[str, AfterValidator(shouting)] = "LOUD",
    either: int | Annotated[str, AfterValidator(shouting)] = 0,
    broken: Annotated[str, AfterValidator(raising)] = "",
) -> None: ...


@handler("probe_me")
def probe_me() -> None: ...


@handler("probe_with_context")
def probe_with_context(ctx: Context) -> None: ...


KNOWN = Known.of(
    Registry(
        getattr(one, ATTRIBUTE) for one in (report, anything, page_of, no_page, rich, probe_me, probe_with_context)
    )
)


def problems(nodes: str, head: str = HEAD) -> list[str]:
    definition, found = check_text(head + nodes, "w.yaml", KNOWN)
    assert (definition is None) is bool(found)
    return [str(one) for one in found]


def test_an_unknown_param_and_a_missing_one_are_errors_at_their_place() -> None:
    assert problems("  r:\n    handler: report\n    params: {date: '2026-01-01', files: 2, total: 1}\n") == [
        "w.yaml:5:5: The handler report of node 'r' needs 'day', which the node does not pass (it passes date, files, "
        "total).",
        "w.yaml:5:14: The handler report of node 'r' has no parameter 'date'. Did you mean 'day'?",
    ]
    assert problems("  r: {handler: report}\n") == [
        "w.yaml:3:16: The handler report of node 'r' needs 'day', 'files', which the node does not pass (it passes "
        "nothing)."
    ]
    assert problems("  r: {handler: report, params: {day: a, files: 1, totl: 2, qqq: 3}}\n") == [
        "w.yaml:3:51: The handler report of node 'r' has no parameter 'totl'. Did you mean 'total'?",
        "w.yaml:3:60: The handler report of node 'r' has no parameter 'qqq'.",
    ]
    assert problems("  r: {handler: report, params: {day: a, files: 1, total: 2}}\n") == []


def test_a_literal_of_a_wrong_type_is_an_error_and_a_template_may_be_anything() -> None:
    wrong = problems("  r: {handler: report, params: {day: 7, files: '7', total: no number}}\n")
    assert wrong == [
        "w.yaml:3:38: A param of node 'r' does not fit: handler report: 'day' must be str, not int.",
        "w.yaml:3:48: A param of node 'r' does not fit: handler report: 'files' must be int, not str.",
        "w.yaml:3:60: A param of node 'r' does not fit: handler report: 'total' must be float, not str.",
    ]
    whole = "  r: {handler: report, params: {day: '{{ inputs.d }}', files: ' {{ inputs.f }} ', total: '{{ 1 }}'}}\n"
    assert problems(whole) == []
    # Text around an expression always gives a text.
    assert (
        "'files' must be int" in problems("  r: {handler: report, params: {day: a, files: 'no {{ inputs.f }}'}}\n")[0]
    )
    assert "'files' must be int" in problems("  r: {handler: report, params: {day: a, files: ['{{ inputs.f }}']}}\n")[0]


@pytest.mark.parametrize(
    ("param", "is_wrong"),
    [
        ("mode: slwo", True),
        ("mode: '{{ inputs.m }}'", False),
        ("numbers: [1, two]", True),
        ("numbers: ['{{ inputs.n }}', two]", False),
        ("numbers: null", False),
        ("file: /there/is/no/such.file", False),
        ("file: 7", True),
        ("text: quiet", False),
        ("either: quiet", False),
        ("broken: x", False),
    ],
)
def test_only_what_is_certain_without_the_worker_is_an_error(param: str, is_wrong: bool) -> None:
    """A file may exist on the worker alone, and a validator of the user may accept there what it refuses here."""
    assert bool(problems(f"  r: {{handler: rich, params: {{{param}}}}}\n")) is is_wrong


def test_a_double_star_takes_every_param_but_the_name_of_the_context() -> None:
    assert problems("  a: {handler: anything, params: {x: 1, 'odd name': 2}}\n") == []
    assert problems("  a: {handler: anything, params: {ctx: 1}}\n") == [
        "w.yaml:3:35: The handler anything of node 'a' gets its context as 'ctx'. Give the param another name."
    ]


def test_the_tasks_of_fan_outs_fan_ins_and_batches_are_checked_too() -> None:
    head = HEAD + "  f:\n    type: fan_out\n    source: '{{ inputs.x }}'\n    next: g\n"
    gather = "  g:\n    type: fan_in\n    handler: report\n    params: {day: a}\n"
    found = problems(
        "    task: {handler: report, params: {day: '{{ item }}', file: 1}}\n"
        f"{gather}    batch: {{handler: no_page, params: {{scale: two}}}}\n",
        head,
    )
    assert found == [
        "w.yaml:7:29: The handler report of node 'f' needs 'files', which the node does not pass (it passes day, "
        "file).",
        "w.yaml:7:57: The handler report of node 'f' has no parameter 'file'. Did you mean 'files'?",
        "w.yaml:11:5: The handler report of node 'g' needs 'files', which the node does not pass (it passes day).",
        "w.yaml:12:31: The handler no_page of node 'g' has no parameter 'page'. Every batch gets its page: give the "
        "function a parameter 'page'.",
        "w.yaml:12:47: A param of node 'g' does not fit: handler no_page: 'scale' must be int, not str.",
    ]
    fitting = gather.replace("{day: a}", "{day: a, files: 1}") + "    batch: {handler: page_of, params: {scale: 2}}\n"
    assert problems("    task: {handler: anything}\n" + fitting, head) == []


def test_a_probe_gets_neither_params_nor_a_context() -> None:
    def with_probe(name: str) -> list[str]:
        return problems(
            "  a: {handler: anything, breaker: crm}\n",
            f"workflow_id: w\nbreakers: {{crm: {{probe: {{handler: {name}}}}}}}\nnodes:\n",
        )

    assert with_probe("probe_me") == []
    assert with_probe("prob_me") == ["w.yaml:2:35: There is no handler 'prob_me'. Did you mean 'probe_me'?"]
    assert with_probe("report") == [
        "w.yaml:2:35: The probe report of breaker 'crm' needs 'day', 'files', but a probe is called without params."
    ]
    assert with_probe("probe_with_context") == [
        "w.yaml:2:35: The probe probe_with_context of breaker 'crm' takes 'ctx', but a probe runs outside of any job."
    ]


def test_without_signatures_only_the_names_of_handlers_are_checked() -> None:
    text = HEAD + "  r: {handler: report, params: {date: 1}}\n"
    assert check_text(text, "w.yaml", Known(["report"]))[1] == []
    assert check_text(text, "w.yaml")[1] == []


def test_a_broken_node_is_not_reported_twice_and_a_thousand_mistakes_are_bounded() -> None:
    broken = "  r: {handler: report, retrys: 1, params: {day: '{{ nope', files: 1, date: 2}}\n"
    assert all("parameter" not in one for one in problems(broken))
    many = "".join(f"  n{number}: {{handler: report}}\n" for number in range(1000))
    assert len(problems(many)) == 100
    long = problems(f"  r: {{handler: report, params: {{day: a, files: 1, {'x' * 5000}: 1}}}}\n")
    assert len(long) == 1
    assert len(long[0]) < 500


def test_a_workflow_of_python_is_checked_like_a_file() -> None:
    flow = Workflow("w")
    flow.task("r", handler=report, params={"date": "2026-01-01", "files": 1})
    _, found = flow.check(KNOWN)
    assert [(one.path, one.suggestion) for one in found] == [
        ("nodes.r.params.date", "Did you mean 'day'?"),
        ("nodes.r.params", None),
    ]
