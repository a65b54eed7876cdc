"""`up`, `worker`, `orchestrator`: services that run until a signal ends them, and then hand over what they hold."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import nullcontext

from holdfast.assembly import new_services, new_worker_over_http, process_name, serving_metrics
from holdfast.bootstrap import open_client, worker_place
from holdfast.cli.api import open_web
from holdfast.cli.problems import Interrupted
from holdfast.cli.session import Target, begin, begin_traces, draining, drive, known_handlers
from holdfast.cli.streams import answer_json, say
from holdfast.cli.words import counted, duration
from holdfast.define.bounds import checked_queue
from holdfast.define.registry import Registry
from holdfast.define.settings_check import refuse_wrong_settings
from holdfast.errors import ExitCode
from holdfast.services import Services
from holdfast.settings import Settings

READY_SECONDS = 5.0
"""How long a service waits for its place in the database before it says that it runs."""


def serve(
    service: str,
    *,
    handlers: Sequence[str],
    queues: Sequence[str],
    concurrency: int | None,
    migrate: bool,
    api: bool | None = False,
    host: str | None = None,
    port: int | None = None,
    allow_bootstrap: bool | None = None,
    metrics_port: int | None = None,
    as_json: bool,
    target: Target,
) -> int:
    settings = begin(
        target,
        is_service=True,
        takes_service=service == "worker",
        concurrency=concurrency,
        handlers=handlers or None,
        queues=queues or None,
        api=api,
        host=host,
        port=port,
        allow_bootstrap=allow_bootstrap,
        metrics_port=metrics_port,
    )
    begin_traces(settings)
    for queue in settings.queues:
        checked_queue(queue)
    registry = known_handlers(settings) if service != "orchestrator" else None
    refuse_wrong_settings(registry.checks if registry is not None else ())
    asked = list(settings.queues) or None
    if settings.url is not None:
        assert registry is not None
        return drive(_work_over_http(settings, registry, asked, as_json=as_json))
    return drive(_serve(service, settings, registry, asked, migrate=migrate, as_json=as_json))


async def _serve(
    service: str,
    settings: Settings,
    registry: Registry | None,
    queues: list[str] | None,
    *,
    migrate: bool,
    as_json: bool,
) -> int:
    async with open_client(settings, migrate=migrate) as client:
        services = new_services(
            client.database_url,
            settings,
            registry=registry,
            orchestrate=service != "worker",
            queues=queues,
            pulse=True,
        )

        web = await open_web(client, settings, as_json=as_json, meters=services.meters) if settings.api else None

        def stop() -> None:
            _say_stopping(settings, registry, as_json=as_json)
            if web is not None:
                web.request_stop()
            services.request_stop()

        def left_behind() -> str:
            return "" if as_json else _left_behind(service, services, settings)

        measuring = serving_metrics(client.database_url, settings, services.meters, lambda: services.are_ready)
        async with draining(stop, left_behind) as drain, measuring as metrics, services, web or nullcontext():
            await services.until_registered(READY_SECONDS)
            if drain.asked_by is None:
                links = (web.url, web.ui, await web.sign_in_link()) if web is not None else None
                metrics_url = f"{metrics.url}/metrics" if metrics is not None else None
                _say_ready(service, settings, registry, queues, links, metrics_url, as_json=as_json)
            await services.wait()
    return _ended(service, drain.asked_by, as_json=as_json)


async def _work_over_http(settings: Settings, registry: Registry, queues: list[str] | None, *, as_json: bool) -> int:
    """A worker whose tasks come from the service that the settings name."""
    registry, left_out = registry.without_database()
    if left_out and not as_json:
        say(f"Without a database these handlers are left out: {', '.join(left_out)}.")
    url, key = await worker_place(settings)
    services = new_worker_over_http(url, key, settings, registry, queues=queues, pulse=True)

    def stop() -> None:
        _say_stopping(settings, registry, as_json=as_json)
        services.request_stop()

    def left_behind() -> str:
        return "" if as_json else _left_behind("worker", services, settings)

    measuring = serving_metrics(None, settings, services.meters, lambda: services.are_ready)
    async with draining(stop, left_behind) as drain, measuring as metrics, services:
        await services.until_registered(READY_SECONDS)
        if drain.asked_by is None:
            metrics_url = f"{metrics.url}/metrics" if metrics is not None else None
            _say_ready("worker", settings, registry, queues, None, metrics_url, as_json=as_json)
        await services.wait()
    return _ended("worker", drain.asked_by, as_json=as_json)


def _ended(service: str, asked_by: signal.Signals | int | None, *, as_json: bool) -> int:
    farewell = "" if as_json else f"{service} has stopped."
    if asked_by == signal.SIGINT:
        raise Interrupted(farewell)
    if farewell:
        say(farewell)
    return ExitCode.DONE


def _left_behind(service: str, services: Services, settings: Settings) -> str:
    """What a service that ends at once leaves to others. Nothing is lost: they wait until its leases end."""
    holdings = ((services.tasks, "task", settings.lease_seconds), (services.jobs, "job", settings.owner_lease_seconds))
    held = [(counted(number, noun), seconds) for number, noun, seconds in holdings if number]
    if not held:
        return f"{service} ended at once; it held nothing.\n"
    what, lease = " and ".join(text for text, _ in held), duration(max(seconds for _, seconds in held))
    ended = f"{service} ended at once and left {what} behind"
    return f"{ended}; other processes take over when the lease ends, within {lease}.\n"


def _say_ready(
    service: str,
    settings: Settings,
    registry: Registry | None,
    queues: list[str] | None,
    links: tuple[str, str | None, str] | None,
    metrics_url: str | None,
    *,
    as_json: bool,
) -> None:
    names = registry.names if registry is not None else []
    if as_json:
        answer_json(
            {
                "service": service,
                "name": process_name(),
                "queues": queues,
                "handlers": names,
                "concurrency": settings.concurrency if registry is not None else None,
                **(dict(zip(("url", "web_ui", "sign_in"), links, strict=True)) if links is not None else {}),
                **({"metrics": metrics_url} if metrics_url is not None else {}),
            }
        )
        return
    what = f"{service} is running as {process_name()}"
    if registry is not None:
        served = ", ".join(queues) if queues else "every queue"
        what += f": {served}, {counted(len(names), 'handler')}, {counted(settings.concurrency, 'task')} at a time"
    if links is not None:
        what += f". The HTTP service is at {links[0]}"
    if metrics_url is not None:
        what += f". Metrics are at {metrics_url}"
    say(f"{what}. Ctrl-C stops it.")
    if links is not None:
        _, ui, sign_in = links
        if ui is not None:
            say(f"  → The web UI: {ui}")
        say(f"  → Sign in with a browser, once and within a minute: {sign_in}")


def _say_stopping(settings: Settings, registry: Registry | None, *, as_json: bool) -> None:
    if registry is not None and not as_json:
        grace = duration(settings.grace_seconds)
        say(f"Stopping: tasks go back to the queue, running ones have {grace} to finish. A second signal ends at once.")
