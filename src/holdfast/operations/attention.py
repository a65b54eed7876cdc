"""What a person of a tenant should look at now."""

from __future__ import annotations

from holdfast.operations.gates import breakers
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.views.attention import Concern, concerns_of
from holdfast.views.fleet import fleet_view
from holdfast.views.gates import limit_view


async def attention(scope: Scope, store: OperationsStore) -> list[Concern]:
    """What asks for a person: unseen failures, what is held, and what no worker serves. The worst first.

    It is about one tenant. An administrator of the installation also sees the alerts that concern no job. Of jobs that
    have ended with an error, the newest 10,000 are looked at.
    """
    causes = await store.oversight(scope.tenant).causes(everything=scope.administers)
    limits = [limit_view(row) for row in await store.gates().limits(scope.tenant)]
    unserved = fleet_view(await store.reads(scope.tenant).fleet()).unserved
    open_or_closed = await breakers(scope, store)
    return concerns_of(causes, open_or_closed, limits, unserved, administers=scope.administers)
