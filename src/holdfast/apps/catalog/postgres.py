"""The catalog on plain Postgres: the schema `stac` beside the engine's, with Postgres's own boxes and ranges."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import orjson
import psycopg
from psycopg.rows import dict_row

from holdfast import HoldfastError, InvalidInput, NotFound, Refused, Unreachable
from holdfast.apps.catalog.extents import flat, round_earth, searched_range, written
from holdfast.apps.catalog.interface import PAGE_ITEMS, Change, CollectionSummary, Json, Page, Upserted
from holdfast.apps.catalog.rows import check_id, item_rows
from holdfast.extend.database import Schema, statements_in

CONNECT_SECONDS = 10
SCHEMA = Schema("stac", "holdfast.apps.catalog.sql", lock_key=0x73746163)
KEYS = (
    *("type", "stac_version", "stac_extensions", "id", "collection"),
    *("geometry", "bbox", "properties", "links", "assets"),
)
"""The keys of an item in the order for people. Postgres does not keep the order of keys."""

Connection = psycopg.Connection[dict[str, Any]]


class PostgresCatalog:
    """Implements `interface.Catalog`. Each call is one statement on its own connection.

    A statement ends by itself even if its client has died, so a dead client never holds a lock.
    """

    def __init__(self, database_url: str, connection: Connection | None = None) -> None:
        self._url = database_url
        self._shared = connection

    def make_ready(self) -> None:
        """Create the tables now. Otherwise the first registration creates them."""
        with self._connection() as connection:
            SCHEMA.ensure(connection)

    def ensure_collection(self, collection: Mapping[str, Any]) -> Change:
        try:
            collection_id = check_id(collection.get("id"))
        except ValueError as error:
            raise InvalidInput(f"The collection {collection.get('id')!r} is not valid: {error}.") from None
        content = {name: value for name, value in collection.items() if name not in ("extent", "links")}
        rows = self._write("upsert_collection", collection_id=collection_id, content=_json(content))
        return ("created" if rows[0]["created"] else "updated") if rows else "unchanged"

    def upsert_items(self, collection_id: str, items: Sequence[Mapping[str, Any]]) -> Upserted:
        rows = item_rows(collection_id, items)
        if not rows:
            return Upserted()
        try:
            (counts,) = self._write("upsert_items", collection_id=collection_id, rows=_json(rows))
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound(
                f"There is no collection {collection_id} to register items in.",
                remedy="Create it first with the handler raster.stac_ensure_collection.",
                instance=collection_id,
            ) from None
        return Upserted(counts["created"], counts["updated"], len(rows) - counts["created"] - counts["updated"])

    def new_or_changed(self, collection_id: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        digests = {row["item_id"]: row["item_digest"] for row in item_rows(collection_id, items)}
        rows = self._read("item_digests", collection_id=collection_id, item_ids=list(digests))
        known = {row["item_id"]: row["item_digest"] for row in rows}
        return [item for item in items if known.get(item["id"]) != digests[item["id"]]]

    def get(self, collection_id: str, item_id: str) -> Json | None:
        items = self.search(collections=[collection_id], ids=[item_id]).items
        return items[0] if items else None

    def search(
        self,
        *,
        bbox: Sequence[float] | None = None,
        datetime: str | None = None,
        collections: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        job_id: str | None = None,
        content_hash: str | None = None,
        properties: Mapping[str, Any] | None = None,
        limit: int = PAGE_ITEMS,
        token: str | None = None,
    ) -> Page:
        if limit < 1:
            raise InvalidInput(f"The limit of a page must be at least one item, not {limit}.")
        after_collection, after_item = _place(token)
        rows = self._read(
            "find_items",
            collections=list(collections) if collections is not None else None,
            ids=list(ids) if ids is not None else None,
            **_where_and_when(bbox, datetime),
            job_id=job_id,
            content_hash=content_hash,
            properties=_json(dict(properties)) if properties is not None else None,
            after_collection=after_collection,
            after_item=after_item,
            limit=limit + 1,
        )
        items = [_item(row) for row in rows[:limit]]
        return Page(items, _token(items[-1]) if len(rows) > limit else None)

    def delete_items(self, collection_id: str, item_ids: Sequence[str]) -> int:
        with self._connection() as connection:
            if not SCHEMA.exists(connection):
                return 0
            params = {"collection_id": collection_id, "item_ids": list(item_ids)}
            return connection.execute(_statements()["delete_items"], params).rowcount

    def summaries(self, collections: Sequence[str] | None = None) -> list[CollectionSummary]:
        return [_summary(row) for row in self._read("summaries", collections=collections)]

    def jobs_ending(self, ending: str) -> list[str]:
        return [row["job_id"] for row in self._read("jobs_ending", ending=ending)]

    @contextmanager
    def snapshot(self) -> Iterator[PostgresCatalog]:
        with self._connection() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            yield PostgresCatalog(self._url, connection)

    def _read(self, name: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of a query. Reading does not create the schema: without it there are no rows."""
        with self._connection() as connection:
            if not SCHEMA.exists(connection):
                return []
            if self._shared is None:
                SCHEMA.ensure(connection)
            return connection.execute(_statements()[name], params).fetchall()

    def _write(self, name: str, **params: Any) -> list[dict[str, Any]]:
        with self._connection() as connection:
            SCHEMA.ensure(connection)
            return connection.execute(_statements()[name], params).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._shared is not None:
            yield self._shared
            return
        try:
            with psycopg.connect(
                self._url,
                autocommit=True,
                row_factory=dict_row,
                prepare_threshold=None,
                connect_timeout=CONNECT_SECONDS,
                application_name="holdfast catalog",
            ) as connection:
                yield connection
        except psycopg.errors.ForeignKeyViolation:
            raise
        except psycopg.IntegrityError as error:
            # Our own constraints were checked before: somebody has added another one to the table.
            raise Refused(
                f"The catalog's database refuses to write: {error.diag.message_primary or type(error).__name__}.",
                remedy="Ask the owner of the catalog, then retry.",
            ) from error
        except psycopg.DataError as error:
            raise InvalidInput(
                f"The catalog's database cannot store the values: {' '.join(str(error).split())}"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise _unreachable(error) from error


def _unreachable(error: Exception) -> HoldfastError:
    return Unreachable(
        f"The catalog's database does not answer: {' '.join(str(error).split())}",
        remedy="Check the whole installation with: holdfast doctor",
    )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _where_and_when(bbox: Sequence[float] | None, datetime: str | None) -> dict[str, str | None]:
    try:
        box = None
        if bbox is not None:
            west, south, east, north = flat(bbox)
            box = f"({east!r},{north!r}),({west!r},{south!r})"
        return {"box": box, "during": searched_range(datetime) if datetime is not None else None}
    except ValueError as error:
        raise InvalidInput(f"The search is not valid: {error}.") from None


def _item(row: dict[str, Any]) -> Json:
    """A row as a STAC item: with its registration times, and a link to its collection as an export places it."""
    item: Json = {name: row["content"][name] for name in KEYS if name in row["content"]} | row["content"]
    times = {"created": written(row["created_at"]), "updated": written(row["updated_at"])}
    item["properties"] = times | item["properties"]
    item["links"] = [{"rel": "collection", "href": "../collection.json", "type": "application/json"}, *item["links"]]
    return item


def _summary(row: dict[str, Any]) -> CollectionSummary:
    bbox = None
    if row["west"] is not None:
        west, east = row["west"], row["east"]
        if row["crosses"] and row["east_of_zero"] - row["west_of_zero"] < east - west:
            west, east = row["west_of_zero"], row["east_of_zero"]
        bbox = round_earth(west, row["south"], east, row["north"])
    interval = (written(row["begins"]), written(row["ends"])) if row["begins"] is not None else None
    return CollectionSummary(row["collection_id"], row["items"], bbox, interval, row["content"])


def _token(item: Json) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([item["collection"], item["id"]])).decode()


def _place(token: str | None) -> tuple[str | None, str | None]:
    """The collection and the item after which the page begins."""
    if token is None:
        return None, None
    try:
        collection_id, item_id = orjson.loads(base64.urlsafe_b64decode(token.encode()))
        return str(collection_id), str(item_id)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidInput(
            f"'{token}' is not a page token.", remedy="Use the token of the previous page of the search."
        ) from None


@cache
def _statements() -> dict[str, bytes]:
    return statements_in("holdfast.apps.catalog.sql")
