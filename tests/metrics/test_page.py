"""What the page of metrics says of jobs, tasks, queues, breakers and processes, over the HTTP service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from holdfast.assembly import new_janitor, new_web_server
from holdfast.client import Client
from holdfast.core.effects import Emit
from holdfast.define.load import load_text
from holdfast.errors import Permanent
from holdfast.meters import METRICS, OTHER, Kind, Meters, Source
from holdfast.operations.metrics import Figures
from holdfast.operations.scope import Scope
from holdfast.settings import Settings
from holdfast.store.batch import Batch
from holdfast.store.figures import NAMES
from holdfast.store.postgres import PostgresStore
from holdfast.version import __version__
from tests.conftest import eventually
from tests.metrics.scraping import Scrape
from tests.running import HOME, Engine, client_of, registry, running, serving
from tests.service.serving import GENEROUS, Service, serving_http
from tests.service.working import done, plain_worker

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def both(url: str, **handlers: Any) -> AsyncIterator[tuple[Engine, Service]]:
    """Services and their HTTP service, which share the counters of one process."""
    async with client_of(url) as engine, serving(url, registry(**handlers)) as services:
        settings = Settings(database_url=url, home=HOME, port=0, grace_seconds=1.0, **GENEROUS)
        server, store = new_web_server(url, settings, services.meters)
        service = Service(server, Client(store, Scope("*", "admin@test")))
        try:
            async with server:
                try:
                    yield engine, service
                finally:
                    await service.close()
        finally:
            await store.close()


async def scraped(client: httpx2.AsyncClient, **params: str) -> Scrape:
    answer = await client.get("/metrics", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)


async def figures_of(store: PostgresStore, tenant: str | None = None) -> dict[tuple[str, ...], float]:
    return {(sample.metric, *sample.labels): sample.value for sample in await store.figures(tenant).read()}


def odd() -> None:
    raise Permanent("no", code="WRITTEN_BY_A_USER")


async def test_jobs_tasks_and_attempts_are_counted_as_they_ended(database_url: str) -> None:
    async with both(database_url, odd=odd) as (engine, service):
        client = await service.as_role("admin", tenant="*")
        before = await scraped(client)
        assert before.value("holdfast_jobs_finished_total", status="completed") == 0
        wide = "workflow_id: w\nnodes: {e: {type: fan_out, source: '{{ [1, 2, 3] }}', task: {handler: echo}}}"
        assert (await engine.run(wide))["status"] == "completed"
        await engine.run("workflow_id: f\nnodes: {a: {handler: odd}}")
        retried = "workflow_id: r\nnodes: {a: {handler: fail, retry: {max_retries: 2, initial_delay_seconds: 0.01}}}"
        await engine.run(retried)

        async def counted() -> Scrape | None:
            page = await scraped(client)
            return page if page.value("holdfast_jobs_finished_total", status="failed") == 2 else None

        page = await eventually(counted)
        assert page.value("holdfast_jobs_created_total") == 3
        assert page.value("holdfast_jobs_finished_total", status="completed") == 1
        assert page.value("holdfast_tasks_finished_total", outcome="completed", code="") == 3
        assert page.value("holdfast_tasks_finished_total", outcome="failed", code="HANDLER_ERROR") == 1
        assert page.value("holdfast_tasks_finished_total", outcome="failed", code=OTHER) == 1
        assert page.value("holdfast_retries_total", outcome="failed", code="HANDLER_ERROR") == 2
        assert page.value("holdfast_attempts_total", outcome="completed", code="") == 3
        assert page.value("holdfast_attempts_total", outcome="failed", code="HANDLER_ERROR") == 3
        assert page.value("holdfast_attempts_total", outcome="failed", code=OTHER) == 1
        assert page.value("holdfast_attempt_seconds_count") == 7
        assert page.value("holdfast_tasks_claimed_total") == 7
        assert (page.value("holdfast_claim_seconds_count") or 0) > 0
        assert (page.value("holdfast_cycle_seconds_bucket", le="+Inf") or 0) > 0
        assert "WRITTEN_BY_A_USER" not in page.text
        assert page.value("holdfast_info", version=__version__) == 1
        assert page.value("holdfast_slots") == 16
        assert page.value("process_resident_memory_bytes") is not None


async def test_lost_attempts_and_moves_of_breakers_are_counted_from_zero(database_url: str) -> None:
    async with both(database_url) as (engine, service):
        client = await service.as_role("admin", tenant="*")
        before = await scraped(client)
        # Each begins with 0, so that a rate sees the first one.
        assert before.value("holdfast_retries_total", outcome="lost", code="WORKER_LOST") == 0
        assert before.value("holdfast_breaker_moves_total", state="open") == 0
        worker = await plain_worker(service)
        job_id = await engine.submit(
            "workflow_id: w\nnodes: {a: {handler: work, retry: {initial_delay_seconds: 0.01}}}"
        )
        (task,) = await worker.claim(wait_seconds=20)
        assert await worker.report({"lease": task["lease"], "outcome": "lost"}) == ["taken"]
        (task,) = await worker.claim(wait_seconds=20)
        await worker.report(done(task))
        await engine.finished(job_id)
        rules = "{min_calls: 1, window_calls: 1, codes: [HANDLER_ERROR]}"
        opening = f"workflow_id: b\nbreakers: {{db: {rules}}}\nnodes: {{a: {{handler: fail, breaker: db}}}}"
        await engine.submit(opening)

        async def counted() -> Scrape | None:
            page = await scraped(client)
            return page if page.value("holdfast_breaker_moves_total", state="open") == 1 else None

        page = await eventually(counted)
        assert page.value("holdfast_retries_total", outcome="lost", code="WORKER_LOST") == 1
        assert page.value("holdfast_breaker_moves_total", state="closed") == 0


async def test_actions_of_the_janitor_are_counted_by_duty(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.query(
            "insert into holdfast.queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
            " values (gen_random_uuid(), 'n', -1, 1, 1, 999999, 1, 60)"
        )
        meters = Meters()
        await new_janitor(engine.store, Settings(database_url=database_url, home=HOME), meters).run_once()
    actions = meters.counters["janitor_actions"]
    assert {labels: number for labels, number in actions.items() if number} == {("orphans", "delete"): 1}
    # Alerts are there before the first one, so that a rate sees it.
    assert {duty for duty, action in actions if action == "alert"} >= {"orphans", "counters", "long_open_breakers"}


def test_what_a_cycle_writes_in_two_parts_is_counted_once() -> None:
    batch = Batch(traced=[])
    retry = {"outcome": "failed", "code": "TIMEOUT"}
    for event, node, item, attempt, data in (
        ("task_completed", "n", 0, 1, {"worker": "w"}),
        ("task_retry_scheduled", "n", 1, 1, retry),
        ("task_retry_scheduled", "n", 2, 1, {"outcome": "given_back"}),
        ("node_failed", "own", None, 3, {"code": "TIMEOUT"}),
        # A fan-out that ends, and items that a stop ends together.
        ("node_failed", "n", None, None, {"failed": 7}),
        ("task_cancelled", "n", None, None, {"count": 5}),
    ):
        batch.events.append(Emit("job", 1, event, node, item, attempt, data))
    batch.clear()
    batch.events.append(Emit("job", 2, "task_failed", "n", 3, None, {"code": "TEMPLATE_ERROR"}))
    batch.tally()
    assert batch.ended_tasks == {
        ("completed", ""): 1, ("failed", "TIMEOUT"): 1, ("cancelled", ""): 5, ("failed", "TEMPLATE_ERROR"): 1
    }  # fmt: skip
    assert batch.retries == {("failed", "TIMEOUT"): 1}
    assert [event.event for event in batch.traced or ()] == ["task_completed", "node_failed", "task_failed"]


async def test_the_page_of_a_process_has_every_metric_with_its_type_and_labels(database_url: str) -> None:
    async with both(database_url) as (engine, service):
        await engine.run("workflow_id: b\nbreakers: {db: {}}\nnodes: {a: {handler: echo, breaker: db}}")
        await engine.client.change_breaker("db", "open", reason="test")
        await engine.store.janitor().roll_up()
        client = await service.as_role("admin", tenant="*")

        async def complete() -> Scrape | None:
            page = await scraped(client)
            return page if page.value("holdfast_breakers", state="open") == 1 else None

        page = await eventually(complete)
        for name, metric in METRICS.items():
            shown = f"holdfast_{name}"
            assert page.types[shown] == str(metric.kind), name
            own = {*metric.labels, *(("le",) if metric.kind is Kind.HISTOGRAM else ())}
            ending = {"counter": "_total", "gauge": "", "histogram": "_bucket"}[metric.kind]
            assert all(set(labels) == own for labels, _ in page.of(shown + ending)), name


async def test_queues_signals_and_jobs_are_those_that_wait(database_url: str) -> None:
    async with client_of(database_url) as engine:
        assert (await figures_of(engine.store))[("signals_waiting",)] == 0
        async with running(database_url, registry()):
            await engine.submit("workflow_id: w\nnodes: {a: {handler: unserved, queue: slow}}")

            async def queued() -> bool:
                return (await figures_of(engine.store)).get(("queue_tasks", "slow", "ready")) == 1

            await eventually(queued)
        await engine.submit("workflow_id: later\nnodes: {a: {handler: echo}}")
        figures = await figures_of(engine.store)
        assert figures[("queue_tasks", "slow", "ready")] == 1
        assert figures[("queue_tasks", "slow", "running")] == 0
        assert figures[("queue_oldest_seconds", "slow")] >= 0
        assert figures[("jobs_open", "running")] == 1
        assert figures[("jobs_open", "pending")] == 1
        assert figures[("signals_waiting",)] == 1
        assert figures[("orchestrators",)] == figures[("workers",)] == 0


async def test_tasks_behind_a_breaker_are_held_and_the_breaker_says_since_when(database_url: str) -> None:
    async with running(database_url, registry()) as engine:
        gated = "workflow_id: g\nbreakers: {db: {}}\nnodes: {a: {handler: echo, breaker: db}}"
        assert (await engine.run(gated))["status"] == "completed"
        await engine.client.change_breaker("db", "open", reason="test")
        await engine.submit(gated.replace("workflow_id: g", "workflow_id: h"))

        async def held() -> bool:
            return (await figures_of(engine.store)).get(("queue_tasks", "default", "held")) == 1

        await eventually(held)
        figures = await figures_of(engine.store)
        assert figures[("queue_tasks", "default", "ready")] == figures[("queue_oldest_seconds", "default")] == 0
        assert figures[("breakers", "open")] == 1
        assert 0 <= figures[("breaker_open_seconds", "db")] < 60
        assert (figures[("orchestrators",)], figures[("workers",)], figures[("worker_slots",)]) == (2, 1, 16)


async def test_events_for_receivers_wait_until_they_are_handed_on_and_sent(database_url: str) -> None:
    async with client_of(database_url) as engine:
        for created, expanded in (("now() - interval '90 s'", "null"), ("now() - interval '1 day'", "now()")):
            await engine.query(
                "insert into holdfast.outbox (tenant, event, created_at, expanded_at)"
                f" values ('one', 'job_failed', {created}, {expanded}) returning 1"
            )
        await engine.query(
            "insert into holdfast.deliveries (outbox_id, tenant, kind, receiver, destination, status, due_since)"
            " select n, 'one', 'webhook', 'webhook:w', 'w', s, now() - interval '5 s'"
            " from unnest('{waiting, sent, dead}'::text[]) with ordinality as o (s, n) returning 1"
        )
        await engine.query(
            "insert into holdfast.deliveries"
            " (outbox_id, tenant, kind, receiver, destination, status, ended_at, head_id)"
            " select 9 + n, 'one', 'email', 'email:a', 'email', 'dead', now() - n * interval '1 minute', h"
            " from (values (1, null), (2, gen_random_uuid()), (1500, null)) as o (n, h) returning 1"
        )
        await engine.query(
            "update holdfast.deliveries set ended_at = now() where status = 'dead' and ended_at is null returning 1"
        )
        await engine.query(
            "insert into holdfast.failing_destinations (tenant, destination) values ('one', 'w') returning 1"
        )
        figures = await figures_of(engine.store, "one")
        assert figures == figures | {
            ("outbox_waiting",): 1,
            ("deliveries_waiting",): 1,
            # One is older, and one is a part of a mail.
            ("deliveries_dead",): 2,
            ("destinations_failing",): 1,
        }
        assert 90 <= figures[("outbox_oldest_seconds",)] < 3600
        assert 5 <= figures[("deliveries_oldest_seconds",)] < 3600
        others = await figures_of(engine.store, "other")
        assert others[("outbox_waiting",)] == others[("deliveries_waiting",)] == others[("destinations_failing",)] == 0
        assert others[("deliveries_dead",)] == 0


async def test_a_hundred_queues_are_named_and_the_rest_is_added_up(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.query(
            "insert into holdfast.lanes (queue, handler) select 'q' || to_char(n, 'FM000'), 'h'"
            " from generate_series(1, 150) n returning 1"
        )
        await engine.query(
            "insert into holdfast.queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
            " select gen_random_uuid(), 'n', -1, 1, 1, l.lane_id, 1, 60 from holdfast.lanes l"
            " where l.queue >= 'q101' returning 1"
        )
        await engine.query(
            "insert into holdfast.workers (name, handlers, concurrency, queues, lease_until)"
            " values ('w', '{h}', 4, '{q007}', now() + interval '1 minute') returning 1"
        )
        figures = await figures_of(engine.store)
        named = {key[1] for key in figures if key[0] == "queue_tasks"}
        assert len(named) == NAMES + 1
        # The queue that a worker names, and all that have tasks.
        assert {"q007", OTHER, *(f"q{n}" for n in range(101, 151))} <= named
        assert sum(value for key, value in figures.items() if key[0] == "queue_tasks" and key[2] == "ready") == 50
        assert figures[("queue_tasks", OTHER, "ready")] == 0


async def test_thousands_of_queues_breakers_and_limits_cost_no_figure_and_add_no_name(database_url: str) -> None:
    odd = 'q"\\\n{}'
    lanes = "select l.*, substr(l.limit_key, 2)::int as n from holdfast.lanes l"
    async with client_of(database_url) as engine, serving_http(database_url) as service:
        # The second has names that people cannot give, and that the page must survive.
        await engine.query(
            "insert into holdfast.lanes (queue, handler, breaker, limit_key)"
            " select case n when 2 then %s::text else 'q' || n end, 'h', case n when 2 then %s::text else 'b' || n end,"
            " 'k' || n from generate_series(1, 8000) n",
            *(odd, odd),
        )
        # Postgres believes from here on that there are many lanes, and no task, breaker or limit.
        await engine.query("analyze")
        await engine.query(
            "insert into holdfast.queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds)"
            " select gen_random_uuid(), 'n', i, 1, 1, l.lane_id, 1, 60"
            f" from ({lanes}) l cross join generate_series(0, case l.n when 2 then 1 else 0 end) i"
        )
        await engine.query(
            "insert into holdfast.breakers (name, state, settings, changed_at)"
            " select l.breaker, case l.n %% 2 when 0 then 'open' else 'closed' end, '{}', now() - interval '1 h' / l.n"
            f" from ({lanes}) l"
        )
        await engine.query(
            f"insert into holdfast.limits (tenant, name, concurrency) select 'default', l.limit_key, 1 from ({lanes}) l"
        )
        page = await scraped(await service.as_role("admin", tenant="*"))
        lines = await engine.client.queues()
    assert sum(line.held for line in lines) == 4_001
    assert page.value("holdfast_database_up") == 1
    assert len({labels["queue"] for labels, _ in page.of("holdfast_queue_tasks")}) == NAMES + 1
    assert len(list(page.of("holdfast_breaker_open_seconds"))) == NAMES
    tasks = [(labels["state"], value) for labels, value in page.of("holdfast_queue_tasks")]
    assert sum(value for state, value in tasks if state == "ready") == 4_000
    assert sum(value for state, value in tasks if state == "held") == 4_001
    assert page.value("holdfast_queue_tasks", queue=odd, state="held") == 2
    assert (page.value("holdfast_breaker_open_seconds", breaker=odd) or 0) >= 1800


async def test_a_key_of_one_tenant_sees_the_figures_of_its_tenant_and_no_counter(database_url: str) -> None:
    async with running(database_url, registry()) as engine, serving_http(database_url) as service:
        one, other = (engine.client.for_tenant(tenant) for tenant in ("one", "other"))
        hidden = (
            "workflow_id: w\nbreakers: {hidden: {}}\nnodes: {a: {handler: missing, queue: hidden, breaker: hidden}}"
        )
        await other.submit(load_text(hidden))
        await one.submit(load_text("workflow_id: w\nnodes: {a: {handler: missing, queue: own}}"))
        client = await service.as_role("viewer", tenant="one")

        async def queued() -> bool:
            figures = await figures_of(engine.store)
            return figures.get(("queue_tasks", "own", "ready")) == figures.get(("queue_tasks", "hidden", "ready")) == 1

        await eventually(queued)
        page = await scraped(client)
        assert page.value("holdfast_queue_tasks", queue="own", state="ready") == 1
        assert page.sum("holdfast_jobs_open") == 1
        assert page.sum("holdfast_breakers") == 0
        assert "hidden" not in page.text
        shown = {f"holdfast_{name}" for name, metric in METRICS.items() if metric.source is Source.DATABASE}
        assert page.names <= shown
        whole = await scraped(await service.as_role("admin", tenant="*"), tenant="one")
        assert whole.names == page.names


async def test_workers_of_another_tenant_are_in_no_figure_of_a_tenant(database_url: str) -> None:
    async with client_of(database_url) as engine:
        await engine.query(
            "insert into holdfast.workers (name, handlers, concurrency, lease_until, tenant)"
            " select 'w', '{h}', 4, now() + interval '1 minute', t from unnest('{one, other, other, null}'::text[]) t"
        )
        seen = {}
        for tenant in ("one", "other", "third", None):
            figures = await figures_of(engine.store, tenant)
            seen[tenant] = figures[("workers",)], figures[("worker_slots",)]
    # The last one is the installation's, and works for all.
    assert seen == {"one": (2, 8), "other": (3, 12), "third": (1, 4), None: (4, 16)}


async def test_metrics_need_the_permission_to_read(database_url: str) -> None:
    async with serving_http(database_url) as service:
        assert (await service.with_key(None).get("/metrics")).status_code == 401
        assert (await (await service.as_role("worker")).get("/metrics")).status_code == 403


async def test_many_scrapes_are_one_statement(database_url: str, store: PostgresStore) -> None:
    reads, clock = [], [0.0]

    class Counted:
        def __init__(self, tenant: str | None) -> None:
            self._own = store.figures(tenant)

        async def read(self) -> Any:
            reads.append(1)
            clock[0] += 1.0
            return await self._own.read()

    figures = Figures(Counted, clock=lambda: clock[0])
    for _ in range(5):
        assert (await figures.read(None))[1]
    assert len(reads) == 1
    # One that took a second is not repeated for fifty: two per cent of the time.
    clock[0] += 49.0
    await figures.read(None)
    assert len(reads) == 1
    clock[0] += 2.0
    await figures.read(None)
    assert len(reads) == 2


async def test_without_a_database_the_counters_of_the_process_are_still_there(database_url: str) -> None:
    nowhere = PostgresStore("postgresql://someone@127.0.0.1:1/none")
    samples, is_up = await Figures(nowhere.figures).read(None)
    assert (samples, is_up) == ([], False)
    await nowhere.close()
