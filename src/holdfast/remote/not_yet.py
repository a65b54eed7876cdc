"""What a client over a URL cannot do, and why. Everything else it does as one at the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import NeedsDatabase

NEEDS_A_DATABASE: Mapping[str, str] = {
    "submit_many": "jobs that are made ready here are inserted by those at the database; `submit_batch` does it",
    "prune": "jobs are deleted by those who look after the database",
    "knows_key": "the keys are in the database",
    "sign_in_code": "the codes of links are in the database",
    "earlier": "the service itself compares requests that have a key",
    "refuse_foreign_cancel": "the service itself looks who has submitted a job",
    "find_artifact": "the service looks for a file when it sends it; `artifacts` lists the files",
}
"""Methods that no service offers, each with the reason."""
NOT_YET: Mapping[str, str] = {}
"""Methods whose routes do not exist. Each leaves this table when its route comes."""


def needs_database(name: str, why: str) -> NeedsDatabase:
    return NeedsDatabase(
        f"`{name}` needs the database itself: {why}.",
        remedy="Use the address of the database: --database-url, or Client.connect('postgresql://…').",
    )


def refuse_the_rest(kind: Any) -> Any:
    """Make every method of the tables raise, as soon as it is called."""

    def refusing(name: str, why: str) -> Any:
        def refuse(self: object, *arguments: object, **options: object) -> Any:
            raise needs_database(name, why)

        refuse.__name__ = name
        return refuse

    for name, why in {**NEEDS_A_DATABASE, **NOT_YET}.items():
        setattr(kind, name, refusing(name, why))
    return kind
