"""Ports for servers of tests that cannot choose one themselves."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that no program on this machine listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
