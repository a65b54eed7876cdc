"""What all requests of one process share: the store, the settings, and the door that lets requests in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import Unreachable
from holdfast.meters import Meters
from holdfast.operations.answering import end_waiting
from holdfast.operations.arrivals import Arrivals, OpenListener
from holdfast.operations.identity import Identity
from holdfast.operations.metrics import Figures, MetricsPage
from holdfast.operations.ports import Installation, OperationsStore
from holdfast.operations.working import WorkDesk
from holdfast.service.beside import Beside
from holdfast.service.identity.door import Door
from holdfast.service.live import Live
from holdfast.service.open_requests import OpenRequests
from holdfast.service.web_ui import WebUI, packaged
from holdfast.views.installation import Setting

if TYPE_CHECKING:
    from holdfast.service.identity.code_flow import CodeFlow


BODY_LIMIT_BYTES = 8 << 20
BODIES_BYTES = 128 << 20
"""How much memory the bodies of all requests together may take."""


class TooManyBodies(Unreachable):
    code = "TOO_MANY_BODIES"
    title = "The service reads as many large bodies as it can hold"


@dataclass
class ServiceState:
    """One process of the service."""

    store: OperationsStore
    door: Door
    body_limit_bytes: int = BODY_LIMIT_BYTES
    body_seconds: float = 30.0
    bodies_bytes: int = BODIES_BYTES
    upload_limit_bytes: int = 16 << 30
    uploads: Path | None = None
    """Where uploads lie until they are whole; None: where temporary files do."""
    most_open_requests: int = 500
    """How many streams and requests that wait one tenant may have."""
    allow_bootstrap: bool = False
    settings: tuple[Setting, ...] = ()
    """Those of the process, without secrets."""
    open_installation: Callable[[], AbstractAsyncContextManager[Installation]] | None = None
    """Opens the database itself, for those who set it up."""
    meters: Meters = field(default_factory=Meters)
    """The counters of the process, which its services share."""
    code_flow: CodeFlow | None = field(default=None)
    """Signs browsers in at an identity provider, if there is one."""
    open_listener: OpenListener | None = None
    """Listens for work, for the claims that wait for it."""
    ui: WebUI = field(default_factory=packaged)
    """The files of the web UI."""
    _held_bytes: int = 0

    @cached_property
    def live(self) -> Live:
        """The streams of this process."""
        return Live(self.store)

    @cached_property
    def open_requests(self) -> OpenRequests:
        """The requests of this process that stay open."""
        return OpenRequests(self.most_open_requests)

    @cached_property
    def beside(self) -> Beside:
        """Where definitions are read: a large one takes up to a second."""
        return Beside()

    @cached_property
    def desk(self) -> WorkDesk:
        """Where workers over HTTP get their tasks."""
        return WorkDesk(self.store.bound_workers(), Arrivals(self.open_listener))

    def end(self) -> None:
        """Let requests that have no end of their own, or a late one, answer now."""
        self.live.end()
        self.desk.end()
        end_waiting(self.store)

    @cached_property
    def metrics(self) -> MetricsPage:
        """What this process shows to a monitoring system."""
        return MetricsPage(self.meters, Figures(self.store.figures))

    async def is_still_valid(self, identity: Identity) -> bool:
        """Whether the credential of a request that is still open holds. Cheap: ask each few seconds."""
        return await self.door.is_still_valid(identity)

    def hold(self, number: int) -> None:
        """Take memory for a part of a body, until the request releases it."""
        if self._held_bytes + number > max(self.bodies_bytes, self.body_limit_bytes):
            raise TooManyBodies("Other requests bring large bodies now.", remedy="Send the same request again.")
        self._held_bytes += number

    def release(self, number: int) -> None:
        self._held_bytes -= number

    def forget_identities(self) -> None:
        """Read every identity again."""
        self.door.forget()
