"""Workflows that browser tests run, and a handler that waits until the test lets it go on."""

from __future__ import annotations

from threading import Event
from typing import Any

from holdfast.define.registry import Registry
from holdfast.errors import Permanent
from tests.running import registry

MARKUP = '<img src="x" onerror="window.wasRun = 1"><script>window.wasRun = 2</script>'
DONE = """
workflow_id: done
nodes: {a: {handler: echo}}
"""
FAILING = """
workflow_id: failing
nodes:
  a: {handler: echo, next: b}
  b: {handler: fail, params: {error_message: no luck, permanent: true}}
"""
HALF = """
workflow_id: half
nodes:
  main: {handler: echo}
  extra: {handler: fail, importance: important, params: {error_message: no luck, permanent: true}}
"""
ITEMS = """
workflow_id: items
inputs: {numbers: {type: array, default: [1, 2, 3, 4, 5, 6]}}
nodes:
  each:
    type: fan_out
    source: "{{ inputs.numbers }}"
    task: {handler: fragile, params: {number: "{{ item }}"}, retry: {max_retries: 0}}
    next: all
  all: {type: fan_in}
"""
WAITING = """
workflow_id: waiting
nodes: {a: {handler: wait_for_test}}
"""
SCRIPTED = f"""
workflow_id: scripted
name: 'name {MARKUP}'
description: 'description {MARKUP}'
inputs: {{text: {{type: string, description: 'input {MARKUP}', default: 'default {MARKUP}'}}}}
nodes:
  first: {{handler: say, description: 'node {MARKUP}', params: {{text: "{{{{ inputs.text }}}}"}}, next: each}}
  each:
    type: fan_out
    source: "{{{{ [inputs.text, '2'] }}}}"
    task: {{handler: say, params: {{text: "{{{{ item }}}}"}}}}
    next: last
  last: {{type: fan_in, next: refuse}}
  refuse: {{handler: refuse, params: {{text: "{{{{ inputs.text }}}}"}}}}
"""


class Gate:
    """Tasks of the handler `wait_for_test` run until the test opens the gate. Another one makes lists of numbers."""

    def __init__(self) -> None:
        self._is_open = Event()

    def open(self) -> None:
        self._is_open.set()

    @property
    def handlers(self) -> Registry:
        def wait_for_test() -> str:
            assert self._is_open.wait(60), "the test did not open the gate"
            return "the gate is open"

        def numbers(count: int) -> list[int]:
            return list(range(count))

        return registry(wait_for_test=wait_for_test, numbers=numbers)


class Fragile:
    """A handler that fails in two ways until the test mends it, and one that undoes it."""

    def __init__(self) -> None:
        self.is_mended = False
        self.taken_back: list[int] = []

    @property
    def handlers(self) -> Registry:
        def fragile(number: int) -> int:
            if self.is_mended or number % 3 == 0:
                return number
            if number % 3 == 1:
                raise Permanent(f"number {number} is odd", "ODD_NUMBER")
            raise Permanent("the file is missing", "FILE_MISSING")

        def take_back(params: dict[str, Any], output: Any) -> None:
            self.taken_back.append(params["number"])

        return registry(fragile=fragile, take_back=take_back)


def talking() -> Registry:
    """Handlers that write their text wherever a handler can write."""

    def say(text: str, *, ctx: Any) -> dict[str, Any]:
        print(f"printed {text}")
        ctx.log(f"logged {text}", field=text)
        ctx.progress(1, 1, f"progress {text}")
        path = ctx.workdir / f"file {MARKUP.replace('/', '')}.txt"
        path.write_text(text)
        return {"text": text, f"key {text}": [text], "file": ctx.publish(path.name)}

    def refuse(text: str) -> None:
        raise Permanent(f"refused {text}", "REFUSED")

    return registry(say=say, refuse=refuse)
