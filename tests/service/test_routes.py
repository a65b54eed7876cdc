"""Every route of the application declares what it needs, and the tests that are made of all routes know its names."""

from __future__ import annotations

import re

from fastapi import FastAPI

from holdfast.operations.identity import Permission
from holdfast.service.routes import front
from tests.service.known_names import unknown_names
from tests.service.routes_of import all_routes, hidden_routes, undeclared

PUBLIC = re.compile(
    r"GET /(livez|readyz|openapi\.json|assets/.*)?|(GET|POST|DELETE) /(.*/)?(session|sign-in|signin|oidc)(/.*)?"
)


def test_the_generated_tests_know_the_names_of_all_parameters() -> None:
    assert [words for route in all_routes() for words in unknown_names(route)] == []


def test_all_routes_are_described_and_apps_routes_are_among_them() -> None:
    titles = {route.title for route in all_routes()}
    assert {"POST /api/v1/jobs", "GET /livez", "GET /apps/stac/collections", "POST /api/jobs/{job}/retry"} <= titles
    assert [route.title for route in all_routes() if not route.operation] == []


def test_only_pages_and_files_for_browsers_are_hidden_and_they_only_answer_files() -> None:
    """They hold no data, so the tests that ask every route need not ask them."""
    hidden = {route.title for route in hidden_routes()}
    assert hidden == {"GET /{page}", "GET /assets/{name}", "GET /icon.svg", "GET /sign-in.css"}
    assert all(route.is_public for route in hidden_routes())
    assert hidden < {f"GET {one.path.replace(':page', '')}" for one in front.table.routes if one.is_file}


def test_only_signs_of_life_and_signing_in_need_no_credential() -> None:
    public = [route.title for route in all_routes() if route.is_public]
    assert [title for title in public if PUBLIC.fullmatch(title) is None] == [], "a route is public without need"


def test_a_route_that_changes_something_needs_more_than_to_read() -> None:
    changing = [route for route in all_routes() if route.method != "GET" and not route.is_public]
    weak = [route.title for route in changing if route.permission is Permission.READ]
    # A command says itself what it needs.
    assert [title for title in weak if not title.endswith(("/plan", "/session", "/commands/{name}"))] == []


def test_a_route_without_a_permission_is_found() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route("/open", lambda: None)
    app.mount("/files", FastAPI())
    assert len(undeclared(app)) == 2
