"""The alerts and the dashboard that we give away: every query asks for what there is, and a real Prometheus runs it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.assembly import serving_metrics
from holdfast.cli.app import app
from holdfast.meters import METRICS, Kind
from holdfast.settings import Settings
from tests.conftest import eventually
from tests.marks import IN_CHAOS
from tests.metrics.prometheus import CASES, DASHBOARD, RULES, Prometheus, promtool, scraping
from tests.programs import program
from tests.running import HOME, client_of, registry, serving

pytestmark = pytest.mark.anyio

_NAME = re.compile(r"\bholdfast_\w+")
_COMMAND = re.compile(r"`holdfast (\w+)")
FLAWED = """
workflow_id: flawed
breakers: {catalog: {}}
nodes:
  each:
    type: fan_out
    source: "{{ [1, 2, 3] }}"
    task: {handler: flawed, params: {item: "{{ item }}"}, retry: {max_retries: 1, initial_delay_seconds: 0.01}}
    tolerate: {failures: 3}
    next: gather
  gather: {type: fan_in, next: last}
  last: {handler: echo, breaker: catalog}
"""


def flawed(item: int) -> int:
    if item == 2:
        raise ValueError("never")
    return item


def rules() -> list[dict[str, Any]]:
    (group,) = YAML(typ="safe").load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Every query of the dashboard, and the title of its panel."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def shown_names() -> set[str]:
    """The names under which our metrics can be asked for."""
    endings = {Kind.COUNTER: ("_total",), Kind.GAUGE: ("",), Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
    return {f"holdfast_{name}{ending}" for name, metric in METRICS.items() for ending in endings[metric.kind]}


def test_alerts_and_panels_name_only_metrics_that_there_are() -> None:
    asked = [rule["expr"] for rule in rules()] + [query for _, query in queries()]
    assert {name for text in asked for name in _NAME.findall(text)} <= shown_names()


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = [case for test in YAML(typ="safe").load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    for rule in rules():
        own = [bool(case["exp_alerts"]) for case in cases if case["alertname"] == rule["alert"]]
        assert set(own) == {True, False}, rule["alert"]


def test_every_alert_says_what_to_do_with_commands_that_there_are() -> None:
    commands = {one.name or one.callback.__name__ for one in app.registered_commands if one.callback is not None}
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert set(_COMMAND.findall(rule["annotations"]["description"])) <= commands, rule["alert"]


def test_the_panels_of_the_dashboard_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not own & taken, panel["title"]
        taken |= own
        assert all(x < 24 for x, _ in own)


@IN_CHAOS
def test_the_alerts_fire_when_they_should_and_not_otherwise() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(CASES))
    assert tested.returncode == 0, tested.stdout + tested.stderr


async def test_every_query_of_the_dashboard_gives_data_in_a_real_prometheus(database_url: str, tmp_path: Path) -> None:
    program("prometheus", "prometheus")
    handlers = registry(flawed=flawed)
    async with client_of(database_url) as engine, serving(database_url, handlers, owner_lease_seconds=1.0) as services:
        settings = Settings(database_url=database_url, home=HOME, metrics_port=0)
        async with serving_metrics(database_url, settings, services.meters, lambda: services.are_ready) as port:
            assert port is not None
            numbers = itertools.count()
            await engine.run(FLAWED)
            await engine.client.change_breaker("catalog", "open", reason="test")
            async with scraping(port.url.removeprefix("http://"), tmp_path) as prometheus:
                await engine.submit("workflow_id: more\nnodes: {a: {handler: missing}}")

                async def all_answer() -> bool:
                    # A rate needs a value that has grown between two scrapes.
                    again = await engine.submit(FLAWED.replace(", breaker: catalog", ""), key=str(next(numbers)))
                    await engine.finished(again)
                    return not await without_data(prometheus)

                try:
                    await eventually(all_answer, seconds=60.0)
                except AssertionError:
                    pytest.fail(f"without data: {await without_data(prometheus)}")
                assert set((await prometheus.rules()).values()) == {"ok"}


async def without_data(prometheus: Prometheus) -> list[str]:
    """The panels with a query that gives no number. That of breakers counts too: one is open."""
    found = []
    for title, query in queries():
        series = await prometheus.query(query.replace("$__rate_interval", "30s"))
        if not any(one["value"][1] != "NaN" for one in series):
            found.append(f"{title}: {query}")
    return found
