"""The numbers that bound what a workflow may say and what is made of it: one table, told in docs/reference/language.md.

Each leaves room to the column, the library or the process behind it, which would fail where nobody can read it. Apart
from the documents, whose models take a while to import.
"""

from __future__ import annotations

import re

from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput

MIN_SECONDS = 0.001
"""The shortest timeout or time: a column of type real holds no number that is much smaller, and no clock is finer."""
MAX_SECONDS = 10 * 365 * 86_400
MAX_RETRIES = 1000
MAX_CALLS = 1000
"""Of a breaker: how many calls it looks at, and how many tasks try first."""
MAX_AT_ONCE = 1_000_000
"""Of a limit: tasks that run at once, or that begin in its time."""
MAX_ITEMS = 2**31 - 1
"""Items, characters and entries are counted in columns of type integer."""

MAX_NODES = 1000
MAX_RULES = 100
MAX_NAME_LENGTH = 100
MAX_PATTERN_LENGTH = 500
MAX_URL_LENGTH = 2000
HANDLER_NAME = r"^[A-Za-z_][A-Za-z0-9_.:-]*$"


def checked_queue(name: str) -> str:
    """The name, if a queue can have it; a worker of any other would wait for ever."""
    if len(name) > MAX_NAME_LENGTH or not re.fullmatch(HANDLER_NAME, name):
        raise InvalidInput(
            f"'{shown_name(name)}' is not the name of a queue.",
            remedy="It is a letter or '_', then letters, digits and any of '_', '.', ':', '-'; "
            f"at most {MAX_NAME_LENGTH} characters.",
        )
    return name
