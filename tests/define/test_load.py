"""Whole files: what loads, and what every mistake says, where it points and what it suggests."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.define.known import Known
from holdfast.define.load import check_file, check_source, check_text, load_file, load_text
from holdfast.define.node import NodeType
from holdfast.define.source import Source
from holdfast.define.workflow import Workflow
from holdfast.errors import Detail, InvalidDefinition, NotFound

FILES = Path(__file__).parent / "files"
HEAD = "workflow_id: w\nnodes:\n"


def only(text: str) -> Detail:
    definition, problems = check_text(text, "w.yaml")
    assert definition is None
    assert len(problems) == 1, "\n".join(map(str, problems))
    return problems[0]


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_file_loads(file: Path) -> None:
    assert load_file(file).nodes


def test_only_an_id_and_nodes_are_needed_and_the_defaults_are_those_of_the_contract() -> None:
    definition = load_text("workflow_id: w\nnodes: {a: {handler: echo}}")
    assert (definition.version, definition.inputs, definition.timeout_seconds) == ("1", (), None)
    node = definition.node("a")
    assert node.type is NodeType.TASK
    assert node.importance == "critical"
    assert node.task is not None
    assert (node.task.queue, node.task.timeout_seconds, node.task.queue_timeout_seconds) == (
        "default",
        3600,
        None,
    )
    retry = node.task.retry
    assert (retry.max_retries, retry.backoff, retry.initial_delay_seconds) == (3, "exponential", 1)
    assert (retry.max_delay_seconds, retry.jitter, retry.schedule) == (300, "full", ())


MISTAKES: dict[str, tuple[str, int, int, str, str | None]] = {
    # what: (file, line, column, part of the message, part of the suggestion)
    "no id": ("nodes: {a: {handler: x}}", 1, 1, "'workflow_id' is missing", None),
    "no nodes": ("workflow_id: w", 1, 1, "'nodes' is missing", None),
    "no node": ("workflow_id: w\nnodes: {}", 2, 8, "'nodes' must not be empty", None),
    "nodes as a list": ("workflow_id: w\nnodes: [a]", 2, 8, "'nodes' must be an object", None),
    "a list at the top": ("- a\n- b\n", 1, 1, "must be an object", None),
    "an id that is a path": (
        "workflow_id: ../w\nnodes: {a: {handler: x}}",
        1,
        14,
        "'../w' is not a valid workflow_id",
        None,
    ),
    "an unknown top key": (
        "workflow_id: w\ntimout_minutes: 3\nnodes: {a: {handler: x}}",
        2,
        1,
        "Unknown key 'timout_minutes'",
        "'timeout_minutes'",
    ),
    "a key of a later version": (
        "workflow_id: w\nsecrets: {}\nnodes: {a: {handler: x}}",
        2,
        1,
        "Unknown key 'secrets'",
        None,
    ),
    "a tolerance without a number": (
        HEAD + "  f:\n    type: fan_out\n    source: '{{ inputs.x }}'\n    tolerate: {}\n    task: {handler: x}\n",
        6,
        5,
        "'failures' is missing",
        None,
    ),
    "a tolerance below nothing": (
        HEAD
        + "  f:\n    type: fan_out\n    source: '{{ inputs.x }}'\n    tolerate: {failures: -1}\n    task: {handler: x}",
        6,
        26,
        'a share such as "1%"',
        None,
    ),
    "a tolerance of more than all": (
        HEAD
        + "  f:\n    type: fan_out\n    source: '{{ inputs.x }}'\n    tolerate: {failures: 101%}\n    task: {handler: x}",  # noqa: E501
        6,
        26,
        'a share such as "1%"',
        None,
    ),
    "an unknown way to go on": (
        HEAD
        + "  f:\n    type: fan_out\n    source: '{{ inputs.x }}'\n    on_item_failure: end\n    task: {handler: x}\n",
        6,
        22,
        "one of finish, stop",
        None,
    ),
    "an unknown node key": (HEAD + "  a:\n    handler: x\n    retrys: {}\n", 5, 5, "'retrys'", "'retry'"),
    "an unknown retry key": (
        HEAD + "  a: {handler: x, retry: {max_retrys: 1}}\n",
        3,
        27,
        "'max_retrys'",
        "'max_retries'",
    ),
    "an unknown input key": (
        "workflow_id: w\ninputs: {x: {typ: string}}\nnodes: {a: {handler: x}}",
        2,
        14,
        "'typ'",
        "'type'",
    ),
    "a key of another type": (
        HEAD + "  a: {handler: x, source: y}\n",
        3,
        19,
        "does not belong to a task",
        "fan_out",
    ),
    "a negative delay": (
        HEAD + "  a: {handler: x, retry: {initial_delay_seconds: -1}}\n",
        3,
        50,
        "'initial_delay_seconds' must be at least 0.",
        None,
    ),
    "a jitter whose bounds are turned round": (
        HEAD + "  a:\n    handler: x\n    retry:\n      jitter: {min_seconds: 5, max_seconds: 1}\n",
        6,
        29,
        "'min_seconds' is greater than 'max_seconds'.",
        None,
    ),
    "a code that is none": (
        HEAD + "  a: {handler: x, retry: {retry_on: [timeout]}}\n",
        3,
        38,
        "a capital letter, then capital letters, digits and '_'",
        None,
    ),
    "a rule that fits everything": (
        HEAD + "  a: {handler: x, errors: [{class: permanent}]}\n",
        3,
        28,
        "The rule matches everything.",
        "Give it 'match', 'pattern' or 'exit_code'.",
    ),
    "a rule without any text": (
        HEAD + "  a: {handler: x, errors: [{match: [], class: permanent}]}\n",
        3,
        36,
        "'match' must not be empty.",
        None,
    ),
    "a pattern of a rule that cannot be read": (
        HEAD + "  a: {handler: x, errors: [{pattern: '(a', class: permanent}]}\n",
        3,
        38,
        "The pattern is not a valid regular expression, or needs more than",
        "Look-ahead, look-behind and back-references are not allowed",
    ),
    "a rule without a class": (
        HEAD + "  a: {handler: x, errors: [{match: gone}]}\n",
        3,
        28,
        "The key 'class' is missing.",
        None,
    ),
    "an unknown key of a rule": (
        HEAD + "  a: {handler: x, errors: [{match: x, clas: permanent, class: permanent}]}\n",
        3,
        39,
        "Unknown key 'clas'.",
        "'class'",
    ),
    "a breaker that is not declared": (
        "workflow_id: w\nbreakers: {gateway: {}}\nnodes: {a: {handler: x, breaker: gatway}}\n",
        3,
        34,
        "There is no breaker 'gatway'.",
        "'gateway'",
    ),
    "a breaker that never opens": (
        "workflow_id: w\nbreakers: {g: {window_calls: 5, min_calls: 6}}\nnodes: {a: {handler: x}}\n",
        2,
        44,
        "'min_calls' is greater than 'window_calls'",
        None,
    ),
    "an unknown key of a breaker": (
        "workflow_id: w\nbreakers: {g: {windowcalls: 5}}\nnodes: {a: {handler: x}}\n",
        2,
        16,
        "Unknown key 'windowcalls'.",
        "'window_calls'",
    ),
    "a probe of both kinds": (
        "workflow_id: w\nbreakers: {g: {probe: {url: 'http://x/', handler: y}}}\nnodes: {a: {handler: x}}\n",
        2,
        23,
        "A probe needs either an address or a handler.",
        "Give 'url' or 'handler'.",
    ),
    "a probe of a file": (
        "workflow_id: w\nbreakers: {g: {probe: {url: 'file:///etc/passwd'}}}\nnodes: {a: {handler: x}}\n",
        2,
        29,
        "an address with http:// or https://",
        None,
    ),
    "a limit of zero": (
        HEAD + "  a: {handler: x, concurrency: {limit: 0}}\n",
        3,
        40,
        "'limit' must be at least 1.",
        None,
    ),
    "a rate of nothing": (
        HEAD + "  a: {handler: x, rate: {limit: 1, per_seconds: 0}}\n",
        3,
        49,
        "'per_seconds' must be at least 0.001.",
        None,
    ),
    "an unknown key of a limit": (
        HEAD + "  a: {handler: x, concurrency: {limt: 1, limit: 1}}\n",
        3,
        33,
        "Unknown key 'limt'.",
        "'limit'",
    ),
    "a key of a limit that reads an item": (
        HEAD + "  f:\n    type: fan_out\n    source: '{{ inputs.x }}'\n"
        "    task: {handler: x, concurrency: {limit: 1, key: '{{ item }}'}}\n",
        6,
        57,
        "'item' cannot be used",
        "Names are: inputs",
    ),
    "retry outside of task": (
        HEAD + "  f: {type: fan_out, source: '{{ inputs.x }}', retry: {}, task: {handler: x}}\n",
        3,
        48,
        "does not belong to a fan_out",
        "under 'task'",
    ),
    "importance of a conditional": (
        HEAD + "  c: {type: conditional, importance: optional, condition: 'true', on_true: a, on_false: a}\n"
        "  a: {handler: x}\n",
        3,
        26,
        "does not belong to a conditional",
        "always critical",
    ),
    "an end that goes on": (
        HEAD + "  a: {handler: x, next: e}\n  e: {type: end, next: a}\n",
        4,
        18,
        "does not belong to an end",
        "Nothing follows an end",
    ),
    "no handler": (HEAD + "  a: {queue: q}\n", 3, 3, "has no 'handler'", None),
    "an end without its type": (
        HEAD + "  a: {handler: x, next: end}\n  end: {}\n",
        4,
        3,
        "no 'handler'",
        "type: end",
    ),
    "a node that is nothing": (
        HEAD + "  a: {handler: x, next: end}\n  end:\n",
        5,
        1,
        "must be an object",
        "type: end",
    ),
    "an unknown type": (
        HEAD + "  a: {type: tsak, handler: x}\n",
        3,
        13,
        "Unknown node type 'tsak'",
        "'task'",
    ),
    "a type that is a number": (HEAD + "  a: {type: 5, handler: x}\n", 3, 13, "type must be one of", None),
    "a number as handler": (HEAD + "  a: {handler: 5}\n", 3, 16, "must be text", "quotes"),
    "a bad handler name": (HEAD + "  a: {handler: 'x y'}\n", 3, 16, "'x y' is not a valid handler", None),
    "a bad queue name": (HEAD + "  a: {handler: x, queue: 'a/b'}\n", 3, 26, "'a/b' is not a valid queue", None),
    "a node name with a slash": (HEAD + "  a/b: {handler: x}\n", 3, 3, "'a/b' is not a valid name", "letter"),
    "a node name with two underscores": (
        HEAD + "  a__b: {handler: x}\n",
        3,
        3,
        "'a__b' is not",
        "single '_'",
    ),
    "a long node name": (HEAD + f"  {'a' * 101}: {{handler: x}}\n", 3, 3, "longer than 100", None),
    "params as a list": (HEAD + "  a: {handler: x, params: [1]}\n", 3, 27, "'params' must be an object", None),
    "a timeout of zero": (HEAD + "  a: {handler: x, timeout_seconds: 0}\n", 3, 36, "at least 0.001", None),
    "a negative timeout": (
        HEAD + "  a: {handler: x, queue_timeout_seconds: -1}\n",
        3,
        42,
        "at least 0.001",
        None,
    ),
    "a timeout that no column holds": (
        HEAD + "  a: {handler: x, timeout_seconds: 5e-324}\n",
        3,
        36,
        "'timeout_seconds' must be at least 0.001.",
        None,
    ),
    "a queue timeout that no column holds": (
        HEAD + "  a: {handler: x, queue_timeout_seconds: 1e-320}\n",
        3,
        42,
        "'queue_timeout_seconds' must be at least 0.001.",
        None,
    ),
    "a mistyped key of tolerate": (
        HEAD + "  f: {type: fan_out, source: '{{ [1] }}', task: {handler: x}, tolerate: {failures: 1, failure: 3}}\n",
        3,
        87,
        "Unknown key 'failure'.",
        "Did you mean 'failures'?",
    ),
    "more tolerated failures than there are items": (
        HEAD + "  a: {type: fan_out, source: '{{ [1] }}', task: {handler: x}, tolerate: {failures: 2147483648}}\n",
        3,
        84,
        "at most 2,147,483,647",
        None,
    ),
    "a length that no text has": (
        "workflow_id: w\ninputs: {a: {max_length: 2147483648}}\nnodes: {a: {handler: x}}\n",
        2,
        26,
        "'max_length' must be at most 2,147,483,647.",
        None,
    ),
    "an endless timeout": (
        HEAD + "  a: {handler: x, timeout_seconds: 1e300}\n",
        3,
        36,
        "at most 315,360,000",
        None,
    ),
    "a timeout in quotes": (
        HEAD + "  a: {handler: x, timeout_seconds: '5'}\n",
        3,
        36,
        "must be a number",
        "quotes",
    ),
    "two job timeouts": (
        "workflow_id: w\ntimeout_minutes: 1\ntimeout_seconds: 60\nnodes: {a: {handler: x}}",
        3,
        1,
        "not both",
        None,
    ),
    "negative retries": (HEAD + "  a: {handler: x, retry: {max_retries: -1}}\n", 3, 40, "at least 0", None),
    "retries as a fraction": (
        HEAD + "  a: {handler: x, retry: {max_retries: 1.5}}\n",
        3,
        40,
        "a whole number",
        None,
    ),
    "both spellings of retries": (
        HEAD + "  a: {handler: x, retry: {max_retries: 1, max_attempts: 1}}\n",
        3,
        43,
        "not both",
        None,
    ),
    "an unknown backoff": (
        HEAD + "  a: {handler: x, retry: {backoff: expo}}\n",
        3,
        36,
        "one of fixed",
        "'exponential'",
    ),
    "an unknown jitter": (HEAD + "  a: {handler: x, retry: {jitter: ful}}\n", 3, 35, "one of none", "'full'"),
    "an empty schedule": (
        HEAD + "  a: {handler: x, retry: {schedule: []}}\n",
        3,
        37,
        "must not be empty",
        None,
    ),
    "a schedule that is not there": (
        HEAD + "  a: {handler: x, retry: {backoff: schedule}}\n",
        3,
        36,
        "needs",
        None,
    ),
    "a schedule beside a backoff": (
        HEAD + "  a: {handler: x, retry: {backoff: fixed, schedule: [1]}}\n",
        3,
        36,
        "With a schedule",
        "Remove",
    ),
    "a first delay beyond the last": (
        HEAD + "  a: {handler: x, retry: {initial_delay_seconds: 10, max_delay_seconds: 5}}\n",
        3,
        50,
        "greater than 'max_delay_seconds'",
        None,
    ),
    "an unknown importance": (
        HEAD + "  a: {handler: x, importance: optinal}\n",
        3,
        31,
        "critical",
        "'optional'",
    ),
    "an unknown aggregation": (
        HEAD + "  f: {type: fan_out, source: '{{ inputs.x }}', task: {handler: x}, next: g}\n"
        "  g: {type: fan_in, aggregation: colect}\n",
        4,
        34,
        "'aggregation' must be one of",
        "'collect'",
    ),
    "an unknown next": (
        HEAD + "  a: {handler: x, next: ab}\n  abc: {handler: x}\n",
        3,
        25,
        "no node 'ab'",
        "'abc'",
    ),
    "an unknown next in a list": (
        HEAD + "  a: {handler: x, next: [b, c]}\n  b: {handler: x}\n",
        3,
        29,
        "'c'",
        None,
    ),
    "a node after itself": (HEAD + "  a: {handler: x, next: a}\n", 3, 25, "names itself", None),
    "a node named twice": (
        HEAD + "  a: {handler: x, next: [b, b]}\n  b: {handler: x}\n",
        3,
        29,
        "twice",
        None,
    ),
    "next as a number": (HEAD + "  a: {handler: x, next: 5}\n", 3, 25, "a node's name or a list", None),
    "an unknown dependency": (HEAD + "  a: {handler: x, depends_on: [b]}\n", 3, 32, "no node 'b'", None),
    "an unknown dependency of any": (
        HEAD + "  a: {handler: x, depends_on: {any_of: [bb]}}\n  b: {handler: x}\n",
        3,
        41,
        "no node 'bb'",
        "'b'",
    ),
    "a dependency in both lists": (
        HEAD + "  a: {handler: x, depends_on: {all_of: [b], any_of: [b]}}\n  b: {handler: x}\n",
        3,
        45,
        "in all_of and in any_of",
        "Remove it",
    ),
    "depends_on as a number": (
        HEAD + "  a: {handler: x, depends_on: 5}\n",
        3,
        31,
        "a list of names, or an object",
        None,
    ),
    "a cycle": (
        HEAD + "  a: {handler: x, next: b}\n  b: {handler: x, next: c}\n  c: {handler: x, next: b}\n",
        4,
        3,
        "cycle: b -> c -> b",
        None,
    ),
    "two starts": (
        HEAD + "  s: {type: start, next: a}\n  t: {type: start, next: a}\n  a: {handler: x}\n",
        4,
        3,
        "second start; the first is 's'",
        None,
    ),
    "a node out of reach": (
        HEAD + "  s: {type: start, next: a}\n  a: {handler: x}\n  b: {handler: x, next: c}\n  c: {handler: x}\n",
        5,
        3,
        "'b' cannot be reached from 's'",
        "depends_on: [s]",
    ),
    "a way back to the start": (
        HEAD + "  a: {handler: x, next: s}\n  s: {type: start}\n",
        3,
        3,
        "leads to the start",
        None,
    ),
    "a node after the end": (
        HEAD + "  e: {type: end}\n  a: {handler: x, depends_on: [e]}\n",
        4,
        3,
        "waits for the end 'e'",
        None,
    ),
    "a fan-in after nothing": (
        HEAD + "  g: {type: fan_in}\n",
        3,
        3,
        "exactly one fan_out; it has none",
        "next: g",
    ),
    "a fan-in after two fan-outs": (
        HEAD + "  f: {type: fan_out, source: '{{ inputs.x }}', task: {handler: x}, next: h}\n"
        "  g: {type: fan_out, source: '{{ inputs.x }}', task: {handler: x}, next: h}\n"
        "  h: {type: fan_in}\n",
        5,
        3,
        "it has 2 (f, g)",
        None,
    ),
    "a queue without a handler": (
        HEAD + "  f: {type: fan_out, source: '{{ inputs.x }}', task: {handler: x}, next: h}\n"
        "  h: {type: fan_in, queue: q}\n",
        4,
        21,
        "'queue' needs a handler",
        None,
    ),
    "a fan-out without source": (
        HEAD + "  f: {type: fan_out, task: {handler: x}}\n",
        3,
        3,
        "has no 'source'",
        None,
    ),
    "a fan-out without task": (
        HEAD + "  f: {type: fan_out, source: '{{ inputs.x }}'}\n",
        3,
        3,
        "has no 'task'",
        None,
    ),
    "an item task without handler": (
        HEAD + "  f: {type: fan_out, source: '{{ inputs.x }}', task: {queue: q}}\n",
        3,
        48,
        "'handler' is missing",
        None,
    ),
    "a conditional without branches": (HEAD + "  c: {type: conditional}\n", 3, 3, "no branches", "on_true"),
    "a conditional with an empty list": (
        HEAD + "  c: {type: conditional, condition_field: '{{ inputs.x }}', branches: []}\n",
        3,
        71,
        "must not be empty",
        None,
    ),
    "a conditional without its false side": (
        HEAD + "  c: {type: conditional, condition: '{{ inputs.x }}', on_true: a}\n  a: {handler: x}\n",
        3,
        3,
        "no 'on_false'",
        "end",
    ),
    "a branch without next": (
        HEAD + "  c:\n    type: conditional\n    condition_field: '{{ inputs.x }}'\n    branches:\n"
        "      - condition: < 5\n",
        7,
        9,
        "'next' is missing",
        None,
    ),
    "a branch without condition": (
        HEAD + "  c:\n    type: conditional\n    condition_field: '{{ inputs.x }}'\n    branches:\n"
        "      - next: a\n  a: {handler: x}\n",
        7,
        9,
        "no condition",
        "default: true",
    ),
    "two defaults": (
        HEAD + "  c:\n    type: conditional\n    condition_field: '{{ inputs.x }}'\n    branches:\n"
        "      - {default: true, next: a}\n      - {default: true, next: a}\n  a: {handler: x}\n",
        8,
        10,
        "second default",
        None,
    ),
    "an unknown node in a branch": (
        HEAD + "  c:\n    type: conditional\n    condition: '{{ inputs.x }}'\n    branches:\n"
        "      true: tilse\n      false: tiles\n  tiles: {handler: x}\n",
        7,
        13,
        "no node 'tilse'",
        "'tiles'",
    ),
    "a condition that is not valid": (
        HEAD + "  c: {type: conditional, condition: '{{ inputs.x > }}', on_true: a, on_false: a}\n  a: {handler: x}\n",
        3,
        52,
        "is not valid",
        None,
    ),
    "a template that is not valid": (
        HEAD + "  a:\n    handler: x\n    params:\n      deep: [1, {b: 'so {{ inputs.x + }}'}]\n",
        6,
        39,
        "is not valid",
        None,
    ),
    "a template without quotes": (
        HEAD + "  a: {handler: x, params: {x: {{ inputs.x }} }}\n",
        3,
        32,
        "A key must be plain text",
        "in quotes",
    ),
    "an unknown name in a template": (
        HEAD + "  a: {handler: x, params: {x: '{{ itm }}'}}\n",
        3,
        35,
        "'itm'",
        "names are",
    ),
    "an item outside of a fan-out": (
        HEAD + "  a: {handler: x, params: {x: '{{ item }}'}}\n",
        3,
        35,
        "item",
        "inputs",
    ),
    "an undeclared input": (
        "workflow_id: w\ninputs: {region: {}}\nnodes: {a: {handler: x, params: {r: 'in {{ inputs.regoin }}'}}}",
        3,
        44,
        "There is no input 'regoin'",
        "'region'",
    ),
    "an unknown node in a template": (
        HEAD + "  abc: {handler: x, next: d}\n  d: {handler: x, params: {r: '{{ nodes.abd.output }}'}}\n",
        4,
        35,
        "There is no node 'abd'",
        "'abc'",
    ),
    "a node that is not upstream": (
        HEAD + "  a: {handler: x, params: {r: '{{ nodes.b.output }}'}, next: b}\n  b: {handler: x}\n",
        3,
        35,
        "'b' is not upstream of 'a'",
        None,
    ),
    "a node that reads itself": (
        HEAD + "  a: {handler: x, params: {r: '{{ nodes.a.output }}'}}\n",
        3,
        35,
        "reads its own output",
        None,
    ),
    "an unknown field of a node": (
        HEAD + "  a: {handler: x, next: b}\n  b: {handler: x, params: {r: '{{ nodes.a.outptu.x }}'}}\n",
        4,
        35,
        "A node has no 'outptu'",
        "'output'",
    ),
    "upstream of nothing": (
        HEAD + "  a: {handler: x, params: {r: '{{ upstream.output }}'}}\n",
        3,
        31,
        "'upstream' is the node right before",
        None,
    ),
    "an unknown node in the result": (
        "workflow_id: w\nnodes: {a: {handler: x}}\nresult: {x: ['{{ nodes.b.output }}']}\n",
        3,
        18,
        "There is no node 'b'",
        None,
    ),
    "an unknown input type": (
        "workflow_id: w\ninputs: {x: {type: str}}\nnodes: {a: {handler: x}}",
        2,
        20,
        "'type' must be one of string",
        "'string'",
    ),
    "an input as a word": (
        "workflow_id: w\ninputs: {x: string}\nnodes: {a: {handler: x}}",
        2,
        13,
        "be an object",
        None,
    ),
    "a pattern that is none": (
        "workflow_id: w\ninputs: {x: {type: string, pattern: '['}}\nnodes: {a: {handler: x}}",
        2,
        37,
        "The pattern is not a valid regular expression",
        "^ and $ match the ends of the text",
    ),
    "a long pattern": (
        f"workflow_id: w\ninputs: {{x: {{pattern: '{'a' * 501}'}}}}\nnodes: {{a: {{handler: x}}}}",
        2,
        23,
        "longer than 500",
        None,
    ),
    "a pattern for a number": (
        "workflow_id: w\ninputs: {x: {type: integer, pattern: a}}\nnodes: {a: {handler: x}}",
        2,
        29,
        "does not fit an input of type integer",
        None,
    ),
    "a default of the wrong type": (
        "workflow_id: w\ninputs: {x: {type: integer, default: a}}\nnodes: {a: {handler: x}}",
        2,
        38,
        "The default must be an integer, not a string",
        None,
    ),
    "a default out of bounds": (
        "workflow_id: w\ninputs: {x: {type: integer, default: 5, maximum: 4}}\nnodes: {a: {handler: x}}",
        2,
        38,
        "The default must be at most 4",
        None,
    ),
    "an enum of the wrong type": (
        "workflow_id: w\ninputs: {x: {type: string, enum: [a, 1]}}\nnodes: {a: {handler: x}}",
        2,
        38,
        "'enum' must be a string",
        None,
    ),
    "bounds that exclude all": (
        "workflow_id: w\ninputs: {x: {minimum: 2, maximum: 1}}\nnodes: {a: {handler: x}}",
        2,
        23,
        "'minimum' is greater than 'maximum'",
        None,
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_reported_at_its_place(what: str) -> None:
    text, line, column, message, suggestion = MISTAKES[what]
    problem = only(text)
    assert message in problem.message
    assert (problem.file, problem.line, problem.column) == ("w.yaml", line, column)
    assert (suggestion is None) == (problem.suggestion is None), problem.suggestion
    assert suggestion is None or suggestion in (problem.suggestion or "")


def test_all_mistakes_of_a_file_are_reported_in_order() -> None:
    text = """
workflow_id: w
vresion: 1
inputs: {region: {type: text}}
nodes:
  a: {handler: x, timeout_seconds: -1, params: {r: "{{ inputs.regoin }}"}, next: c}
  b: {type: fan_uot}
  d: {handler: 5, params: {r: "{{ nodes.x.output }}"}, depends_on: [aa]}
result: "{{ 1 + }}"
"""
    definition, problems = check_text(text, "w.yaml")
    assert definition is None
    assert [(problem.line, problem.path) for problem in problems] == [
        (3, "vresion"),
        (4, "inputs.region.type"),
        (6, "nodes.a.timeout_seconds"),
        (6, "nodes.a.params.r"),
        (6, "nodes.a.next"),
        (7, "nodes.b.type"),
        (8, "nodes.d.handler"),
        (8, "nodes.d.params.r"),
        (8, "nodes.d.depends_on[0]"),
        (9, "result"),
    ]


def test_load_raises_one_error_with_all_details() -> None:
    with pytest.raises(InvalidDefinition) as caught:
        load_text("workflow_id: w\nnodes: {a: {handler: x, nxt: b, retrys: 1}}", "w.yaml")
    assert caught.value.message == "The workflow in w.yaml has 2 errors."
    assert str(caught.value).splitlines()[1] == f"  {caught.value.errors[0]}"
    assert len(caught.value.errors) == 2
    assert str(caught.value.errors[0]) == "w.yaml:2:25: Unknown key 'nxt'. Did you mean 'next'?"


def test_a_mistake_in_one_node_hides_no_other_node() -> None:
    _, problems = check_text(HEAD + "  a: {handler: x, retrys: 1, next: b}\n  b: {handler: x, next: c}\n")
    assert [problem.path for problem in problems] == ["nodes.a.retrys", "nodes.b.next"]


def test_missing_edges_give_no_follow_up_errors() -> None:
    text = HEAD + "  s: {type: start, next: aa}\n  a: {handler: x, params: {r: '{{ nodes.s.output }}'}}\n"
    assert only(text).path == "nodes.s.next"


def test_handlers_are_checked_only_against_known_ones() -> None:
    text = HEAD + "  a: {handler: ecko}\n  f: {type: fan_out, source: '{{ inputs.x }}', task: {handler: echo}}\n"
    assert check_text(text)[1] == []
    _, problems = check_text(text, "w.yaml", known=Known(["echo"]))
    assert [(one.line, one.column, one.message, one.suggestion) for one in problems] == [
        (3, 16, "There is no handler 'ecko'.", "Did you mean 'echo'?")
    ]


def test_a_thousand_nodes_are_allowed_and_not_one_more() -> None:
    nodes = "".join(f"  n{number}: {{handler: x}}\n" for number in range(1000))
    assert len(load_text(HEAD + nodes).nodes) == 1000
    assert "more than 1000" in only(HEAD + nodes + "  more: {handler: x}\n").message


def test_large_params_are_refused() -> None:
    assert "larger than 256 KiB" in only(HEAD + f"  a: {{handler: x, params: {{x: '{'y' * 300_000}'}}}}\n").message


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no file .*nothing\.yaml"):
        load_file(tmp_path / "nothing.yaml")


def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    definition, problems = check_file(tmp_path)
    assert definition is None
    assert "cannot be read" in problems[0].message


def test_a_file_in_another_encoding_is_refused_at_its_first_wrong_byte(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes("workflow_id: w\nname: Küste\n".encode("latin-1"))
    _, problems = check_file(file)
    assert [(one.message, one.line, one.column) for one in problems] == [("The file is not UTF-8.", 2, 8)]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "marked.yaml"
    file.write_bytes(b"\xef\xbb\xbfworkflow_id: w\nnodes: {a: {handler: x}}\n")
    assert load_file(file).workflow_id == "w"


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    file.write_bytes(b"#" * (2 * 1024 * 1024))
    assert "larger than 1024 KiB" in check_file(file)[1][0].message


CODES = """
workflow_id: w
breakers:
  g: {codes: [GW_5XX, GW_6XX]}
nodes:
  a:
    handler: x
    breaker: g
    errors: [{match: gone, class: permanent, code: RULED}]
    retry: {retry_on: [TIMEOUT, RULED, TIMEOUTT]}
"""


def test_codes_that_no_failure_can_have_are_mistakes_if_the_codes_are_known() -> None:
    definition, problems = check_text(CODES, "w.yaml", Known(["x"], {"GW_5XX"}))
    assert definition is None
    assert [(p.line, p.column, p.message.split(":")[0], p.suggestion) for p in problems] == [
        (4, 23, "There is no code 'GW_6XX'", "Did you mean 'GW_5XX'?"),
        (10, 40, "There is no code 'TIMEOUTT'", "Did you mean 'TIMEOUT'?"),
    ]
    assert check_text(CODES, "w.yaml")[1] == []


@pytest.mark.parametrize("code", ["not_ready", "1A", "A B", '"A\\n"', '""', "💥", "A" * 65, "A" * 10_000, "7", "[A]"])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("workflow_id: w\nnodes: {a: {handler: x, errors: [{match: m, class: permanent, code: %s}]}}\n", (2, 69)),
        ("workflow_id: w\nnodes: {a: {handler: x, retry: {retry_on: [TIMEOUT, %s]}}}\n", (2, 53)),
        ("workflow_id: w\nbreakers: {b: {codes: [%s]}}\nnodes: {a: {handler: x, breaker: b}}\n", (2, 24)),
    ],
)
def test_a_code_that_breaks_the_rule_is_refused_with_its_place(text: str, place: tuple[int, int], code: str) -> None:
    problem = only(text % code)
    assert (problem.line, problem.column) == place
    assert "at most 64 characters" in problem.message or "must be text" in problem.message
    assert len(problem.message) < 300
    assert check_text(text % ("A" * 64))[1] == []


@pytest.mark.parametrize(
    "text",
    [
        "workflow_id: {x}!\nnodes: {a: {handler: h}}",
        "workflow_id: w\n? {x}\n: 1\nnodes: {a: {handler: h}}",
        "workflow_id: w\nnodes:\n  ? {x}\n  : {handler: h}",
        "workflow_id: w\nnodes: {a: {handler: h, next: {x}}}",
        "workflow_id: w\nnodes: {a: {type: {x}}}",
        "workflow_id: w\nnodes: {a: {handler: h, params: {v: '{{ inputs.{x} }}'}}}\ninputs: {b: {}}",
        "workflow_id: w\nnodes: {a: {handler: h, params: {v: '{{ {x} }}'}}}",
        "workflow_id: w\nnodes: {a: {handler: h, params: {v: '{{ {x}(1) }}'}}}",
    ],
)
def test_no_message_repeats_a_long_text(text: str) -> None:
    _, problems = check_text(text.replace("{x}", "x" * 3000), "w.yaml")
    assert problems and all(len(str(problem)) + len(problem.path or "") < 500 for problem in problems)


def test_an_input_may_have_many_allowed_values() -> None:
    """The allowed values are not compared with each other, which would take minutes."""
    flow = Workflow("w", inputs={"n": {"type": "integer", "enum": list(range(100_000)), "default": 99_999}})
    flow.task("a", handler="h")
    assert len(flow.definition().inputs[0].enum or ()) == 100_000


def test_many_mistakes_are_reported_in_linear_time() -> None:
    inputs = {f"i{n}": {"type": "integer", "minimum": 2, "maximum": 1, "wrong": 1} for n in range(5000)}
    _, problems = check_source(Source({"workflow_id": "w", "inputs": inputs, "nodes": {"a": {"handler": "h"}}}))
    assert len(problems) >= 100
