"""The workflow file as people write it: its keys, their types and their descriptions.

These models check the shape of a file and are the source of the JSON Schema that editors use. What the
pieces mean together is checked in normalise.py, structure.py and references.py. The nodes are in kinds/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from holdfast.define.bounds import (
    HANDLER_NAME,
    MAX_NAME_LENGTH,
    MAX_NODES,
    MAX_PATTERN_LENGTH,
    MAX_SECONDS,
    MAX_URL_LENGTH,
)
from holdfast.define.fields import (
    INPUT_NAME,
    NODE_NAME,
    PROBE_URL,
    WORKFLOW_ID,
    Calls,
    DocumentPart,
    FailureCode,
    Length,
    Minutes,
    Name,
    Number,
    Seconds,
    not_blank,
    number_to_text,
)
from holdfast.define.kinds import DEFAULT_KIND, KINDS
from holdfast.define.node_document import NodeDocument
from holdfast.define.notify import MAX_NOTIFY_RULES
from holdfast.define.notify_document import NotifyDocument
from holdfast.define.retry_document import RetryDocument
from holdfast.define.timing import LONGEST_CRON


class ProbeDocument(DocumentPart):
    """How to find out whether the dependency works again: one of the two."""

    url: Annotated[str, Field(pattern=PROBE_URL, max_length=MAX_URL_LENGTH)] | None = None
    """An address that answers a GET with 2xx when the dependency works. It must be public, or one that the installation
    allows."""

    handler: Name | None = None
    """A handler that returns when the dependency works, and raises when it does not."""


class BreakerDocument(DocumentPart):
    """A dependency that may be down: while its breaker is open, its tasks wait and use no retries."""

    window_calls: Calls = 20
    """How many of the latest calls count. Default 20."""

    window_seconds: Seconds | None = None
    """How old these calls may be. Default: any age."""

    failure_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The breaker opens at this share of failures. Default 0.5."""

    min_calls: Calls | None = None
    """The breaker does not open before this number of calls. Default 10, or window_calls if that is less."""

    codes: Annotated[list[FailureCode], Field(min_length=1)] | None = None
    """The codes that count as its failures; any other answer is a success. Default: those of all transient failures."""

    cooldown_seconds: Seconds = 30
    """How long the breaker stays open before it lets a task try. Default 30."""

    probes: Calls = 1
    """How many waiting tasks try first. Default 1."""

    probe: ProbeDocument | None = None
    """A check that must pass before the first task tries. Default: no check, the first task tries."""


class ScheduleDocument(DocumentPart):
    """When jobs of the workflow start by the clock: `cron` or `every_seconds`. `holdfast register` applies it."""

    cron: Annotated[str, Field(max_length=LONGEST_CRON)] | None = None
    """Minute, hour, day of the month, month and day of the week: `0 2 * * *` is every night at two."""

    every_seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] | None = None
    """An interval, instead of `cron`."""

    time_zone: Annotated[str, Field(max_length=MAX_NAME_LENGTH)] = "UTC"
    """The time zone of `cron`, such as `Africa/Kigali`. Default UTC."""

    inputs: dict[str, Any] | None = None
    """The inputs of the jobs. Default: none are given."""

    overlap: Literal["skip", "queue", "replace"] = "skip"
    """What a tick does while the job before it has not ended: `skip` it, `queue` it, or `replace` the job. Default
    skip."""

    catch_up: Literal["none", "last", "all"] = "last"
    """Which ticks count of those that were missed. Default last."""


def type_tag(value: Any) -> str | None:
    """The tag of a node's type in a file; None when the type is not text."""
    written = value.get("type", DEFAULT_KIND.node_type) if isinstance(value, dict) else DEFAULT_KIND.node_type
    return f"<{written.lower()}>" if isinstance(written, str) else None


if TYPE_CHECKING:
    AnyNodeDocument = NodeDocument
else:
    AnyNodeDocument = Annotated[
        Union[tuple(Annotated[kind.document, Tag(f"<{kind.node_type}>")] for kind in KINDS.values())],  # noqa: UP007
        Discriminator(type_tag),
    ]
InputTypeName = Literal["string", "integer", "number", "boolean", "array", "object", "any"]
INPUT_TYPES: tuple[str, ...] = get_args(InputTypeName)


class InputDocument(DocumentPart):
    """One input of the workflow."""

    type: InputTypeName = "any"
    """The type of the value. Default any."""

    required: bool = False
    """Whether every job needs a value. Default false: without a value and a default the input is null."""

    default: Any = None
    """The value for a job that gives none."""

    description: str | None = None
    """What the input is for."""

    pattern: Annotated[str, Field(max_length=MAX_PATTERN_LENGTH)] | None = None
    """A regular expression that must match a part of the text; use ^ and $ to match the whole text."""

    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    """The allowed values."""

    minimum: Number | None = None
    """The smallest allowed number."""

    maximum: Number | None = None
    """The largest allowed number."""

    min_length: Length | None = None
    """The smallest allowed length of a text or list."""

    max_length: Length | None = None
    """The largest allowed length of a text or list."""


class WorkflowDocument(DocumentPart):
    """A Holdfast workflow."""

    workflow_id: Annotated[str, Field(pattern=WORKFLOW_ID, max_length=MAX_NAME_LENGTH)]
    """The name by which jobs are submitted."""

    name: str | None = None
    """The title for people."""

    version: (
        Annotated[
            str,
            BeforeValidator(number_to_text),
            Field(max_length=MAX_NAME_LENGTH),
            AfterValidator(not_blank),
            WithJsonSchema({"type": ["string", "number"]}),
        ]
        | None
    ) = None
    """The version of the workflow, a number or a text. Default 1."""

    description: str | None = None
    """What the workflow is for."""

    inputs: dict[Annotated[str, Field(pattern=INPUT_NAME, max_length=MAX_NAME_LENGTH)], InputDocument] | None = None
    """The inputs of a job by name. Without this key a job may have any inputs."""

    timeout_minutes: Minutes | None = None
    """How long a job may take, in minutes. Default: no limit."""

    timeout_seconds: Seconds | None = None
    """How long a job may take, in seconds. Default: no limit."""

    on_failure: Literal["keep", "compensate"] | None = None
    """What a failed job does by itself: `keep` leaves everything as it is, for a resume; `compensate` undoes what has
    completed, so that a resume runs it again. Default keep."""

    retry: RetryDocument | None = None
    """What happens after a failed attempt, for nodes without a `retry` of their own."""

    breakers: dict[Annotated[str, Field(pattern=HANDLER_NAME, max_length=MAX_NAME_LENGTH)], BreakerDocument] | None = (
        None
    )
    """The dependencies that may be down, by name; all workflows of a tenant share the breaker of a name."""

    notify: Annotated[list[NotifyDocument], Field(max_length=MAX_NOTIFY_RULES)] | None = None
    """The receivers of a job's events."""

    schedule: ScheduleDocument | None = None
    """When jobs start by the clock. `holdfast register` applies it; without this key, the schedule is paused."""

    nodes: Annotated[
        dict[Annotated[str, Field(pattern=NODE_NAME, max_length=MAX_NAME_LENGTH)], AnyNodeDocument],
        Field(min_length=1, max_length=MAX_NODES),
    ]
    """The steps of the workflow by name; their order is the order of the stages."""

    result: Any = None
    """The job's result: a template of any shape. Default: the output of the last node."""


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a workflow file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidied(WorkflowDocument.model_json_schema()),
        "title": "Holdfast workflow",
    }


def _tidied(schema: Any) -> Any:
    """Removes what pydantic adds: titles made from names, and null for optional keys."""
    if isinstance(schema, list):
        return [_tidied(one) for one in schema if one != {"type": "null"}]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: _tidied(value) for key, value in schema.items() if key != "discriminator"}
    if isinstance(tidy.get("title"), str):
        del tidy["title"]
    if tidy.get("default", ...) is None:
        del tidy["default"]
    for key in ("anyOf", "oneOf"):
        if isinstance(tidy.get(key), list) and len(tidy[key]) == 1:
            tidy = {**tidy.pop(key)[0], **tidy}
    if "patternProperties" in tidy:
        tidy["additionalProperties"] = False
    return tidy
