"""The labels of jobs: which names and values they may have. A label is no part of a job's identity."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.errors import InvalidInput

MOST_LABELS = 20
LONGEST_VALUE = 200
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a submission or of a filter; refused if a name or a value is not one of a label."""
    if len(labels) > MOST_LABELS:
        raise InvalidInput(
            f"A job has at most {MOST_LABELS} labels, not {len(labels)}.", remedy="Leave some labels out."
        )
    for name, value in labels.items():
        if _NAME.fullmatch(name) is None:
            raise InvalidInput(
                f"'{name}' is not the name of a label.",
                remedy="Use letters, digits, '_', '.' and '-', at most 63 characters.",
            )
        if len(value) > LONGEST_VALUE:
            raise InvalidInput(
                f"The value of label {name} has {len(value)} characters; the limit is {LONGEST_VALUE}.",
                remedy="Put long values into the inputs of the job.",
            )
        if "\0" in value:
            raise InvalidInput(f"The value of label {name} has a NUL character.", remedy="Leave the character out.")
    return dict(labels)
