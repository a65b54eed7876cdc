"""Finding jobs by what other systems know of them: a correlation id, a key, an id of theirs, or a file."""

from __future__ import annotations

import re

from holdfast.errors import InvalidInput, cut
from holdfast.operations.marks import check_correlation_id, external_id
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import PAGE_LENGTH, checked_limit, identities_of_key, job_of_cursor
from holdfast.operations.scope import Scope
from holdfast.store.job_filter import Wanted
from holdfast.views.jobs import JobPage, summary_view

_SHA256 = re.compile(r"(sha256:)?([0-9a-fA-F]{64})")


async def lookup(
    scope: Scope,
    store: OperationsStore,
    *,
    correlation_id: str | None = None,
    key: str | None = None,
    external: str | None = None,
    artifact: str | None = None,
    limit: int = PAGE_LENGTH,
    after: str | None = None,
) -> JobPage:
    """One page of the jobs, newest first, that one of these points to.

    `external` is NAMESPACE:VALUE; `artifact` is the sha256 of a file that the job has published.
    """
    if sum(one is not None for one in (correlation_id, key, external, artifact)) != 1:
        raise InvalidInput(
            "A lookup needs one thing to look for.",
            remedy="Give one of: correlation_id, key, external_id=NAMESPACE:VALUE, artifact=SHA256.",
        )
    reader = store.reads(scope.tenant)
    wanted = Wanted(
        check_correlation_id(correlation_id) if correlation_id is not None else None,
        await identities_of_key(scope, reader, None, key) if key is not None else None,
        external_id(external) if external is not None else None,
        _digest(artifact) if artifact is not None else None,
    )
    before = job_of_cursor(after) if after is not None else None
    page = await reader.find_jobs(checked_limit(limit), wanted, before=before)
    return JobPage(tuple(summary_view(row) for row in page.lines), page.after)


def _digest(text: str) -> str:
    match = _SHA256.fullmatch(text)
    if match is None:
        raise InvalidInput(f"'{cut(text)}' is not a sha256.", remedy="Give the 64 hexadecimal digits of it.")
    return match[2].lower()
