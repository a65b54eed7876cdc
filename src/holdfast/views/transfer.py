"""Views on their way from the service to a client of ours: all fields, also those that JSON for people leaves out."""

from __future__ import annotations

from typing import Any

from holdfast.views.encoding import to_json


def to_transfer(view: Any) -> Any:
    return to_json(view)
