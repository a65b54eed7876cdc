"""The privileges on the page about your own Postgres are enough for a role that may change no schema."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from holdfast.store.connection import _numbered
from holdfast.store.queries import query
from tests.docs.pages import ROOT, blocks
from tests.running import running
from tests.store.test_queries import NAMES

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs" / "how-to" / "use-your-own-postgres.md"
FLOW = """
workflow_id: w
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3] }}", task: {handler: echo}, next: all}
  all: {type: fan_in}
"""


@pytest.fixture
def services_url(database_url: str) -> Iterator[str]:
    """The database as a role sees it that has what the page grants, and nothing else."""
    (grants,) = (block.body for block in blocks(PAGE) if block.marks.get("file") == "grants.sql")
    role = f"services_{uuid.uuid4().hex[:12]}"
    name = sql.Identifier(role)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password 'quiet'").format(name))
        connection.execute(grants.replace("holdfast_services", role).encode(), prepare=False)
        there = conninfo_to_dict(database_url)
        try:
            yield f"postgresql://{role}:quiet@{there['host']}:{there['port']}/{there['dbname']}"
        finally:
            connection.execute(sql.SQL("drop owned by {}").format(name))
            connection.execute(sql.SQL("drop role {}").format(name))


async def test_a_role_with_the_privileges_on_the_page_serves_looks_cleans_and_prunes(services_url: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(services_url) as connection:
        connection.execute("create table holdfast.more (x int)")
    async with running(services_url) as engine:
        status = await engine.run(FLOW)
        failed = await engine.run("workflow_id: f\nnodes: {a: {handler: fail, params: {permanent: true}}}")
        await engine.client.run_janitor()
        pruned = await engine.client.prune(0.0)
    assert (status["status"], failed["status"]) == ("completed", "failed")
    assert pruned.jobs == 2


def test_the_role_may_run_every_statement_of_the_store(services_url: str) -> None:
    """A plan without values checks the same privileges as the statement."""
    with psycopg.connect(services_url, autocommit=True, options="-c search_path=holdfast") as connection:
        for name in NAMES:
            statement, _ = _numbered(query(name))
            if statement.split(maxsplit=1)[0] in (b"select", b"with", b"insert", b"update", b"delete"):
                connection.execute(b"explain (generic_plan) " + statement, prepare=False)
