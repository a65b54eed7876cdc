"""Databases to throw away, for those who test their workflows: made on a server, with our schema, and dropped."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit, urlunsplit

from psycopg import sql

from holdfast.store.connection import connect
from holdfast.store.migrate import apply_missing


async def create_scratch(server_url: str) -> str:
    """A new database on the server; returns its URL. It does not wait for the disk: a crash may lose it."""
    name = f"scratch_{uuid.uuid4().hex[:16]}"
    async with await connect(server_url) as connection:
        await connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        await connection.execute(sql.SQL("alter database {} set synchronous_commit = off").format(sql.Identifier(name)))
    url = _with_database(server_url, name)
    await apply_missing(url)
    return url


async def drop_scratch(server_url: str, url: str) -> None:
    """Drop it, even while sessions use it."""
    name = urlsplit(url).path.removeprefix("/")
    async with await connect(server_url) as connection:
        await connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
