"""Holdfast: a durable workflow engine on Postgres.

The public names are found when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.client import Client
    from holdfast.core.plans import Stale
    from holdfast.define.failures import ErrorRule
    from holdfast.define.load import load_file, load_text
    from holdfast.define.registry import Result, handler
    from holdfast.define.retry import Retry
    from holdfast.define.workflow import Workflow, workflow
    from holdfast.errors import (
        DependencyDown,
        ErrorCode,
        FailureClass,
        Forbidden,
        HoldfastError,
        InvalidDefinition,
        InvalidInput,
        JobFailed,
        NeedsDatabase,
        NotFound,
        PayloadRefused,
        PayloadUnavailable,
        Permanent,
        Refused,
        RetryAfter,
        Transient,
        Unauthenticated,
        Unreachable,
    )
    from holdfast.operations.scope import Scope
    from holdfast.operations.submitting import Submission
    from holdfast.running import run
    from holdfast.sync_client import SyncClient
    from holdfast.views.encoding import to_json
    from holdfast.views.verbs import Correction, Verb, VerbRequest
    from holdfast.worker.context import AsyncContext, Context


__all__ = [
    "AsyncContext",
    "Client",
    "Context",
    "Correction",
    "DependencyDown",
    "ErrorCode",
    "ErrorRule",
    "FailureClass",
    "Forbidden",
    "HoldfastError",
    "InvalidDefinition",
    "InvalidInput",
    "JobFailed",
    "NeedsDatabase",
    "NotFound",
    "PayloadRefused",
    "PayloadUnavailable",
    "Permanent",
    "Refused",
    "Result",
    "Retry",
    "RetryAfter",
    "Scope",
    "Stale",
    "Submission",
    "SyncClient",
    "Transient",
    "Unauthenticated",
    "Unreachable",
    "Verb",
    "VerbRequest",
    "Workflow",
    "__version__",
    "handler",
    "load_file",
    "load_text",
    "run",
    "to_json",
    "workflow",
]

_HOMES = {
    "client": ("Client",),
    "define.failures": ("ErrorRule",),
    "define.load": ("load_file", "load_text"),
    "define.registry": ("Result", "handler"),
    "define.retry": ("Retry",),
    "define.workflow": ("Workflow", "workflow"),
    "errors": (
        "DependencyDown",
        "ErrorCode",
        "FailureClass",
        "Forbidden",
        "HoldfastError",
        "InvalidDefinition",
        "InvalidInput",
        "JobFailed",
        "NeedsDatabase",
        "NotFound",
        "PayloadRefused",
        "PayloadUnavailable",
        "Permanent",
        "Refused",
        "RetryAfter",
        "Transient",
        "Unauthenticated",
        "Unreachable",
    ),
    "operations.scope": ("Scope",),
    "operations.submitting": ("Submission",),
    "running": ("run",),
    "sync_client": ("SyncClient",),
    "views.encoding": ("to_json",),
    "core.plans": ("Stale",),
    "views.verbs": ("Correction", "Verb", "VerbRequest"),
    "worker.context": ("AsyncContext", "Context"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
    found = getattr(import_module(f"holdfast.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
