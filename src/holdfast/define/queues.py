"""What a queue may be called: the same wherever a person names one, in a file or on the command line."""

from __future__ import annotations

import re

from holdfast.define.document import HANDLER_NAME, MAX_NAME_LENGTH
from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput


def checked_queue(name: str) -> str:
    """The name, if a queue can have it; a worker of any other would wait for ever."""
    if len(name) > MAX_NAME_LENGTH or not re.fullmatch(HANDLER_NAME, name):
        raise InvalidInput(
            f"'{shown_name(name)}' is not the name of a queue.",
            remedy="It is a letter or '_', then letters, digits and any of '_', '.', ':', '-'; "
            f"at most {MAX_NAME_LENGTH} characters.",
        )
    return name
