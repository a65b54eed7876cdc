"""The limits of what a workflow may contain, listed in docs/reference/language.md.

Each is below the limit of the column, library or process behind it, so that the user gets a message at load time.
"""

from __future__ import annotations

import re

from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput

MIN_SECONDS = 0.001
"""The shortest timeout or time. A column of type real holds no much smaller number, and clocks are not finer."""
MAX_SECONDS = 10 * 365 * 86_400
MAX_RETRIES = 1000
MAX_CALLS = 1000
"""How many calls a breaker looks at, and how many tasks may probe."""
MAX_AT_ONCE = 1_000_000
"""The largest limit of tasks that run at once, or that start in a period."""
MAX_ITEMS = 2**31 - 1
"""Items, characters and entries are counted in columns of type integer."""

MAX_NODES = 1000
MAX_RULES = 100
MAX_NAME_LENGTH = 100
MAX_PATTERN_LENGTH = 500
MAX_URL_LENGTH = 2000
HANDLER_NAME = r"^[A-Za-z_][A-Za-z0-9_.:-]*$"


def checked_queue(name: str) -> str:
    """The name, if it is a valid queue name. A worker of any other queue would wait for ever."""
    if len(name) > MAX_NAME_LENGTH or not re.fullmatch(HANDLER_NAME, name):
        raise InvalidInput(
            f"'{shown_name(name)}' is not a valid queue name.",
            remedy="A queue name is a letter or '_', then letters, digits and any of '_', '.', ':', '-'; "
            f"at most {MAX_NAME_LENGTH} characters.",
        )
    return name
