"""What a service does with the signals that end it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal

from holdfast.cli.session import draining

running = contextvars.ContextVar[str | None]("running", default=None)


def test_what_a_service_says_when_it_stops_does_not_go_to_the_log_of_a_handler_that_runs() -> None:
    said_in: list[str | None] = []

    async def serve() -> None:
        stopped = asyncio.Event()

        def stop() -> None:
            said_in.append(running.get())
            stopped.set()

        async with draining(stop, lambda: ""):
            running.set("a handler")
            os.kill(os.getpid(), signal.SIGTERM)
            await stopped.wait()

    asyncio.run(serve())
    assert said_in == [None]
