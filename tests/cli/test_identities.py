"""Who may use the service, from the command line: tenants, the link of `up`, and the key of the local person."""

from __future__ import annotations

import json
import re
import stat
from itertools import product
from pathlib import Path

import httpx2
import psycopg
import pytest

from holdfast.service.web_ui import packaged
from tests.cli.conftest import Command, finished, line_that_has, spawn
from tests.marks import rest_in_chaos

PUBLIC_URL = "https://holdfast.example/flood/"
LOCAL = {"HOLDFAST_API": "1", "HOLDFAST_PORT": "0", "HOLDFAST_GRACE_SECONDS": "0.1"}


def test_tenants_are_made_listed_and_bound(database: Command) -> None:
    assert "No tenant has been made" in database("tenants").out
    made = database("tenants", "add", "acme", "--queue", "maps", "--queue", "cpu", "--json").json
    assert (made["is_new"], made["tenant"]["queues"]) == (True, ["maps", "cpu"])
    assert database("tenants", "add", "acme").out == "Tenant acme is changed; its workflows may use every queue.\n"
    (listed,) = database("tenants", "--json").json["tenants"]
    assert (listed["name"], listed["queues"]) == ("acme", None)
    assert database("tenants", "add").code == 2
    assert database("tenants", "add", "*").code == 2
    assert database("tenants", "add", "a", "--queue", "no queue").code == 2


def test_the_link_of_up_signs_a_browser_in_once(database: Command, tmp_path: Path) -> None:
    serving = spawn("up", **LOCAL)
    try:
        line = line_that_has(serving.stderr, "Sign in")
        (link,) = re.findall(r"http://\S+", line)
        url, _, code = link.partition("/sign-in?code=")
        with httpx2.Client(base_url=url) as browser:
            assert f'value="{code}"' in browser.get(link).text
            done = browser.post("/api/v1/session", data={"code": code}, headers={"Origin": url})
            assert (done.status_code, done.headers["location"]) == (303, "/")
            who = browser.get("/api/v1/session").json()
            assert (who["tenant"], who["roles"]) == ("*", ["admin"])
        with httpx2.Client(base_url=url) as other:
            assert other.post("/api/v1/session", data={"code": code}, headers={"Origin": url}).status_code == 401
            key_file = tmp_path / ".holdfast" / "admin.key"
            assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
            bearer = {"Authorization": f"Bearer {key_file.read_text().strip()}"}
            assert other.get("/api/v1/tenants", headers=bearer).status_code == 200
    finally:
        serving.kill()
        serving.communicate()


@pytest.mark.parametrize(
    ("service", "public_url"),
    rest_in_chaos(product(("up", "api"), (None, PUBLIC_URL)), ("up", None), ("api", PUBLIC_URL)),
)
def test_a_service_says_where_the_web_ui_is(database: Command, service: str, public_url: str | None) -> None:
    more = {"HOLDFAST_PUBLIC_URL": public_url} if public_url is not None else {}
    serving = spawn(service, **LOCAL, **more)
    # Without npm there is no UI, and a service must not name one.
    line = line_that_has(serving.stderr, "The web UI: " if packaged().is_there else f"{service} is running")
    serving.terminate()
    said = line + finished(serving).err
    if packaged().is_there:
        (address,) = re.findall(r"The web UI: (\S+)", said)
        assert address == public_url or re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    else:
        assert "The web UI" not in said


def test_what_a_service_says_as_json_names_the_web_ui(database: Command) -> None:
    serving = spawn("api", "--json", **LOCAL)
    assert serving.stdout is not None
    ready = json.loads(serving.stdout.readline())
    assert list(ready) == ["service", "name", "url", "web_ui"]
    assert ready["web_ui"] == (f"{ready['url']}/" if packaged().is_there else None)
    serving.terminate()
    assert finished(serving).code == 0


def test_a_key_file_that_others_could_read_is_closed_and_kept(database: Command, tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        serving = spawn("api", **LOCAL)
        line_that_has(serving.stderr, "api is running")
        serving.kill()
        serving.communicate()
        key_file = tmp_path / ".holdfast" / "admin.key"
        keys.append(key_file.read_text())
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        key_file.chmod(0o644)
    assert keys[0] == keys[1]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_a_key_the_service_listens_on_this_machine_alone(
    database: Command, host: str, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    refused = database("api", "--host", host, "--port", "0", "--json")
    assert (refused.code, "holdfast keys add" in refused.problem["remedy"]) == (4, True)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from holdfast.api_keys").fetchone() == (0,)
