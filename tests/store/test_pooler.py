"""Behind pgbouncer: session pooling works like Postgres itself; transaction pooling is refused at the start."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import psycopg.conninfo
import pytest

from holdfast.errors import Unreachable
from holdfast.store.migrate import ensure_schema
from holdfast.store.records import WorkerIdentity
from holdfast.store.renewal import Renewal, renewal_statements
from tests.chaos.fleet import HOLDFAST
from tests.conftest import eventually
from tests.running import client_of, serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="pgbouncer is not installed"),
]


@asynccontextmanager
async def pooled(url: str, folder: Path, mode: str) -> AsyncIterator[str]:
    """The same database behind pgbouncer."""
    server = psycopg.conninfo.conninfo_to_dict(url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    database = " ".join(f"{name}={server[name]}" for name in ("host", "port", "dbname", "user", "password"))
    (folder / "users.txt").write_text(f'"{server["user"]}" "{server["password"]}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\npooled = {database}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = plain\nauth_file = {folder}/users.txt\npool_mode = {mode}\n"
    )
    # pgbouncer refuses to run as root.
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    for path in (folder, *folder.parents) if user is not None else ():
        if path.stat().st_uid == 0 and path.stat().st_mode & 0o777 == 0o700:
            path.chmod(0o711)
    for path in folder.iterdir():
        path.chmod(0o644)
    process = subprocess.Popen(
        ["pgbouncer", "--quiet", str(folder / "pgbouncer.ini")], user=user, stderr=subprocess.DEVNULL
    )
    there = f"postgresql://{server['user']}:{server['password']}@127.0.0.1:{port}/pooled"

    async def answers() -> bool:
        try:
            psycopg.connect(there).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        await eventually(answers)
        yield there
    finally:
        process.terminate()
        process.wait()


async def test_everything_works_with_session_pooling(database_url: str, tmp_path: Path) -> None:
    async with pooled(database_url, tmp_path, "session") as url:
        await ensure_schema(url, migrate=False)
        async with serving(url), client_of(url) as engine:
            status = await engine.run("workflow_id: w\nnodes: {a: {handler: echo, next: b}, b: {handler: echo}}")
        renewal = Renewal(url, 10.0, renewal_statements())
        assert renewal.renew(WorkerIdentity(0, "unknown")) is False
        renewal.disconnect()
    assert status["status"] == "completed"


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_transaction_and_statement_pooling_are_refused(database_url: str, tmp_path: Path, mode: str) -> None:
    async with pooled(database_url, tmp_path, mode) as url:
        with pytest.raises(Unreachable, match="behind a pooler") as refusal:
            await ensure_schema(url, migrate=True)
        assert "pool_mode = session" in str(refusal.value.remedy)
        doctor = subprocess.run(
            [HOLDFAST, "doctor", "--database-url", url], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert doctor.returncode == 6
    assert "behind a pooler" in " ".join(doctor.stdout.split())
