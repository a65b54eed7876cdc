"""How long names and times may be, and what a queue may be called: in a file, on the command line, in a program.

Apart from the documents, whose models take a while to import.
"""

from __future__ import annotations

import re

from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput

MAX_NAME_LENGTH = 100
MAX_SECONDS = 10 * 365 * 86_400
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
