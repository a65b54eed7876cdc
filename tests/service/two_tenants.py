"""A database with two tenants: what the first has is marked everywhere, so that it is noticed where it must not be."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.errors import Permanent
from holdfast.operations.scope import Scope
from tests.running import Engine, registry, running
from tests.service.known_names import CANARY, MISSING, Things, mark
from tests.service.serving import Service, serving_http

FIRST, SECOND = mark("tenant"), "second"
TEXT = mark("file-content")
WORKFLOW = f"""
workflow_id: {mark("workflow")}
description: {mark("description")}
inputs: {{what: {{type: string}}}}
breakers:
  {mark("breaker")}: {{window_calls: 10, failure_share: 0.5, cooldown_seconds: 4}}
nodes:
  {mark("node")}:
    type: fan_out
    source: "{{{{ [0, 1, 2] }}}}"
    tolerate: {{failures: 1}}
    task:
      handler: canary.work
      params: {{item: "{{{{ item }}}}", what: "{{{{ inputs.what }}}}"}}
      retry: {{max_retries: 0}}
      breaker: {mark("breaker")}
      concurrency: {{limit: 2, key: {mark("limit")}}}
    next: all
  all: {{type: fan_in}}
"""
WAITING = f"""
workflow_id: {mark("waiting")}
nodes: {{{mark("node")}: {{handler: echo, queue: {mark("queue")}, params: {{x: {mark("param")}}}}}}}
"""
OWN = """
workflow_id: own
nodes: {a: {handler: echo, params: {x: 1}}}
"""


def work(item: int, what: str, *, ctx: Any) -> Any:
    ctx.log(mark("log-line"))
    if what == mark("fails") or (what == mark("is-partial") and item == 1):
        raise Permanent(mark("error"), "CANARY_ERROR")
    name = f"{CANARY}-{item}.txt"
    (ctx.workdir / name).write_text(f"{TEXT} {item}")
    return ctx.publish(name)


@dataclass
class Tenants:
    """The running service, the engine, and what the tenants have."""

    service: Service
    engine: Engine
    first: Things
    jobs: dict[str, str]
    secrets: set[str]
    """Everything of the first tenant that no answer to another may have; its marks beside them."""


@asynccontextmanager
async def two_tenants(url: str, **settings: Any) -> AsyncIterator[Tenants]:
    """The service with the first tenant's jobs in every state. No worker and no owner runs any more."""
    async with serving_http(url, **settings) as service:
        async with running(url, registry(**{"canary.work": work})) as engine:
            await make_own(engine)
            jobs = await make_first(engine)
        async with _client(url) as engine:
            yield await known_things(service, engine, jobs)


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[Engine]:
    from tests.running import client_of

    async with client_of(url) as engine:
        yield engine


async def make_own(engine: Engine) -> None:
    """One ordinary job of the second tenant."""
    second = engine.client.for_tenant(SECOND)
    submitted = await second.submit(load_text(OWN), key="own")
    await engine.finished(submitted.job_id)


async def make_first(engine: Engine) -> dict[str, str]:
    """A completed, a failed, a partial and a waiting job of the first tenant, with all that a job may have."""
    first = _of_first(engine)
    definition = load_text(WORKFLOW)
    await first.register(definition)
    jobs = {}
    for state in ("is-completed", "is-partial", "fails"):
        submitted = await first.submit(
            definition,
            {"what": mark(state)},
            key=mark(state),
            labels={mark("label"): mark("value")},
            correlation_id=mark("correlation"),
            external_ids={mark("namespace"): mark(f"external-{state}")},
            callback_url=f"https://{mark('callback')}.example/",
        )
        jobs[state] = submitted.job_id
        await engine.finished(submitted.job_id)
    waiting = await first.submit(load_text(WAITING), key=mark("waits"))
    jobs["waits"] = waiting.job_id
    await first.acknowledge(jobs["fails"], reason=mark("acknowledged"))
    await first.add_schedule(mark("schedule"), mark("workflow"), cron="0 0 1 1 *", inputs={"what": mark("scheduled")})
    await first.set_limit("tenant", concurrency=7, tenant=FIRST)
    await first.keep_webhook(mark("webhook"), f"https://{mark('receiver')}.example/", events=["job_failed"])
    await first.change_breaker(mark("breaker"), "open", reason=mark("breaker-reason"))
    return jobs


def _of_first(engine: Engine) -> Client:
    return Client(engine.store, Scope(FIRST, mark("actor")))


async def known_things(service: Service, engine: Engine, jobs: dict[str, str]) -> Tenants:
    first = _of_first(engine)
    signal = await first.pause(jobs["waits"], reason=mark("signal-reason"))
    sent = await first.test_webhook(mark("webhook"), seconds=0)
    key = await service.admin.add_key(mark("key-name"), roles=["viewer"], tenant=FIRST)
    done = await first.job(jobs["fails"])
    assert done.error is not None
    fingerprint = str(done.error.fingerprint)
    details = await first.workflow(mark("workflow"))
    digest = hashlib.sha256(f"{TEXT} 0".encode()).hexdigest()
    path = {
        "job_id": jobs["is-completed"],
        "job": jobs["fails"],
        "workflow_id": mark("workflow"),
        "workflow": mark("workflow"),
        "node": mark("node"),
        "stage": "1",
        "item": "0",
        "artifacts/name": f"{CANARY}-0.txt",
        "breakers/name": mark("breaker"),
        # Commands belong to no tenant: this one exists for none.
        "commands/name": mark("command"),
        "limits/name": f"key:{mark('limit')}",
        "schedules/name": mark("schedule"),
        "tenants/name": FIRST,
        "webhooks/name": mark("webhook"),
        "delivery_id": sent.id,
        "signal_id": str(signal),
        "pause_id": f"workflow:{mark('workflow')}",
        "collection_id": mark("collection"),
        "prefix": key.details.prefix,
        "payload/sha256": digest,
    }
    query = {
        "workflow": [mark("workflow")],
        "key": [mark("fails")],
        "code": ["CANARY_ERROR"],
        "fingerprint": [fingerprint],
        "label": [f"{mark('label')}={mark('value')}"],
        "correlation": [mark("correlation")],
        "correlation_id": [mark("correlation")],
        "external_id": [f"{mark('namespace')}:{mark('external-fails')}"],
        "artifact": [digest],
        "text": [jobs["fails"], jobs["fails"][-8:], mark("workflow"), mark("fails")],
        "definition_hash": [details.definition_hash],
        "node": [mark("node")],
        "queue": [mark("queue")],
        "job": [jobs["fails"], jobs["fails"][-8:], jobs["waits"]],
        "actor": [mark("actor")],
        "webhook": [mark("webhook")],
        "instance": [mark("breaker"), FIRST],
    }
    assert path.keys() == MISSING.path.keys()
    assert query.keys() == MISSING.query.keys()
    secrets = {*jobs.values(), key.details.prefix, digest, fingerprint, details.definition_hash, str(signal)}
    return Tenants(service, engine, Things(path, query), jobs, secrets)
