"""Other names of params, so that workflow files that were written for other raster services run as they are.

A task may use either name. A handler refuses two different values for one param: it cannot tell which one is meant.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast import Permanent
from holdfast.apps.raster.objects import scrubbed

Answer = TypeVar("Answer")

MEGABYTE = 1024 * 1024
SHA256_MULTIHASH = "1220"
COGS = "silver-cogs"
"""The container of the COGs of a task that names no target."""


def spelled(**names: str) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Let a handler take further names for its params: `@spelled(local_path="path")`.

    Null and the empty string under such a name mean that the task gives no value.
    """

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        signature, hints = inspect.signature(function), typing.get_type_hints(function)

        @functools.wraps(function)
        def call(*values: Any, **given: Any) -> Answer:
            params = _settled(given, names)
            bound = signature.bind_partial(*values, **params)
            for ours in names.values():
                if ours not in bound.arguments and signature.parameters[ours].default is inspect.Parameter.empty:
                    raise Permanent(f"The param {_called(ours, names)} is missing", code="PARAMS_REFUSED")
            return function(*values, **params)

        # Workers read the names and types of the params from these two.
        call.__signature__ = _widened(signature, names)  # type: ignore[attr-defined]
        call.__annotations__ = hints | {theirs: hints[ours] | None for theirs, ours in names.items()}
        return call

    return decorate


def _settled(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The params under our names."""
    params = {name: value for name, value in given.items() if name not in names}
    for theirs, ours in names.items():
        value = given.get(theirs)
        if value is None or value == "":
            continue
        if params.get(ours) is not None and params[ours] != value:
            raise Permanent(
                f"The params give two values for {_called(ours, names)}:"
                f" {scrubbed(params[ours])[:100]!r} and {scrubbed(value)[:100]!r}. Give one of them",
                code="PARAMS_REFUSED",
            )
        params[ours] = value
    return params


def _called(ours: str, names: dict[str, str]) -> str:
    others = [f"'{theirs}'" for theirs, one in names.items() if one == ours]
    return f"'{ours}' (also called {', '.join(others)})"


def _widened(signature: inspect.Signature, names: dict[str, str]) -> inspect.Signature:
    """The signature with the further names; a param that has them is not required under its own."""
    parameters = []
    for parameter in signature.parameters.values():
        is_required = parameter.default is inspect.Parameter.empty
        if parameter.name in names.values() and is_required:
            parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)
        elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters.append(parameter)
    further = [inspect.Parameter(theirs, inspect.Parameter.KEYWORD_ONLY, default=None) for theirs in names]
    return signature.replace(parameters=[*parameters, *further])


def source_named(source: str | None, container: str | None, blob: str | None) -> str:
    """The source of a copy: as it is, or from the names of its container and its blob."""
    if not container and not blob:
        if not source:
            raise Permanent("Give the source as 'source', or as container_name and blob_name", code="PARAMS_REFUSED")
        return source
    if not container or not blob:
        raise Permanent("Give both container_name and blob_name, or neither", code="PARAMS_REFUSED")
    named = f"{container}/{blob}"
    if source not in (None, "", named):
        raise Permanent(
            f"The params give two sources: '{scrubbed(source)}', and '{named}' by container_name and blob_name."
            " Give one of them",
            code="PARAMS_REFUSED",
        )
    return named


def target_named(target: str | None, folder: str | None, path: str, ending: str) -> str:
    """The name of a result: as it is, or below the container of COGs, after the name of the raster."""
    if target and folder:
        raise Permanent("Give 'target' or 'output_folder', not both", code="PARAMS_REFUSED")
    if target:
        return target
    stem = path.rpartition("/")[2].rpartition(".")[0] or path.rpartition("/")[2]
    return "/".join(part for part in (COGS, (folder or "").strip("/"), f"{stem}{ending}") if part)


def declared_crs(source_crs: str | None, validation: dict[str, Any] | None) -> str | None:
    """The CRS to use if the file has none: the declared one, else the one that its validation settled on."""
    return source_crs if source_crs is not None else (validation or {}).get("source_crs")


def cog_names(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a COG under further names: container and blob apart, and the checksum as a multihash."""
    container, _, blob = str(facts["path"]).partition("/")
    return {
        "cog_container": container,
        "cog_blob": blob,
        "cog_local_path": facts["path"],
        "size_mb": round(facts["size_bytes"] / MEGABYTE, 3),
        "file_checksum": f"{SHA256_MULTIHASH}{facts['sha256']}",
        "target_crs": facts["crs"],
    }
