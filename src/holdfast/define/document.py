"""The workflow file as people write it: its keys, their types and their descriptions.

These models check the shape of a file and are the source of the JSON Schema that editors use. What the
pieces mean together is checked in normalise.py, structure.py and references.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from holdfast.define.bounds import (
    HANDLER_NAME,
    MAX_AT_ONCE,
    MAX_CALLS,
    MAX_ITEMS,
    MAX_NAME_LENGTH,
    MAX_NODES,
    MAX_PATTERN_LENGTH,
    MAX_RETRIES,
    MAX_RULES,
    MAX_SECONDS,
    MAX_URL_LENGTH,
    MIN_SECONDS,
)
from holdfast.errors import CODE_PATTERN

SHARE = r"^(100|[0-9]{1,2}(\.[0-9]{1,6})?)%$"
NODE_NAME = r"^[A-Za-z](_?[A-Za-z0-9-])*_?$"
INPUT_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
WORKFLOW_ID = r"^[A-Za-z][A-Za-z0-9_.-]*$"
FAILURE_CODE = CODE_PATTERN.pattern.replace(r"\Z", "$")
PROBE_URL = r"^https?://[^\s/]+"


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _all_of(value: Any) -> Any:
    return {"all_of": _one_or_many(value)} if isinstance(value, str | list | tuple) else value


def _number_to_text(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _scalar_to_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else _number_to_text(value)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _some_text(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


def _number_or_share(value: Any) -> Any:
    """Of the items that may fail."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ITEMS
    if not is_number and not (isinstance(value, str) and re.fullmatch(SHARE, value)):
        raise PydanticCustomError("failures", 'should be a number of items such as 3, or a share such as "1%"')
    return value


def _batch_size(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_ITEMS
    if not is_number and value != "auto" and not (isinstance(value, str) and "{{" in value):
        raise PydanticCustomError("batch_size", 'should be a number of items such as 100, a template, or "auto"')
    return value


def _any_case(name: str) -> Any:
    return BeforeValidator(_lower), WithJsonSchema({"enum": [name, name.upper(), name.capitalize()]})


_NAMES_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
    ]
}
Names = Annotated[list[str], BeforeValidator(_one_or_many), WithJsonSchema(_NAMES_SCHEMA)]
"""One node name, or a list of them."""

Name = Annotated[str, Field(pattern=HANDLER_NAME, max_length=MAX_NAME_LENGTH)]
Expression = Annotated[str, AfterValidator(_some_text)]
Seconds = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS, allow_inf_nan=False)]
Minutes = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS / 60, allow_inf_nan=False)]
Hours = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS / 3600, allow_inf_nan=False)]
Delay = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Length = Annotated[int, Field(ge=0, le=MAX_ITEMS)]
Limit = Annotated[int, Field(ge=1, le=MAX_AT_ONCE)]
Calls = Annotated[int, Field(ge=1, le=MAX_CALLS)]
FailureCode = Annotated[str, Field(pattern=FAILURE_CODE)]
BatchSize = Annotated[
    Any,
    BeforeValidator(_batch_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_ITEMS}, {"type": "string"}]}),
]
Failures = Annotated[
    Any,
    BeforeValidator(_number_or_share),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_ITEMS}, {"type": "string", "pattern": SHARE}]}
    ),
]


class Surface(BaseModel):
    """What all parts of the file share: no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        populate_by_name=True,
        protected_namespaces=(),
    )


JitterName = Literal["none", "full", "equal"]


class JitterRange(Surface):
    """A random time that is added to the pause."""

    min_seconds: Delay = 0
    """At least so much. Default 0."""

    max_seconds: Delay
    """At most so much."""


def _jitter_form(value: Any) -> str:
    return "<map>" if isinstance(value, dict) else "<name>"


class RetryDocument(Surface):
    """How often and how soon a failed attempt is tried again."""

    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] | None = None
    """How many times a failed attempt is tried again. Default 3; with a schedule, its length."""

    max_attempts: Annotated[int, Field(ge=0, le=MAX_RETRIES)] | None = None
    """The older spelling of max_retries: it counts the retries, without the first attempt."""

    backoff: Literal["fixed", "linear", "exponential", "schedule"] | None = None
    """How the pause grows from retry to retry. Default exponential."""

    initial_delay_seconds: Delay | None = None
    """The pause before the first retry. Default 1."""

    max_delay_seconds: Delay | None = None
    """The longest pause. Default 300."""

    jitter: (
        Annotated[
            Annotated[JitterName, Tag("<name>")] | Annotated[JitterRange, Tag("<map>")],
            Discriminator(_jitter_form),
        ]
        | None
    ) = None
    """How much of the pause is random: none, all of it, half of it, or a range that is added to it. Default full;
    none with a schedule."""

    schedule: Annotated[list[Delay], Field(min_length=1, max_length=MAX_RETRIES)] | None = None
    """The pauses in seconds, one per retry; the last one serves all further retries."""

    retry_on: Annotated[list[FailureCode], Field(min_length=1)] | None = None
    """The codes that are retried; failures with another code are final. Default: all that are not permanent."""


class ErrorRuleDocument(Surface):
    """What a failure means that contains a text or ended with an exit code; the first rule that fits decides."""

    match: Expression | None = None
    """A text that the failure's message or the attempt's log contains, in upper or lower case."""

    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    """The exit code of the command that failed; 128 + n where signal n ended it."""

    failure_class: Annotated[Literal["transient", "permanent"], Field(alias="class")]
    """Whether another attempt may succeed."""

    code: FailureCode | None = None
    """The code that the failure gets, unless the handler gave one."""


class ConcurrencyDocument(Surface):
    """How many tasks may run at once."""

    limit: Limit
    """At most so many at once."""

    key: Expression | None = None
    """What shares the limit, such as "{{ inputs.region }}": all tasks of the tenant with the same key, of whatever
    workflow. Without it the limit is the node's own, over all jobs."""


class RateDocument(Surface):
    """How many tasks may begin in a time."""

    limit: Limit
    """At most so many."""

    per_seconds: Seconds = 1
    """In so many seconds. Default 1."""

    key: Expression | None = None
    """What shares the limit, such as "{{ inputs.account }}". Without it the limit is the node's own, over all jobs."""


class ProbeDocument(Surface):
    """How to find out whether the dependency is well again: one of the two."""

    url: Annotated[str, Field(pattern=PROBE_URL, max_length=MAX_URL_LENGTH)] | None = None
    """An address that answers a GET with 2xx when it is well."""

    handler: Name | None = None
    """A handler that returns when it is well, and raises when it is not."""


class BreakerDocument(Surface):
    """A dependency that may be down: while its breaker is open, its tasks wait and spend nothing."""

    window_calls: Calls = 20
    """How many of the latest calls are looked at. Default 20."""

    window_seconds: Seconds | None = None
    """How old these calls may be. Default: any age."""

    failure_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The share of failures from which on it opens. Default 0.5."""

    min_calls: Calls | None = None
    """Below so many calls it does not open. Default 10, or window_calls if that is less."""

    codes: Annotated[list[FailureCode], Field(min_length=1)] | None = None
    """The codes that count as its failures; any other answer is a success. Default: those of all transient failures."""

    cooldown_seconds: Seconds = 30
    """How long it stays open before it is tried again. Default 30."""

    probes: Calls = 1
    """How many waiting tasks try first. Default 1."""

    probe: ProbeDocument | None = None
    """A check that must pass before the first task tries. Default: the tasks themselves are the check."""


class Work(Surface):
    """What a worker is asked to run."""

    queue: Name | None = None
    """The queue that the work is sent to. Default `default`."""

    params: dict[str, Any] | None = None
    """The handler's arguments; texts may hold templates such as "{{ inputs.region }}"."""

    timeout_seconds: Seconds | None = None
    """How long one attempt may run, from its start. Default 3600."""

    queue_timeout_seconds: Seconds | None = None
    """How long the work may wait in its queue. Default: without limit."""

    retry: RetryDocument | None = None
    """What happens after a failed attempt. Default: the workflow's."""

    errors: Annotated[list[ErrorRuleDocument], Field(min_length=1, max_length=MAX_RULES)] | None = None
    """What failures mean that their handler does not name; the first rule that fits decides."""

    breaker: Name | None = None
    """The breaker, declared under `breakers`, whose dependency the handler needs."""

    concurrency: ConcurrencyDocument | None = None
    """How many of these tasks may run at once."""

    rate: RateDocument | None = None
    """How many of these tasks may begin in a time."""

    output_schema: dict[str, Any] | None = None
    """A JSON Schema (2020-12) that every output must keep; one that does not is a permanent failure."""


class ItemTaskDocument(Work):
    """What runs for each item of a fan-out; its params also see `item` and `index`."""

    handler: Name
    """The function that runs for each item."""


class DependsOnDocument(Surface):
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
                *_NAMES_SCHEMA["anyOf"],
                {
                    "type": "object",
                    "properties": {"all_of": _NAMES_SCHEMA, "any_of": _NAMES_SCHEMA},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Importance = Literal["critical", "important", "optional"]


class RerunDocument(Surface):
    """What guards the tasks that have completed; those that failed may always run again."""

    safe: Literal["always", "confirm", "never"] = "confirm"
    """Whether they may run again: always, after a confirmation, or never. Default confirm."""

    within_hours: Hours | None = None
    """How long after they completed. Default: without limit."""


class DeliverableDocument(Surface):
    """What a node makes that is of use by itself, whatever becomes of the rest of the job."""

    name: Name
    """What it is called; no other node delivers under that name."""

    location: Expression | None = None
    """Where it lies, such as "{{ inputs.region }}/": a template over `inputs`, `nodes` and `job`."""


class AnyNode(Surface):
    description: str | None = None
    """What the node is for."""


class StartDocument(AnyNode):
    """The entry of the workflow."""

    type: Annotated[Literal["start"], *_any_case("start")]
    """The type of the node."""

    next: Names | None = None
    """The node or nodes that follow."""


class EndDocument(AnyNode):
    """An exit of the workflow."""

    type: Annotated[Literal["end"], *_any_case("end")]
    """The type of the node."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class TaskDocument(AnyNode, Work):
    """One piece of work for a worker."""

    type: Annotated[Literal["task"], *_any_case("task")] = "task"
    """The type of the node. Default task."""

    handler: Name
    """The function that a worker runs."""

    importance: Importance | None = None
    """What its failure means for the job: critical fails it, important makes it partial. Default critical."""

    deliverable: DeliverableDocument | None = None
    """What it delivers: counted by its items that completed, and told with the job's outcome."""

    rerun: RerunDocument | None = None
    """Whether what completed of it may run again when a person asks for it. Default: after a confirmation."""

    next: Names | None = None
    """The node or nodes that follow."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class BranchDocument(Surface):
    """One way out of a conditional."""

    name: str | None = None
    """A name for people."""

    condition: (
        Annotated[
            Expression,
            BeforeValidator(_scalar_to_text),
            WithJsonSchema({"type": ["string", "number", "boolean"]}),
        ]
        | None
    ) = None
    """With condition_field a test such as "< 100" or a value; without it a whole condition."""

    default: bool = False
    """Whether this branch is taken when no other is."""

    next: Names
    """The node or nodes that follow when the branch is taken."""


def _branches_form(value: Any) -> str:
    return "<map>" if isinstance(value, dict) else "<list>"


BranchList = Annotated[list[BranchDocument], Field(min_length=1)]
BranchMap = Annotated[dict[str, Names], Field(min_length=1)]


class ConditionalDocument(AnyNode):
    """Chooses what follows; always critical."""

    type: Annotated[Literal["conditional"], *_any_case("conditional")]
    """The type of the node."""

    condition_field: Expression | None = None
    """The value that the branches' conditions test, such as "{{ nodes.check.output.size }}"."""

    condition: Expression | None = None
    """A condition for on_true and on_false, or a value for a map of branches."""

    on_true: Names | None = None
    """The node or nodes that follow when the condition is true."""

    on_false: Names | None = None
    """The node or nodes that follow when the condition is false."""

    branches: (
        Annotated[
            Annotated[BranchList, Tag("<list>")] | Annotated[BranchMap, Tag("<map>")],
            Discriminator(_branches_form),
        ]
        | None
    ) = None
    """A list, in which the first true condition wins, or a map from the condition's value to what follows."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class TolerateDocument(Surface):
    """How many items may fail without failing the fan-out."""

    failures: Failures
    """A number, such as 3, or a share of the items, such as "1%", rounded down."""


class FanOutDocument(AnyNode):
    """Runs one task per item of a list."""

    type: Annotated[Literal["fan_out"], *_any_case("fan_out")]
    """The type of the node."""

    source: Expression
    """The list, such as "{{ nodes.inventory.output.groups }}"."""

    task: ItemTaskDocument
    """What runs for each item."""

    tolerate: TolerateDocument | None = None
    """How many items may fail so that the flow goes on all the same. Default none."""

    on_item_failure: Literal["finish", "stop"] | None = None
    """Once too many have failed: let the others finish, or cancel those that wait. Default finish."""

    importance: Importance | None = None
    """What its failure means for the job: critical fails it, important makes it partial. Default critical."""

    deliverable: DeliverableDocument | None = None
    """What it delivers: counted by its items that completed, and told with the job's outcome."""

    rerun: RerunDocument | None = None
    """Whether what completed of it may run again when a person asks for it. Default: after a confirmation."""

    next: Names | None = None
    """The node or nodes that follow."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class BatchDocument(Work):
    """Takes the items in pages, each by a task of its own. What it does not say itself, it takes over from the node;
    its params also see `item`, its page, and `index`."""

    size: BatchSize = "auto"
    """How many items make a batch: a number, a template, or auto: 1 batch for up to 100 items, 5 for up to 500, 20 for
    up to 2,000, then one per 100. Default auto."""

    handler: Name
    """The function that runs for each batch; it gets `page`, and reads its items with ctx.results(**page)."""


class FanInDocument(AnyNode, Work):
    """Brings the items of a fan-out together."""

    type: Annotated[Literal["fan_in"], *_any_case("fan_in")]
    """The type of the node."""

    aggregation: Literal["collect", "concat", "sum", "first", "last"] | None = None
    """What is made of the items when no handler is given. Default collect."""

    handler: Name | None = None
    """The function that a worker runs when all items are done; with `batch`, when all batches are."""

    batch: BatchDocument | None = None
    """Takes the items in batches, in parallel, before the handler runs once."""

    importance: Importance | None = None
    """What its failure means for the job: critical fails it, important makes it partial. Default critical."""

    deliverable: DeliverableDocument | None = None
    """What it delivers: counted by its items that completed, and told with the job's outcome."""

    rerun: RerunDocument | None = None
    """Whether what completed of it may run again when a person asks for it. Default: after a confirmation."""

    next: Names | None = None
    """The node or nodes that follow."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


def node_type(value: Any) -> str | None:
    """Which kind of node a piece of a file means to be; None when its type is no text."""
    written = value.get("type", "task") if isinstance(value, dict) else "task"
    return f"<{written.lower()}>" if isinstance(written, str) else None


NodeDocument = Annotated[
    Annotated[StartDocument, Tag("<start>")]
    | Annotated[EndDocument, Tag("<end>")]
    | Annotated[TaskDocument, Tag("<task>")]
    | Annotated[ConditionalDocument, Tag("<conditional>")]
    | Annotated[FanOutDocument, Tag("<fan_out>")]
    | Annotated[FanInDocument, Tag("<fan_in>")],
    Discriminator(node_type),
]
NODE_DOCUMENTS: dict[str, type[Surface]] = {
    "start": StartDocument,
    "end": EndDocument,
    "task": TaskDocument,
    "conditional": ConditionalDocument,
    "fan_out": FanOutDocument,
    "fan_in": FanInDocument,
}
InputTypeName = Literal["string", "integer", "number", "boolean", "array", "object", "any"]
INPUT_TYPES: tuple[str, ...] = get_args(InputTypeName)


class InputDocument(Surface):
    """One input of the workflow."""

    type: InputTypeName = "any"
    """The type of the value. Default any."""

    required: bool = False
    """Whether a job must bring it. Default false: without a default it is then null."""

    default: Any = None
    """The value of a job that does not bring it."""

    description: str | None = None
    """What the input is for."""

    pattern: Annotated[str, Field(max_length=MAX_PATTERN_LENGTH)] | None = None
    """A regular expression that must be found in the text; ^ and $ tie it to the whole text."""

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


class WorkflowDocument(Surface):
    """A Holdfast workflow."""

    workflow_id: Annotated[str, Field(pattern=WORKFLOW_ID, max_length=MAX_NAME_LENGTH)]
    """The name by which jobs are submitted."""

    name: str | None = None
    """The title for people."""

    version: (
        Annotated[
            str,
            BeforeValidator(_number_to_text),
            Field(max_length=MAX_NAME_LENGTH),
            AfterValidator(_some_text),
            WithJsonSchema({"type": ["string", "number"]}),
        ]
        | None
    ) = None
    """The version of the workflow, a number or a text. Default 1."""

    description: str | None = None
    """What the workflow is for."""

    inputs: dict[Annotated[str, Field(pattern=INPUT_NAME, max_length=MAX_NAME_LENGTH)], InputDocument] | None = None
    """The inputs of a job by name. Without this key a job may bring any input."""

    timeout_minutes: Minutes | None = None
    """How long a job may take, in minutes. Default: without limit."""

    timeout_seconds: Seconds | None = None
    """How long a job may take, in seconds. Default: without limit."""

    retry: RetryDocument | None = None
    """What happens after a failed attempt, for nodes that do not say it themselves."""

    breakers: dict[Annotated[str, Field(pattern=HANDLER_NAME, max_length=MAX_NAME_LENGTH)], BreakerDocument] | None = (
        None
    )
    """The dependencies that may be down, by name; a name means the same in all workflows."""

    nodes: Annotated[
        dict[Annotated[str, Field(pattern=NODE_NAME, max_length=MAX_NAME_LENGTH)], NodeDocument],
        Field(min_length=1, max_length=MAX_NODES),
    ]
    """The steps of the workflow by name; their order is the order of the stages."""

    result: Any = None
    """What a job gives back: a template of any shape. Default: the output of the last node."""


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a workflow file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidied(WorkflowDocument.model_json_schema()),
        "title": "Holdfast workflow",
    }


def _tidied(schema: Any) -> Any:
    """Without what only pydantic says: titles made from names, and null for a key that may be left out."""
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
