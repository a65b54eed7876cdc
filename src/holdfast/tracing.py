"""Traces: what one submission has caused, across processes, as OpenTelemetry shows it.

A job keeps the place in a trace that its submission had (`traceparent`, by W3C). Its tasks lie below it, and attempts
below their tasks. Until `start` is called, a process sends nothing, and this module imports nothing of OpenTelemetry.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanContext

LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
QUEUE = 32_768
"""How many spans wait to be sent at most; what comes beyond that is dropped."""
SEND_SECONDS = 5.0
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)


class Place(NamedTuple):
    """A place in a trace: below which span something happens."""

    trace_id: int
    span_id: int
    is_sampled: bool

    @classmethod
    def parse(cls, traceparent: str | None) -> Place | None:
        """None: there is none, or it is not one that we can read. Then there is no trace, as W3C wants it."""
        match = _TRACEPARENT.fullmatch(traceparent or "")
        return cls(int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & 1)) if match is not None else None

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"

    def of_task(self, job_id: str, node: str, item: int, generation: int) -> Place:
        """The span of a task. Every process computes the same one, so that attempts find it before it has ended."""
        name = f"{job_id}\n{generation}\n{node}\n{item}".encode()
        return self._replace(span_id=int.from_bytes(hashlib.sha256(name).digest()[:8]) or 1)


class _Sender:
    """Sends spans to a collector, from a thread of its own."""

    def __init__(self, url: str, service: str, version: str, instance: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        names = {"service.name": service, "service.version": version, "service.instance.id": instance}
        self.resource: Resource = Resource.create(names)
        self.processor: BatchSpanProcessor = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=url, timeout=SEND_SECONDS), max_queue_size=QUEUE
        )
        # Not the provider of the process: that one is for handlers to choose.
        self.provider: TracerProvider = TracerProvider(resource=self.resource)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("holdfast", version)
        self.scope = InstrumentationScope("holdfast", version)


_sender: _Sender | None = None


def start(url: str, *, version: str, instance: str, service: str = "holdfast") -> None:
    """Send spans to a collector from now on, by OTLP over HTTP."""
    global _sender
    _sender = _Sender(url, service, version, instance)


def stop() -> None:
    """Send what waits, and nothing more."""
    global _sender
    if _sender is not None:
        _sender.provider.shutdown()
        _sender = None


def is_on() -> bool:
    return _sender is not None


def current() -> str | None:
    """Where the caller is in a trace of its own, if it uses OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    return str(_place_of(context)) if context.is_valid else None


@contextmanager
def submitting(parent: str | None, attributes: Mapping[str, Any]) -> Iterator[str | None]:
    """The span of a submission, below `parent` or what the caller does now; gives what the job keeps."""
    if _sender is None:
        yield parent or current()
        return
    from opentelemetry.trace import SpanKind

    place = Place.parse(parent)
    context = _context_of(place) if place is not None else None
    options: dict[str, Any] = {"kind": SpanKind.PRODUCER, "attributes": _plain(attributes), "record_exception": False}
    with _sender.tracer.start_as_current_span("submit", context, **options) as span:
        yield str(_place_of(span.get_span_context()))


class AttemptSpan:
    """The span of an attempt, from its beginning; it is the current one for the handler."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.traceparent = str(_place_of(span.get_span_context()))

    def end(self, outcome: str, code: str = "") -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("holdfast.outcome", outcome)
        if code:
            self._span.set_attribute("holdfast.code", code)
        if outcome in ("failed", "lost"):
            self._span.set_status(Status(StatusCode.ERROR, code or outcome))
        self._span.end()


def attempting(task: Place, attributes: Mapping[str, Any]) -> AttemptSpan | None:
    """Begin the span of an attempt below its task, in the context of the caller; None: nothing is sent."""
    if _sender is None or not task.is_sampled:
        return None
    from opentelemetry import context, trace

    span = _sender.tracer.start_span(
        "attempt", _context_of(task), kind=trace.SpanKind.CONSUMER, attributes=_plain(attributes)
    )
    # Never detached: the context is that of the attempt alone and ends with it.
    context.attach(trace.set_span_in_context(span))
    return AttemptSpan(span)


def task_ended(
    job: Place, task: Place, began: float, ended: float, outcome: str, code: str, attributes: Mapping[str, Any]
) -> None:
    """Send the span of a task that has ended. It began in another process, maybe, and nothing had to remember it."""
    if _sender is None or not job.is_sampled:
        return
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode

    shown = _plain({**attributes, "holdfast.outcome": outcome, "holdfast.code": code or None})
    _sender.processor.on_end(
        ReadableSpan(
            "task",
            context=_span_context(task),
            parent=_span_context(job, is_remote=True),
            resource=_sender.resource,
            attributes=shown,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, code) if outcome == "failed" else Status(),
            start_time=_nanoseconds(began),
            end_time=_nanoseconds(max(began, ended)),
            instrumentation_scope=_sender.scope,
        )
    )


def _place_of(context: SpanContext) -> Place:
    return Place(context.trace_id, context.span_id, context.trace_flags.sampled)


def _span_context(place: Place, *, is_remote: bool = False) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(place.trace_id, place.span_id, is_remote, TraceFlags(int(place.is_sampled)))


def _context_of(place: Place) -> Context:
    """A context in which a span of another process, or of a later moment, is the parent."""
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    return set_span_in_context(NonRecordingSpan(_span_context(place, is_remote=True)))


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(moment: float) -> int:
    return int((moment or time.time()) * 1e9)
