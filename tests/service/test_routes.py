"""Every route of the application declares what it needs, and the tests that are made of all routes know its names."""

from __future__ import annotations

from fastapi import FastAPI

from tests.service.known_names import unknown_names
from tests.service.routes_of import all_routes, undeclared


def test_the_generated_tests_know_the_names_of_all_parameters() -> None:
    assert [words for route in all_routes() for words in unknown_names(route)] == []


def test_all_routes_are_described_and_apps_routes_are_among_them() -> None:
    titles = {route.title for route in all_routes()}
    assert {"POST /api/v1/jobs", "GET /livez", "GET /apps/stac/collections", "POST /api/jobs/{job}/retry"} <= titles
    assert [route.title for route in all_routes() if not route.operation] == []


def test_a_route_without_a_permission_is_found() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route("/open", lambda: None)
    app.mount("/files", FastAPI())
    assert len(undeclared(app)) == 2
