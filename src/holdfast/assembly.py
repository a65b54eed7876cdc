"""The composition root of services: from settings to the orchestrators, the janitor and the worker of a process."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from holdfast.bootstrap import open_payloads
from holdfast.core.states import Rules
from holdfast.define.registry import Registry
from holdfast.janitor.retention import Keeping
from holdfast.janitor.service import Janitor
from holdfast.operations.schedules import prepare
from holdfast.orchestrator.loop import Orchestrator
from holdfast.pacing import CrowdingMonitor
from holdfast.schedules.service import Scheduler
from holdfast.services import Services, Switchboard
from holdfast.settings import Settings
from holdfast.store.installation import PostgresInstallation
from holdfast.store.listener import SIGNAL, TASK, Listener
from holdfast.store.payloads import Payloads
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import ANYBODY
from holdfast.store.renewal import Renewal, renewal_statements
from holdfast.worker.loop import Worker
from holdfast.worker.options import WorkerOptions
from holdfast.worker.pulse import Pulse
from holdfast.worker.workdir import Workplace

if TYPE_CHECKING:
    from holdfast.service.identity.code_flow import CodeFlow
    from holdfast.service.identity.door import Door
    from holdfast.service.server import WebServer

ORCHESTRATORS_PER_PROCESS = 2
"""While one waits for its commit the other decides."""


def process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _new_pulse(url: str, settings: Settings) -> Pulse:
    return Pulse(
        partial(Renewal, url, settings.lease_seconds, renewal_statements()),
        lease_seconds=settings.lease_seconds,
        renew_seconds=settings.renew_seconds,
        grace_seconds=settings.grace_seconds,
        hang_seconds=settings.hang_seconds,
    )


def _worker_options(
    url: str, settings: Settings, queues: Sequence[str] | None, concurrency: int | None
) -> WorkerOptions:
    return WorkerOptions(
        name=process_name(),
        queues=queues,
        concurrency=concurrency or settings.concurrency,
        claim_batch=settings.claim_batch,
        lease_seconds=settings.lease_seconds,
        renew_seconds=settings.renew_seconds,
        poll_seconds=settings.poll_seconds,
        grace_seconds=settings.grace_seconds,
        database_url=url,
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        lost_limit=settings.lost_limit,
        crash_limit=settings.crash_limit,
        requeue_limit=settings.requeue_limit,
        grace_seconds=settings.grace_seconds,
        payload_limit_bytes=settings.payload_limit_bytes,
    )


def new_janitor(store: PostgresStore, settings: Settings) -> Janitor:
    return Janitor(
        store.janitor(),
        process_name(),
        lease_seconds=settings.owner_lease_seconds,
        retention_days=settings.retention_days,
        keeping=Keeping(settings.audit_days, settings.stats_days),
    )


def new_scheduler(store: PostgresStore, settings: Settings) -> Scheduler:
    return Scheduler(
        store.schedules(), partial(prepare, store), process_name(), lease_seconds=settings.owner_lease_seconds
    )


def new_services(
    url: str,
    settings: Settings,
    *,
    registry: Registry | None = None,
    orchestrate: bool = True,
    queues: Sequence[str] | None = None,
    concurrency: int | None = None,
    pulse: bool = False,
    on_finished: Callable[[str], None] = lambda job_id: None,
    orchestrators: int = ORCHESTRATORS_PER_PROCESS,
    store: PostgresStore | None = None,
    only_job: str | None = None,
) -> Services:
    """The services of this process: with a `registry` a worker, with `orchestrate` orchestrators and a janitor.

    With a `store` of the caller all of them share its connections: fewer connections, less parallelism. With `only_job`
    the orchestrators drive no other job.
    """
    switchboard = Switchboard()
    stores = _Stores(url, open_payloads(settings), store)
    janitor, scheduler, worker = None, None, None
    if orchestrate:
        crowding = CrowdingMonitor()
        switchboard.orchestrators += [
            Orchestrator(
                stores.open("orchestrator", settings.owner_lease_seconds),
                process_name() if number == 1 else f"{process_name()}/{number}",
                rules=_rules(settings),
                lease_seconds=settings.owner_lease_seconds,
                renew_seconds=settings.owner_renew_seconds,
                scan_seconds=settings.owner_scan_seconds,
                poll_seconds=settings.poll_seconds,
                crowding=crowding,
                only_job=only_job,
                on_enqueued=switchboard.tasks.set,
                on_overflow=lambda: switchboard.wake_owners(str(ANYBODY)),
                on_finished=on_finished,
            )
            for number in range(1, orchestrators + 1)
        ]
        upkeep = stores.open("janitor", settings.owner_lease_seconds)
        janitor = new_janitor(upkeep, settings)
        if only_job is None:
            scheduler = new_scheduler(upkeep, settings)
    if registry is not None:
        source = stores.open("worker", settings.lease_seconds)
        worker = Worker(
            source,
            registry,
            _worker_options(url, settings, queues, concurrency),
            wake=switchboard.tasks,
            payloads=stores.payloads,
            workplace=Workplace(settings.home / "work"),
            shortcut=switchboard.hand_over if orchestrate else None,
            pulse=_new_pulse(url, settings) if pulse else None,
            output=source.output(),
        )
    listener = Listener(url, {SIGNAL: switchboard.wake_owners, TASK: lambda _: switchboard.tasks.set()})
    return Services(switchboard, listener, janitor, scheduler, worker, [opened.close for opened in stores.opened])


def new_web_server(url: str, settings: Settings) -> tuple[WebServer, PostgresStore]:
    """The HTTP service on a store of its own, whose readers cannot starve the orchestrators of connections."""
    # Imported late: the service is an extra, and `worker` and `orchestrator` do without it.
    from holdfast.service.app import build_app
    from holdfast.service.server import WebServer
    from holdfast.service.state import ServiceState

    store = PostgresStore(url, "holdfast api", payloads=open_payloads(settings), readers=settings.api_readers)
    store.share_commits()
    door, code_flow = new_door(store, settings)
    state = ServiceState(
        store,
        door,
        settings.body_limit_bytes,
        code_flow=code_flow,
        allow_bootstrap=settings.allow_bootstrap,
        open_installation=partial(_installation, url),
    )
    server = WebServer(
        build_app(state, cors_origins=settings.cors_origins),
        settings.host,
        settings.port,
        connections=settings.api_connections,
        grace_seconds=settings.grace_seconds,
        root_path=settings.root_path,
        trusted_proxies=settings.trusted_proxies,
        on_stop=state.live.end,
    )
    return server, store


def new_door(store: PostgresStore, settings: Settings) -> tuple[Door, CodeFlow | None]:
    """What lets requests in, and the way to the identity provider if the settings name one."""
    from holdfast.service.identity.door import Door
    from holdfast.service.identity.limits import Rates
    from holdfast.service.identity.origins import Origins

    tokens, code_flow = None, None
    if settings.oidc_issuer is not None:
        from holdfast.service.identity.code_flow import CodeFlow
        from holdfast.service.identity.provider import OidcSettings, Provider
        from holdfast.service.identity.tokens import Tokens

        named = OidcSettings(
            settings.oidc_issuer,
            settings.oidc_audience,
            settings.oidc_client_id,
            settings.oidc_client_secret,
            settings.oidc_tenant_claim,
            settings.oidc_roles_claim,
        )
        provider = Provider(named.issuer)
        tokens = Tokens(named, provider)
        code_flow = CodeFlow(named, provider, tokens)
    door = Door(
        store,
        origins=Origins(settings.public_url, settings.root_path, settings.cors_origins),
        rates=Rates(
            settings.key_requests_per_second,
            settings.address_requests_per_second,
            settings.wrong_credentials_per_minute,
        ),
        tokens=tokens,
    )
    return door, code_flow


@asynccontextmanager
async def _installation(url: str) -> AsyncIterator[PostgresInstallation]:
    installation = PostgresInstallation(url)
    try:
        yield installation
    finally:
        await installation.close()


class _Stores:
    """A store for each service, or one of the caller's for all of them."""

    def __init__(self, url: str, payloads: Payloads, shared: PostgresStore | None) -> None:
        self.payloads = payloads
        self.opened: list[PostgresStore] = []
        self._url, self._shared = url, shared

    def open(self, name: str, lease_seconds: float) -> PostgresStore:
        if self._shared is not None:
            return self._shared
        self.opened.append(PostgresStore(self._url, f"holdfast {name}", lease_seconds, self.payloads))
        return self.opened[-1]
