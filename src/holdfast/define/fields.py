"""The values that the keys of a workflow file can have, and the base of all its parts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from holdfast.define.bounds import (
    HANDLER_NAME,
    MAX_AT_ONCE,
    MAX_CALLS,
    MAX_ITEMS,
    MAX_NAME_LENGTH,
    MAX_RULES,
    MAX_SECONDS,
    MIN_SECONDS,
)
from holdfast.errors import CODE_PATTERN

NODE_NAME = r"^[A-Za-z](_?[A-Za-z0-9-])*_?$"
INPUT_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
WORKFLOW_ID = r"^[A-Za-z][A-Za-z0-9_.-]*$"
FAILURE_CODE = CODE_PATTERN.pattern.replace(r"\Z", "$")
PROBE_URL = r"^https?://[^\s/]+"


def one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def number_to_text(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def scalar_to_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else number_to_text(value)


def not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


NAMES_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
    ]
}
Names = Annotated[list[str], BeforeValidator(one_or_many), WithJsonSchema(NAMES_SCHEMA)]
"""One node name, or a list of them."""

Name = Annotated[str, Field(pattern=HANDLER_NAME, max_length=MAX_NAME_LENGTH)]
Expression = Annotated[str, AfterValidator(not_blank)]
Texts = Annotated[
    list[Expression],
    BeforeValidator(one_or_many),
    Field(min_length=1, max_length=MAX_RULES),
    WithJsonSchema(NAMES_SCHEMA),
]
"""One text, or a list of them."""
Seconds = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS, allow_inf_nan=False)]
Minutes = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS / 60, allow_inf_nan=False)]
Hours = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS / 3600, allow_inf_nan=False)]
Delay = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Length = Annotated[int, Field(ge=0, le=MAX_ITEMS)]
Limit = Annotated[int, Field(ge=1, le=MAX_AT_ONCE)]
Calls = Annotated[int, Field(ge=1, le=MAX_CALLS)]
FailureCode = Annotated[str, Field(pattern=FAILURE_CODE)]


class DocumentPart(BaseModel):
    """What all parts of the file share: no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        populate_by_name=True,
        protected_namespaces=(),
        # Every process that reads a definition imports these models; few of them read a file.
        defer_build=True,
    )


def float_or_none(number: float | None) -> float | None:
    return None if number is None else float(number)


def stripped(text: str | None) -> str | None:
    return None if text is None else text.strip()
