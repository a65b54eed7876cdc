"""The parts of an app's sub-commands: options, help, output streams and the database.

Public, for modules that an entry point of the group `holdfast.cli` names. `holdfast --help` imports these modules, so
they and this one import slow libraries only inside functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.options import DatabaseUrl, Json, PlainCommand, PlainGroup
from holdfast.cli.streams import answer, answer_json, harmless, say, show
from holdfast.cli.words import counted, parse_duration, size
from holdfast.errors import NotFound
from holdfast.extend.settings import home

__all__ = [
    "DatabaseUrl",
    "Json",
    "PlainCommand",
    "PlainGroup",
    "answer",
    "answer_json",
    "counted",
    "harmless",
    "home",
    "parse_duration",
    "say",
    "show",
    "size",
    "use_database",
]


@contextmanager
def use_database(database_url: str | None) -> Iterator[str]:
    """The URL of the database that all commands use, for the duration of the block.

    It is `database_url`, else HOLDFAST_DATABASE_URL, else the embedded database. Raises NotFound if there is none yet,
    and creates none.
    """
    from holdfast.bootstrap import database
    from holdfast.cli.session import Target, begin, has_database

    settings = begin(Target(database_url))
    if not has_database(settings):
        raise NotFound(
            f"There is no database in {settings.home} yet.", remedy="Run a workflow first: holdfast run FILE"
        )
    with database(settings) as url:
        yield url
