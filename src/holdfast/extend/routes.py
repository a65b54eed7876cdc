"""The parts of an app's routes in the HTTP service.

Public, for modules that an entry point of the group `holdfast.routes` names. The entry point is a `RouteTable`, which
is served below `/apps/NAME`. Each route names the permission that it needs and the view that it answers. An endpoint
gets a `Call`: who asks, for which tenant, and a client that acts for them.
"""

from __future__ import annotations

from holdfast.operations.identity import EVERY_TENANT, Identity, Permission
from holdfast.service.call import Call, CallContext
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import ListOf, Media, Page, RouteTable

__all__ = [
    "EVERY_TENANT",
    "Call",
    "CallContext",
    "Cursor",
    "Identity",
    "Limit",
    "ListOf",
    "Media",
    "Page",
    "Permission",
    "RouteTable",
]
