"""The routes that installed apps bring, by the entry point group `holdfast.routes`: each app below `/apps/NAME`.

A broken app is left out, and the log says so: it stops neither the service nor another app.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points

from fastapi import FastAPI

from holdfast.log_events import EventLog
from holdfast.service.routing import add_routes
from holdfast.service.table import RouteTable

ENTRY_POINT_GROUP = "holdfast.routes"
PREFIX = "/apps"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_log = EventLog("holdfast.service")


def add_apps(app: FastAPI) -> None:
    """Make the routes of all installed apps routes of the application."""
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            add_routes(app, _table(point), f"{PREFIX}/{point.name}", owner=point.name)
        except Exception as error:
            # An app may raise anything while it is imported or described; that is the fault of the app.
            _log.write("app_left_out", app=point.name, reason=_reason(point, error))


def _table(point: EntryPoint) -> RouteTable:
    if _NAME.fullmatch(point.name) is None:
        raise ValueError("its name is no part of an address: it has small letters, digits, '_' and '-'")
    loaded = point.load()
    if not isinstance(loaded, RouteTable):
        raise TypeError(f"{point.value} is not a RouteTable")
    wrong = [route.path for route in loaded.routes if not route.path.startswith("/")]
    if wrong:
        raise ValueError(f"the path {wrong[0]!r} does not begin with '/'")
    return loaded


def _reason(point: EntryPoint, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and point.extras:
        package = point.dist.name if point.dist is not None else point.module.partition(".")[0]
        extras = ",".join(point.extras)
        return f"it needs the module '{error.name}', which pip install '{package}[{extras}]' installs"
    return f"{type(error).__name__}: {error}"
