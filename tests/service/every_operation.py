"""Sends generated requests to every operation that OpenAPI describes, about things that exist: `python -m …`.

The answers must be as described: no error of the server, known statuses, media types and schemas. Afterwards everything
that existed before must still be there.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from holdfast.service.openapi import operations
from tests.running import registry, running
from tests.service.known_names import CANARY, place_of
from tests.service.routes_of import all_routes
from tests.service.serving import API, Service, serving_http
from tests.service.two_tenants import FIRST, Tenants, known_things, make_first, work

SEED = 20_260_301
EXAMPLES = 50
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
CHANGED_BY_NAME = ("node", "workflow")
"""Fields of bodies whose values are names that exist."""


async def check_every_operation(url: str, examples: int, scratch: Path, *, phases: str) -> str:
    """Run against a database without rows; returns what was found, or nothing."""
    handlers = registry(**{"canary.work": work})
    async with serving_http(url) as service, running(url, handlers) as engine:
        jobs = await make_first(engine)
        tenants = await known_things(service, engine, jobs)
        spare = [(await service.admin.add_key(f"spare {n}", roles=["viewer"], tenant=FIRST)).details for n in range(3)]
        key = await service.key("admin", tenant=FIRST)
        described = scratch / "openapi.json"
        names = {**values(tenants), "prefix": [one.prefix for one in spare]}
        described.write_text(json.dumps(await about_existing(service, names)))
        found = await _run(described, service.url, key, examples, phases)
        lost = await what_is_lost(service, key, tenants)
    return "\n".join([*([found] if found else []), *lost])


def values(tenants: Tenants) -> dict[str, list[str]]:
    """What exists, by the names of parameters in paths."""
    found = {name: [value] for name, value in tenants.first.path.items()}
    found["job_id"] = list(tenants.jobs.values())
    found["job"] = [*tenants.jobs.values(), *(job[-12:] for job in tenants.jobs.values())]
    found["stage"] = ["1", "2", "all"]
    found["node"] = [tenants.first.path["node"], "all"]
    found["artifacts/name"] = [f"{CANARY}-{number}.txt" for number in range(3)]
    return found


async def about_existing(service: Service, names: dict[str, list[str]]) -> dict[str, Any]:
    """The description of the service, whose parameters allow only names of what exists."""
    async with httpx2.AsyncClient(base_url=service.url, timeout=30) as client:
        document: dict[str, Any] = copy.deepcopy((await client.get("/openapi.json")).json())
    routes = {(route.method, route.path): route for route in all_routes()}
    for route in all_routes():
        if route.is_stream:
            # It does not end.
            del document["paths"][route.path][route.method.lower()]
    for method, path, operation in operations(document):
        for one in operation.get("parameters", ()):
            place = place_of(routes[method, path], one["name"], names) if one["in"] == "path" else None
            if place is not None:
                one["schema"] = {"type": "string", "enum": names[place]}
                one["example"] = names[place][0]
    for schema in document["components"]["schemas"].values():
        for name in CHANGED_BY_NAME:
            if schema.get("properties", {}).get(name, {}).get("type") == "string" and "additionalProperties" in schema:
                schema["properties"][name] = {"type": "string", "enum": names[name]}
    return document


async def _run(described: Path, url: str, key: str, examples: int, phases: str) -> str:
    """What the generator of requests reports, if it has found anything."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        f"--config-file={_config(described.parent)}",
        "run",
        str(described),
        f"--url={url}",
        f"--header=Authorization: Bearer {key}",
        f"--phases={phases}",
        f"--max-examples={examples}",
        f"--seed={SEED}",
        "--request-timeout=90",
        "--warnings=off",
        "--suppress-health-check=all",
        "--continue-on-failure",
        "--no-color",
        cwd=described.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    text = output.decode(errors="replace")
    (described.parent / "report.txt").write_text(text)
    return text if process.returncode else ""


def _config(place: Path) -> Path:
    """Which checks are made. One is left out where an address is that of a thing, too: of a workflow `validate`."""
    paths = {route.path for route in all_routes()}
    templates = [re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in paths if "{" in path]
    doubled = sorted(path for path in paths if "{" not in path and any(one.fullmatch(path) for one in templates))
    entries = [
        f'[[operations]]\ninclude-path = "{path}"\nchecks.unsupported_method.enabled = false' for path in doubled
    ]
    config = place / "schemathesis.toml"
    checks = ["[checks]", "enabled = false", *(f"{check}.enabled = true" for check in CHECKS)]
    config.write_text("\n\n".join(["\n".join(checks), *entries]))
    return config


async def what_is_lost(service: Service, key: str, tenants: Tenants) -> list[str]:
    """What existed before and is not found any more."""
    async with httpx2.AsyncClient(
        base_url=service.url, timeout=30, headers={"Authorization": f"Bearer {key}"}
    ) as client:
        paths = [f"{API}/jobs/{job}" for job in tenants.jobs.values()]
        paths += [f"{API}/workflows/{tenants.first.path['workflow_id']}", "/livez", "/readyz"]
        answers = {path: (await client.get(path)).status_code for path in paths}
        lost = [f"{path} is lost: {status}" for path, status in answers.items() if status != 200]
        done = tenants.jobs["is-completed"]
        files = (await client.get(f"{API}/jobs/{done}/artifacts")).json()["items"]
        return lost + ([] if len(files) == 3 else [f"{done} has {len(files)} files"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.service.every_operation", description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="requests for each operation (default 50)")
    arguments = parser.parse_args()
    from tests.chaos.fleet import Server

    with (
        tempfile.TemporaryDirectory(prefix="holdfast-api-", ignore_cleanup_errors=True) as scratch,
        Server(Path(scratch) / "home") as server,
    ):
        found = asyncio.run(
            check_every_operation(
                server.new_database(), arguments.examples, Path(scratch), phases="examples,coverage,fuzzing"
            )
        )
        report = (Path(scratch) / "report.txt").read_text()
    print(found or report[-1500:])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
