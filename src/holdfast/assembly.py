"""The composition root of services: from settings to the orchestrators, janitor, notifier and worker of a process."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING

from holdfast.bootstrap import open_payloads
from holdfast.core.states import Rules
from holdfast.define.registry import Registry
from holdfast.errors import Code, Unusable
from holdfast.hook_channels import hook_channels
from holdfast.janitor.retention import Keeping
from holdfast.janitor.service import Janitor
from holdfast.meters import Meters
from holdfast.metrics_port import MetricsPort
from holdfast.notify.deciding import Ending
from holdfast.notify.mail import checked_sender, load_templates
from holdfast.notify.mail_server import checked_mail_server
from holdfast.notify.service import Channel, Notifier
from holdfast.operations.hooks import known_hooks
from holdfast.operations.job_facts import job_facts
from holdfast.operations.metrics import Figures, MetricsPage, refuse_without_library
from holdfast.operations.schedules import begin
from holdfast.orchestrator.loop import Orchestrator
from holdfast.outgoing import Outgoing
from holdfast.pacing import CrowdingMonitor
from holdfast.schedules.service import Scheduler
from holdfast.service_address import has_web_ui
from holdfast.services import Services, Switchboard
from holdfast.settings import Settings
from holdfast.store.installation import PostgresInstallation
from holdfast.store.listener import SIGNAL, TASK, Listener
from holdfast.store.notify_rows import ClaimedDelivery
from holdfast.store.payloads import Payloads
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import ANYBODY
from holdfast.store.renewal import Renewal, renewal_statements
from holdfast.views.installation import Setting
from holdfast.worker.loop import Worker
from holdfast.worker.options import WorkerOptions
from holdfast.worker.ports import OpenRenewal
from holdfast.worker.pulse import Pulse
from holdfast.worker.workdir import Workplace

if TYPE_CHECKING:
    from holdfast.service.identity.code_flow import CodeFlow
    from holdfast.service.identity.door import Door
    from holdfast.service.server import WebServer

NOTIFY_POLL_SECONDS = 1.0
ORCHESTRATORS_PER_PROCESS = 2
"""While one waits for its commit the other decides."""


def process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _new_pulse(open_renewal: OpenRenewal, settings: Settings, options: WorkerOptions) -> Pulse:
    return Pulse(
        open_renewal,
        lease_seconds=options.lease_seconds,
        renew_seconds=options.renew_seconds,
        grace_seconds=settings.grace_seconds,
        hang_seconds=settings.hang_seconds,
    )


def _renewal(url: str, settings: Settings) -> OpenRenewal:
    return partial(Renewal, url, settings.lease_seconds, renewal_statements())


def _worker_options(
    url: str | None, settings: Settings, queues: Sequence[str] | None, concurrency: int | None
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
        outgoing_allow=settings.outgoing_allow,
        database_url=url,
        secrets_dir=settings.secrets_dir,
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        lost_limit=settings.lost_limit,
        crash_limit=settings.crash_limit,
        requeue_limit=settings.requeue_limit,
        grace_seconds=settings.grace_seconds,
        payload_limit_bytes=settings.payload_limit_bytes,
    )


def new_janitor(store: PostgresStore, settings: Settings, meters: Meters | None = None) -> Janitor:
    return Janitor(
        store.janitor(),
        process_name(),
        lease_seconds=settings.owner_lease_seconds,
        retention_days=settings.retention_days,
        keeping=Keeping(settings.audit_days, settings.stats_days),
        meters=meters,
    )


def new_scheduler(store: PostgresStore, settings: Settings) -> Scheduler:
    return Scheduler(
        store.schedules(), partial(begin, store), process_name(), lease_seconds=settings.owner_lease_seconds
    )


def new_notifier(store: PostgresStore, settings: Settings, hooks: Mapping[str, Channel]) -> Notifier:
    return Notifier(
        store.notify(),
        {**_channels(settings), **hooks},
        partial(job_facts, store),
        poll_seconds=min(settings.poll_seconds, NOTIFY_POLL_SECONDS),
    )


def _channels(settings: Settings) -> dict[str, Channel]:
    """The ways to receivers that this process has: the library for HTTP is an extra."""

    def http() -> Channel:
        from holdfast.notify.http_sender import HttpSender

        return HttpSender(Outgoing(settings.outgoing_allow), settings.public_url)

    def mail() -> Channel:
        from holdfast.notify.mail_sender import MailSender

        return MailSender(server, sender, templates, settings.public_url, has_ui=has_web_ui())

    found: dict[str, Channel] = {}
    if importlib.util.find_spec("httpcore2") is not None:
        found["webhook"] = found["callback"] = _Late(http)
    if settings.smtp_url is not None:
        if importlib.util.find_spec("aiosmtplib") is None:
            raise Unusable(
                "HOLDFAST_SMTP_URL is set, and the library that sends mails is not installed.",
                remedy="Install it with: pip install 'holdfast[notify]'",
            )
        server, sender = checked_mail_server(settings.smtp_url), checked_sender(settings.smtp_from or "")
        templates = load_templates(settings.mail_templates)
        found["email"] = _Late(mail)
    return found


class _Late:
    """A channel whose library, which takes a while, is imported when there is something to send."""

    def __init__(self, make: Callable[[], Channel]) -> None:
        self._make = make
        self._channel: Channel | None = None

    async def send(self, delivery: ClaimedDelivery) -> Ending:
        if self._channel is None:
            self._channel = self._make()
        return await self._channel.send(delivery)


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

    With a `store` of the caller all share its connections. With `only_job` the orchestrators drive no other job.
    """
    switchboard = Switchboard()
    meters = Meters({*Code, *(registry.codes if registry is not None else ())})
    stores = _Stores(url, open_payloads(settings), store, meters)
    janitor = notifier = scheduler = worker = None
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
                hooks=tuple(known_hooks()),
                meters=meters,
                on_enqueued=switchboard.tasks.set,
                on_overflow=lambda: switchboard.wake_owners(str(ANYBODY)),
                on_finished=on_finished,
            )
            for number in range(1, orchestrators + 1)
        ]
        janitor, notifier, scheduler = _duties(stores, settings, meters, ticks=only_job is None)
    if registry is not None:
        source = stores.open("worker", settings.lease_seconds)
        worker = Worker(
            source,
            registry,
            options := _worker_options(url, settings, queues, concurrency),
            wake=switchboard.tasks,
            payloads=stores.payloads,
            workplace=Workplace(settings.home / "work"),
            shortcut=switchboard.hand_over if orchestrate else None,
            pulse=_new_pulse(_renewal(url, settings), settings, options) if pulse else None,
            output=source.output(),
            meters=meters,
        )
    listener = _listener(url, switchboard)
    return Services(switchboard, listener, janitor, notifier, scheduler, worker, stores.closing, meters)


def _duties(
    stores: _Stores, settings: Settings, meters: Meters, *, ticks: bool
) -> tuple[Janitor, Notifier, Scheduler | None]:
    """What a process with an orchestrator does beside driving jobs. The schedules share the janitor's connections."""
    upkeep = stores.open("janitor", settings.owner_lease_seconds)
    # Hooks have connections of their own: what they ask holds up no delivery.
    hooks = hook_channels(stores.open("hooks", settings.owner_lease_seconds)) if known_hooks() else {}
    notifier = new_notifier(stores.open("notifier", settings.owner_lease_seconds), settings, hooks)
    return new_janitor(upkeep, settings, meters), notifier, new_scheduler(upkeep, settings) if ticks else None


def _listener(url: str, switchboard: Switchboard) -> Listener:
    return Listener(url, {SIGNAL: switchboard.wake_owners, TASK: lambda _: switchboard.tasks.set()})


CLAIM_BATCH_OVER_HTTP = 300
"""How many leases a worker over HTTP holds at most, unless a setting says so: a claim takes longer than at the
database, and short tasks must last until its answer."""


def new_worker_over_http(
    url: str,
    key: str | None,
    settings: Settings,
    registry: Registry,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int | None = None,
    pulse: bool = False,
) -> Services:
    """A worker alone, without a database. It must have no handler that needs one."""
    # Imported late: the library for HTTP is an extra.
    from holdfast.remote.objects import RemoteObjects
    from holdfast.remote.renewal import RemoteRenewal
    from holdfast.remote.task_source import LONGEST_LEASE_SECONDS, RemoteTaskSource

    switchboard, meters = Switchboard(), Meters({*Code, *registry.codes})
    options = _worker_options(None, settings, queues, concurrency)
    lease_seconds = min(options.lease_seconds, LONGEST_LEASE_SECONDS)
    source = RemoteTaskSource(
        url, key, wake=switchboard.tasks.set, wait_seconds=settings.poll_seconds, patience_seconds=lease_seconds
    )
    objects = RemoteObjects(url, key, source.tokens, patience_seconds=lease_seconds)
    options = replace(
        options,
        claim_batch=options.claim_batch if "claim_batch" in settings.model_fields_set else CLAIM_BATCH_OVER_HTTP,
        lease_seconds=lease_seconds,
        renew_seconds=min(options.renew_seconds, lease_seconds / 3),
    )
    worker = Worker(
        source,
        registry,
        options,
        wake=switchboard.tasks,
        payloads=Payloads(objects, settings.payload_inline_bytes, settings.payload_limit_bytes),
        workplace=Workplace(settings.home / "work"),
        pulse=_new_pulse(partial(RemoteRenewal, url, key, lease_seconds), settings, options) if pulse else None,
        output=source,
        meters=meters,
    )

    async def close() -> None:
        await source.close()
        objects.close()

    return Services(switchboard, _NoListener(), None, None, None, worker, [close], meters)


class _NoListener:
    """Work is announced by the answer to a claim that waits."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@asynccontextmanager
async def serving_metrics(
    url: str | None, settings: Settings, meters: Meters, is_ready: Callable[[], bool] = lambda: True
) -> AsyncIterator[MetricsPort | None]:
    """The port of metrics, if the settings name one. Its reads have a connection of their own.

    Without the URL of a database, what the process itself counts is there.
    """
    if settings.metrics_port is None:
        yield None
        return
    refuse_without_library()
    store = PostgresStore(url, "holdfast metrics") if url is not None else None
    page = MetricsPage(meters, Figures(store.figures) if store is not None else None)
    try:
        async with MetricsPort(page, settings.metrics_host, settings.metrics_port, is_ready) as port:
            yield port
    finally:
        if store is not None:
            await store.close()


def new_web_server(url: str, settings: Settings, meters: Meters | None = None) -> tuple[WebServer, PostgresStore]:
    """The HTTP service on a store of its own, whose readers cannot starve the orchestrators of connections."""
    # Imported late: the service is an extra, and `worker` and `orchestrator` do without it.
    from holdfast.service.app import build_app
    from holdfast.service.server import WebServer
    from holdfast.service.state import ServiceState

    store = PostgresStore(
        url,
        "holdfast api",
        payloads=open_payloads(settings),
        readers=settings.api_readers,
        read_seconds=settings.api_read_seconds,
    )
    store.share_commits()
    door, code_flow = new_door(store, settings)
    state = ServiceState(
        store,
        door,
        settings.body_limit_bytes,
        most_open_requests=max(1, settings.api_connections // 2),
        code_flow=code_flow,
        meters=meters or Meters(Code),
        allow_bootstrap=settings.allow_bootstrap,
        settings=tuple(starmap(Setting, settings.shown())),
        open_installation=partial(_installation, url),
        upload_limit_bytes=settings.upload_limit_bytes,
        uploads=settings.home / "uploads",
        open_listener=lambda tell: Listener(url, {TASK: tell}),
    )
    state.meters.watch(store.connections.gauges)
    server = WebServer(
        build_app(state, cors_origins=settings.cors_origins),
        settings.host,
        settings.port,
        connections=settings.api_connections,
        grace_seconds=settings.grace_seconds,
        root_path=settings.root_path,
        trusted_proxies=settings.trusted_proxies,
        on_stop=state.end,
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

    def __init__(self, url: str, payloads: Payloads, shared: PostgresStore | None, meters: Meters) -> None:
        self.payloads = payloads
        self.opened: list[PostgresStore] = []
        self._url, self._shared = url, shared
        self._meters = meters

    @property
    def closing(self) -> list[Callable[[], Awaitable[None]]]:
        """What closes the stores that were opened here."""
        return [opened.close for opened in self.opened]

    def open(self, name: str, lease_seconds: float) -> PostgresStore:
        if self._shared is not None:
            return self._shared
        self.opened.append(PostgresStore(self._url, f"holdfast {name}", lease_seconds, self.payloads))
        self._meters.watch(self.opened[-1].connections.gauges)
        return self.opened[-1]
