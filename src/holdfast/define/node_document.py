"""The parts of a workflow file that nodes of several types have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from holdfast.define.fields import NAMES_SCHEMA, DocumentPart, Expression, Hours, Name, Names, one_or_many


def _all_of(value: Any) -> Any:
    return {"all_of": one_or_many(value)} if isinstance(value, str | list | tuple) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def any_case(name: str) -> Any:
    """A type may also be written as START or Start."""
    return BeforeValidator(_lower), WithJsonSchema({"enum": [name, name.upper(), name.capitalize()]})


class DependsOnDocument(DocumentPart):
    """What a node waits for."""

    all_of: Names | None = None
    """All of these nodes."""

    any_of: Names | None = None
    """At least one of these nodes."""


DependsOn = Annotated[
    DependsOnDocument,
    BeforeValidator(_all_of),
    WithJsonSchema(
        {
            "anyOf": [
                *NAMES_SCHEMA["anyOf"],
                {
                    "type": "object",
                    "properties": {"all_of": NAMES_SCHEMA, "any_of": NAMES_SCHEMA},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
ImportanceName = Literal["critical", "important", "optional"]


class RerunDocument(DocumentPart):
    """Whether completed tasks may run again; failed ones always may."""

    safe: Literal["always", "confirm", "never"] = "confirm"
    """Whether they may run again: always, after a confirmation, or never. Default confirm."""

    within_hours: Hours | None = None
    """How long after they completed. Default: no limit."""


class DeliverableDocument(DocumentPart):
    """A product of the node that is useful by itself, even if the rest of the job fails."""

    name: Name
    """Its name, unique in the workflow."""

    location: Expression | None = None
    """Where it is stored, such as "{{ inputs.region }}/": a template over `inputs`, `nodes` and `job`."""


class NodeDocument(DocumentPart):
    description: str | None = None
    """What the node is for."""
