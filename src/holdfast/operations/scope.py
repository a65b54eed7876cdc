"""For whom an operation acts."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass, field

from holdfast.define.gates import DEFAULT_TENANT
from holdfast.errors import Forbidden
from holdfast.store.audit_rows import NOWHERE, Origin


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
    origin: Origin = NOWHERE
    """Where the request comes from; the audit names it."""
    administers: bool = True
    """Whether the actor administers the whole installation: who has the password of the database does. An identity of
    the service does only with that role."""
    submitter: str | None = None
    """Who submits, in words that no other identity has; None: a program at the database itself."""

    traceparent: str | None = None
    """The place in a trace from which a request comes."""

    @property
    def looks_at(self) -> str | None:
        """The tenant whose share of the installation may be seen; None: all of it."""
        return None if self.administers else self.tenant

    def refuse_unless_administrator(self, what: str) -> None:
        """Refuse a change that concerns other tenants, too."""
        if not self.administers:
            raise Forbidden(
                f"{self.actor} may not change {what}: it is the installation's.",
                remedy="Ask an administrator of the installation, whose key is for the tenant *.",
            )
