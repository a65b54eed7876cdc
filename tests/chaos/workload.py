"""The jobs of a fault test: chains, fan-outs, conditionals, retries, checkpoints, and one that fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.operations.submitting import new_job
from holdfast.store.records import NewJob

CHAIN = """
workflow_id: chain
inputs: {number: {type: integer}}
nodes:
  first: {handler: chaos_step, params: {number: "{{ inputs.number }}"}, next: second}
  second: {handler: chaos_step, params: {number: "{{ nodes.first.output }}"}, next: third}
  third: {handler: chaos_step, params: {number: "{{ nodes.second.output }}"}}
"""
FAN = """
workflow_id: fan
inputs: {number: {type: integer}, items: {type: array, default: [1, 2, 3, 4, 5, 6]}}
nodes:
  begin: {handler: chaos_step, params: {number: "{{ inputs.number }}"}, next: each}
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: chaos_item, params: {number: "{{ item }}"}}
    next: gather
  gather: {type: fan_in, aggregation: sum}
"""
CORRECTED = FAN.replace("workflow_id: fan", "workflow_id: corrected")
OTHER_ITEMS = [1, 7, 2, 4, 8, 6]
"""What a correction makes of the items of that job: two are new, and two are gone."""
CHOICE = """
workflow_id: choice
inputs: {number: {type: integer}}
nodes:
  ask: {handler: chaos_step, params: {number: "{{ inputs.number }}"}, next: is_even}
  is_even: {type: conditional, condition: "{{ nodes.ask.output }} > 1", on_true: large, on_false: small}
  large: {handler: chaos_step, params: {number: 100}, next: end}
  small: {handler: chaos_step, params: {number: 0}, next: end}
  end: {type: end, depends_on: {any_of: [large, small]}}
"""
RETRY = """
workflow_id: retry
inputs: {number: {type: integer}}
nodes:
  flaky:
    handler: chaos_flaky
    params: {number: "{{ inputs.number }}"}
    retry: {max_retries: 5, initial_delay_seconds: 0.1, max_delay_seconds: 0.2}
    next: after
  after: {handler: chaos_step, params: {number: "{{ nodes.flaky.output }}"}}
"""
SAVER = """
workflow_id: saver
inputs: {number: {type: integer}}
nodes:
  save:
    handler: chaos_saver
    params: {steps: 4}
    retry: {max_retries: 0}
    next: after
  after: {handler: chaos_step, params: {number: "{{ inputs.number }}"}}
"""
LARGE = """
workflow_id: large
inputs: {number: {type: integer}}
nodes:
  make: {handler: chaos_large, params: {text: "{{ inputs.number }} ten chars"}, next: grow}
  grow: {handler: chaos_large, params: {text: "{{ nodes.make.output.text }}"}, next: measure}
  measure: {handler: chaos_step, params: {number: "{{ nodes.grow.output.length }}"}}
"""
PARTIAL = """
workflow_id: partial
inputs: {number: {type: integer}}
nodes:
  main: {handler: chaos_step, params: {number: "{{ inputs.number }}"}}
  extra: {handler: chaos_broken, importance: important}
"""
GIL = """
workflow_id: gil
inputs: {number: {type: integer}}
nodes:
  hold: {handler: chaos_gil, next: after}
  after: {handler: chaos_step, params: {number: "{{ inputs.number }}"}}
"""
STUBBORN = """
workflow_id: stubborn
inputs: {number: {type: integer}}
nodes:
  stay: {handler: chaos_stubborn, next: after}
  after: {handler: chaos_step, params: {number: "{{ inputs.number }}"}}
"""
CRASH = """
workflow_id: crash
inputs: {{number: {{type: integer}}}}
nodes:
  crash: {{handler: {handler}, retry: {{max_retries: 0}}, next: after}}
  after: {{handler: chaos_step, params: {{number: "{{{{ inputs.number }}}}"}}}}
"""
DEADLY = """
workflow_id: deadly
inputs: {number: {type: integer}}
nodes:
  only: {handler: chaos_step, params: {number: "{{ inputs.number }}"}}
"""
ORDER = """
workflow_id: order
inputs: {number: {type: integer}}
nodes:
  reserve: {handler: chaos_do, params: {flaky: false}, compensate: chaos_take_back, next: charge}
  charge:
    handler: chaos_do
    params: {flaky: true}
    compensate:
      handler: chaos_take_back
      retry: {max_retries: 3, initial_delay_seconds: 0.1, max_delay_seconds: 0.2}
    next: ship
  ship: {handler: chaos_do, params: {flaky: false}, compensate: chaos_take_back}
"""
MIXED = (CHAIN, FAN, CHOICE, RETRY, SAVER, LARGE, PARTIAL)
RETRYING = tuple(workflow for workflow in MIXED if "max_retries: 0" not in workflow)
"""For a fault that is a failure of the handler. Other faults must not use up a retry."""


class Expected(NamedTuple):
    """The expected end of a job, whatever faults occur."""

    status: str
    result: Any


def expected(job: NewJob) -> Expected:
    """The expected result, computed by hand. It is first compared with a result without faults."""
    number = job.inputs["number"]
    match job.workflow_id:
        case "chain":
            return Expected("completed", number + 3)
        case "fan":
            return Expected("completed", {"total": sum(n * n for n in job.inputs["items"]), "count": 6})
        case "corrected":
            return Expected("completed", {"total": sum(n * n for n in OTHER_ITEMS), "count": 6})
        case "choice":
            return Expected("completed", 101 if number > 0 else 1)
        case "large":
            return Expected("completed", 100 * len(f"{number} ten chars") + 1)
        case "partial":
            return Expected("partial", None)
        case "order":
            return Expected("cancelled", None)
        case _:
            return Expected("completed", number + 1)


def jobs(workflows: Iterable[str] = MIXED, copies: int = 2) -> list[NewJob]:
    """`copies` jobs of each workflow, with different inputs."""
    definitions: list[Definition] = [load_text(text) for text in workflows]
    return [
        new_job(definition, {"number": number}, key=f"{definition.workflow_id} {number}")
        for number in range(copies)
        for definition in definitions
    ]
