"""One request, as an endpoint sees it: who asks, for which tenant, and a client that acts for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Request, Response

from holdfast.client import Client
from holdfast.errors import Forbidden, NotFound
from holdfast.operations.identity import EVERY_TENANT, Identity
from holdfast.remedies import Remedy
from holdfast.service.answers import json_response, wants_whole
from holdfast.service.state import ServiceState
from holdfast.tracing import Place


class CallContext:
    """One request whose identity may send it."""

    def __init__(self, request: Request, state: ServiceState, identity: Identity, tenant: str) -> None:
        self.request = request
        self.state = state
        self.identity = identity
        self.tenant = tenant
        self.client = self.client_for(tenant)

    @property
    def request_id(self) -> str:
        request_id: str = self.request.scope["state"]["request_id"]
        return request_id

    @property
    def root_path(self) -> str:
        """The path below which the service is seen."""
        root_path: str = self.request.scope.get("root_path", "")
        return root_path

    def client_for(self, tenant: str) -> Client:
        """A client that acts for the identity on that tenant, and says where the request comes from."""
        address = self.request.client.host if self.request.client is not None else None
        place = Place.parse(self.request.headers.get("traceparent"))
        traceparent = str(place) if place is not None else None
        scope = self.identity.scope(tenant, address=address, request_id=self.request_id, traceparent=traceparent)
        return Client(self.state.store, scope)

    @property
    def installation_client(self) -> Client:
        """A client for the tenant; for an administrator of the installation who names none, for all tenants."""
        names_tenant = "tenant" in self.request.query_params
        return self.client if names_tenant or not self.identity.is_installation_admin else self.client_for(EVERY_TENANT)

    def refuse_unless_installation_admin(self) -> None:
        if not self.identity.is_installation_admin:
            raise Forbidden(
                f"This is for administrators of the installation; {self.identity.name} is none.",
                remedy="Use a key that was made with: holdfast keys add NAME --role admin --tenant '*'",
            )

    @property
    def is_head(self) -> bool:
        """Whether only the headers are wanted."""
        return bool(self.request.scope["state"].get("is_head"))

    @property
    def is_ours(self) -> bool:
        """Whether a client of ours asks, which gets whole views."""
        return wants_whole(self.request)

    def answer(self, view: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        """A view as JSON; a client of ours gets the fields too that only programs use."""
        return json_response(view, status, headers, whole=self.is_ours)

    def page(self, items: Any, next_cursor: str | None) -> Response:
        return self.answer({"items": items, "next_cursor": next_cursor})

    def items(self, items: Any) -> Response:
        return self.page(items, None)


async def _call(request: Request) -> CallContext:
    """As a coroutine: FastAPI runs a plain function in another thread, which costs more than all that it does."""
    call: CallContext = request.scope["state"]["call"]
    return call


Call = Annotated[CallContext, Depends(_call)]


def checked_job_id(job_id: str) -> str:
    """Refuse what cannot be an id in the words for a job that does not exist."""
    try:
        return str(UUID(job_id))
    except ValueError:
        raise NotFound(
            f"There is no job '{job_id}'.", remedy=Remedy("List the jobs with", "status"), instance=job_id
        ) from None


async def _job_id(job_id: Annotated[str, Path(description="The id of a job.")]) -> str:
    return checked_job_id(job_id)


JobId = Annotated[str, Depends(_job_id)]
NodeName = Annotated[str, Path(description="The name of a node, or the number of its stage.", max_length=200)]
