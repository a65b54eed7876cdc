"""Ports for servers of tests that cannot choose one themselves, or that end and come back at the same address."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

BELOW_EPHEMERAL = range(20_000, 32_000)
"""From these the system gives no port to a program that asks for any: a port stays free until its server binds it."""


def free_port() -> int:
    """A port that no program on this machine listens on."""
    draw = random.SystemRandom()
    while True:
        port = draw.choice(BELOW_EPHEMERAL)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
