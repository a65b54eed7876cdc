"""The page of metrics that a monitoring system reads: what this process has counted, and the figures of the database.

The figures are read by one statement, however often and by however many the page is asked for: an answer serves for a
few seconds, and longer if it was dear.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import Unreachable, Unusable
from holdfast.meters import METRICS, Histogram, Kind, Meters, Sample
from holdfast.operations.oversight_ports import FigureStore
from holdfast.version import __version__

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

PREFIX = "holdfast_"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_SECONDS = 5.0
SHARE = 0.02
"""How much of the time the database spends on the figures at most."""


class _Figures(NamedTuple):
    samples: list[Sample]
    """Empty if the database did not answer."""
    is_up: bool
    until: float


class Figures:
    """The figures of the database: one read at a time, each of which serves for a while."""

    def __init__(
        self, open_figures: Callable[[str | None], FigureStore], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_figures
        self._clock = clock
        self._known: dict[str | None, _Figures] = {}
        self._reading = asyncio.Lock()

    async def read(self, tenant: str | None) -> tuple[list[Sample], bool]:
        """The figures of a tenant, or of the installation; and whether the database has answered."""
        async with self._reading:
            now = self._clock()
            self._known = {of: known for of, known in self._known.items() if now < known.until}
            if tenant not in self._known:
                self._known[tenant] = await self._read(tenant, now)
            known = self._known[tenant]
            return known.samples, known.is_up

    async def _read(self, tenant: str | None, began: float) -> _Figures:
        try:
            samples = await self._open(tenant).read()
        except Unreachable:
            return _Figures([], False, self._clock() + FRESH_SECONDS)
        ended = self._clock()
        return _Figures(samples, True, ended + max(FRESH_SECONDS, (ended - began) / SHARE))


class MetricsPage:
    """What this process shows to a monitoring system."""

    def __init__(self, meters: Meters, figures: Figures | None) -> None:
        """Without figures in a process that has no database."""
        self._meters = meters
        self._figures = figures

    async def is_database_up(self) -> bool:
        """Whether the database has answered, now or a few seconds ago. A process without one needs none."""
        return self._figures is None or (await self._figures.read(None))[1]

    async def whole(self) -> bytes:
        """The counters of this process, and the figures of the installation."""
        refuse_without_library()
        shown = [*await self._read(None), Sample("info", 1, (__version__,)), *self._meters.gauges()]
        return _text([*_families(shown), *_counted(self._meters)], with_process=True)

    async def of_tenant(self, tenant: str) -> bytes:
        """The figures of one tenant. The counters are left out: they count the work of all tenants together."""
        refuse_without_library()
        return _text(_families(await self._read(tenant)))

    async def _read(self, tenant: str | None) -> list[Sample]:
        if self._figures is None:
            return []
        samples, is_up = await self._figures.read(tenant)
        return [*samples, Sample("database_up", int(is_up))]


def refuse_without_library() -> None:
    if importlib.util.find_spec("prometheus_client") is None:
        raise Unusable(
            "Metrics need a library that is not installed.", remedy="Install it with: pip install 'holdfast[metrics]'"
        )


def _text(families: Iterable[Family], *, with_process: bool = False) -> bytes:
    """By a registry of our own: what handlers register for themselves is theirs."""
    # Imported late: most processes are asked for no metrics.
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.registry import Collector

    class Page(Collector):
        def collect(self) -> Iterable[Family]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Page())
    if with_process:
        ProcessCollector(registry=registry)
    return generate_latest(registry)


def _families(samples: Iterable[Sample]) -> Iterator[Family]:
    """Gauges with the same name belong together, and so do those with the same labels: two pools are one."""
    from prometheus_client.core import GaugeMetricFamily

    values: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in samples:
        of = values.setdefault(sample.metric, {})
        of[sample.labels] = of.get(sample.labels, 0) + sample.value
    for name, metric in METRICS.items():
        if name in values:
            family = GaugeMetricFamily(PREFIX + name, metric.meaning, labels=metric.labels)
            for labels, value in values[name].items():
                family.add_metric(labels, value)
            yield family


def _counted(meters: Meters) -> Iterator[Family]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    for name, metric in METRICS.items():
        if metric.kind is Kind.COUNTER:
            counter = CounterMetricFamily(PREFIX + name, metric.meaning, labels=metric.labels)
            for labels, number in meters.counters[name].items():
                counter.add_metric(labels, number)
            yield counter
        elif metric.kind is Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(PREFIX + name, metric.meaning, labels=metric.labels)
            counted = meters.histograms[name]
            histogram.add_metric([], buckets=list(_buckets(counted)), sum_value=counted.total)
            yield histogram


def _buckets(histogram: Histogram) -> Iterator[tuple[str, float]]:
    """How many values do not pass each bound."""
    below = 0
    for bound, number in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        below += number
        yield ("+Inf" if bound == float("inf") else str(bound)), below
