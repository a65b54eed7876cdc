"""For whom an operation acts."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass, field

from holdfast.define.gates import DEFAULT_TENANT


def current_actor() -> str:
    """Who runs this process: the account and the machine, as people know them."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return f"unknown@{socket.gethostname()}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The tenant whose jobs an operation sees, and the person or program that the history names."""

    tenant: str = DEFAULT_TENANT
    actor: str = field(default_factory=current_actor)
    submitter: str | None = None
    """Who submits, in words that no other identity has; None: a program at the database itself."""
