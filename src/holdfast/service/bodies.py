"""What requests bring: bodies with their rules. Unknown fields are refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from holdfast.define.notify import LONGEST_ADDRESS, MAX_NOTIFY_RULES, NotifyEvent
from holdfast.define.source import DefinitionText
from holdfast.errors import Detail, InvalidInput
from holdfast.operations.batches import LONGEST_BATCH
from holdfast.operations.verbs import Correction, Stale, Verb, VerbRequest

REASON_LENGTH = 2000
MOST_PAIRS = 10_000
MOST_DETAILS = 20
"""How many places a problem names. A body may have hundreds of thousands of wrong fields."""


def _written(value: Any) -> Any:
    """Only a text: a number would be taken for seconds since 1970, which is never meant."""
    if value is not None and (not isinstance(value, str) or value.lstrip("+-").replace(".", "").isdecimal()):
        raise ValueError("a time is a text such as 2026-03-01T12:00:00Z")
    return value


def _few(value: Any) -> Any:
    """Looked at before the pairs themselves: each wrong one would be named."""
    if isinstance(value, dict) and len(value) > MOST_PAIRS:
        raise PydanticCustomError("too_many_pairs", f"There are more than {MOST_PAIRS:,} pairs")
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time is in the years 1 to 9999, in UTC") from None


Moment = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_in_utc), Field(strict=False)]
"""A time of a body or a query, with its zone."""
Pairs = Annotated[dict[str, str], BeforeValidator(_few)]
"""Names and values. How many there may be is checked with the submission."""


def details_of(errors: Sequence[Any], *place: str) -> list[Detail]:
    """The first few things that are wrong with a request, each with its place."""
    shown = [
        Detail(_sentence(one["msg"]), path=".".join([*place, *map(str, one["loc"])])) for one in errors[:MOST_DETAILS]
    ]
    left = len(errors) - len(shown)
    return [*shown, Detail(f"There are {left:,} more.")] if left else shown


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _empty(kind: type, **rules: Any) -> Any:
    """A field without values, if none are given. Of a default that is no factory each body would get a deep copy."""
    return Field(default_factory=kind, json_schema_extra={"default": kind()}, **rules)


class Body(BaseModel):
    """What all bodies have in common."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Source(Body):
    """The text from which a definition was read."""

    kind: Literal["yaml", "json", "python"]
    content: str
    name: str | None = Field(None, max_length=200, pattern=r"^[^/\\\x00-\x1f]+$")
    """The name of the file, for messages."""

    @property
    def text(self) -> DefinitionText:
        return DefinitionText(self.kind, self.content, self.name)


class Receiver(Body):
    """Who gets which events: an e-mail address, or a webhook of the tenant."""

    model_config = ConfigDict(json_schema_extra={"example": {"on": ["partial", "failed"], "email": "ops@example.org"}})
    on: list[str] = Field(min_length=1, max_length=len(NotifyEvent))
    """The events: `partial`, `failed`, `node_failed` and others."""
    email: str | None = Field(None, max_length=LONGEST_ADDRESS)
    """The address that gets a mail."""
    webhook: str | None = Field(None, max_length=100)
    """The name of a webhook."""

    def rule(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class Submit(Body):
    """A submission: the id of a known workflow, or a whole definition."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"workflow": "flood", "inputs": {"region": "CIV"}, "labels": {"team": "maps"}}}
    )
    workflow: str | None = Field(None, max_length=200)
    """The id of a workflow that is registered."""
    definition: dict[str, Any] | None = None
    """A workflow definition, as in a workflow file, instead of `workflow`."""
    source: Source | None = None
    """The text of the definition, which is kept as it is. That of YAML or JSON stands for the definition itself; beside
    that of a Python file, give the `definition`, too."""
    definition_hash: str | None = Field(None, max_length=64)
    """With `workflow`: the hash of another of its versions than the current one."""
    inputs: dict[str, Any] = _empty(dict)
    """The inputs of the workflow, by name."""
    key: str | None = Field(None, min_length=1, max_length=500)
    """Name of this submission: for one workflow, the same key is the same job. The header `Idempotency-Key` is another
    way to say it."""
    priority: int = Field(0, ge=-1000, le=1000)
    """Tasks of jobs with a higher number run first."""
    labels: Pairs = _empty(dict)
    """Names and values of yours; jobs are found by them."""
    correlation_id: str | None = None
    """What you call the things of one cause; jobs are found by it."""
    external_ids: Pairs = _empty(dict)
    """The ids that other systems have for this job, by namespace; jobs are found by them."""
    callback_url: str | None = None
    """Where you want to be called back when the job has ended. It is stored with the job."""
    notify: list[Receiver] = _empty(list, max_length=MAX_NOTIFY_RULES)
    """Receivers of the job's events, beside those that its workflow names."""
    resume: bool = False
    """If the same submission has failed before, continue that job."""
    force: bool = False
    """Make a new job even if the same submission has made one."""
    like: str | None = None
    """The id of a job whose inputs are used where `inputs` has none."""
    refuse_changed: bool = False
    """Refuse a submission whose job has ended and was made by another definition."""

    @property
    def brings_definition(self) -> bool:
        return self.definition is not None or self.source is not None


class Batch(Body):
    """Many submissions at once."""

    model_config = ConfigDict(json_schema_extra={"example": {"jobs": [{"workflow": "flood", "key": "order-4711"}]}})
    jobs: list[dict[str, Any]] = Field(min_length=1, max_length=LONGEST_BATCH)
    """What `POST /jobs` takes, for each job."""


class Reasoned(Body):
    """What every change of a job may bring."""

    reason: str = Field("", max_length=REASON_LENGTH)
    """Why; it is stored with the job."""
    confirm: bool = False
    """Do it although it needs to be confirmed."""
    plan_id: str | None = Field(None, max_length=64)
    """Do exactly this plan, or nothing."""

    @property
    def brings_definition(self) -> bool:
        return False

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(verb, plan_id=self.plan_id)


class Corrected(Reasoned):
    """A verb that may correct a job that has ended."""

    inputs: dict[str, Any] | None = None
    """Inputs that differ; the others stay."""
    definition: dict[str, Any] | None = None
    """The corrected definition of the workflow."""
    source: Source | None = None
    """The text of that definition, as in a submission."""
    stale: Literal["keep", "rerun"] | None = None
    """Whether completed work that the corrected job would do in another way is kept or runs again."""

    @property
    def brings_definition(self) -> bool:
        return self.definition is not None or self.source is not None

    @property
    def correction(self) -> Correction | None:
        from holdfast.service.definitions import definition_from, definition_of

        if self.inputs is None and self.definition is None and self.source is None:
            if self.stale is not None:
                raise InvalidInput("`stale` is about a correction: give `inputs` or a `definition`, too.")
            return None
        definition = definition_of(self.definition) if self.definition is not None else None
        if self.source is not None:
            definition = definition_from(self.source.text, self.definition)
        return Correction(self.inputs or {}, definition, Stale(self.stale) if self.stale is not None else None)


class Correcting(Corrected):
    """A verb whose node stands in the address."""


class Resume(Corrected):
    """Continuing a job that has ended."""

    tolerated: bool = False
    """Also run tolerated failures of completed nodes again."""

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(verb, plan_id=self.plan_id, tolerated=self.tolerated, correction=self.correction)


class Retry(Corrected):
    """Running a node again."""

    node: str = Field(max_length=200)
    """The name of a node, or the number of its stage."""
    only: bool = False
    """Leave what follows the node as it is."""

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(verb, self.node, only=self.only, plan_id=self.plan_id, correction=self.correction)


class Clear(Reasoned):
    """Running some tasks of a node again."""

    node: str = Field(max_length=200)
    """The name of a node, or the number of its stage."""
    items: list[int] = Field([], max_length=100_000)
    """Only these items."""
    code: str | None = Field(None, max_length=64)
    """Only tasks with this code."""
    fingerprint: str | None = Field(None, max_length=64)
    """Only tasks that failed in this way."""
    only: bool = False
    """Leave what follows the node as it is."""
    params: dict[str, Any] | None = None
    """What the one task that `items` names is given from now on."""

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(
            verb,
            self.node,
            tuple(self.items),
            self.code,
            self.fingerprint,
            self.only,
            self.plan_id,
            params=self.params,
        )


class Skip(Reasoned):
    """Leaving out a node."""

    node: str = Field(max_length=200)
    """The name of a node, or the number of its stage."""

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(verb, self.node, plan_id=self.plan_id)


class Set(Skip):
    """The result of a node, given by hand."""

    output: Any
    """The result of the node."""

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(verb, self.node, plan_id=self.plan_id, output=self.output)


class Undo(Reasoned):
    """Undoing what a job has completed."""

    node: str | None = Field(None, max_length=200)
    """Undo only this node, and what follows it."""

    def request(self, verb: Verb) -> VerbRequest:
        return VerbRequest(verb, self.node, plan_id=self.plan_id)


BODIES: dict[Verb, type[Reasoned]] = {
    Verb.CANCEL: Reasoned,
    Verb.PAUSE: Reasoned,
    Verb.UNPAUSE: Reasoned,
    Verb.RESUME: Resume,
    Verb.RETRY: Retry,
    Verb.CLEAR: Clear,
    Verb.RERUN: Retry,
    Verb.SKIP: Skip,
    Verb.SET: Set,
    Verb.UNDO: Undo,
}
"""What each verb takes."""


class PlanOf(BaseModel):
    """A verb with its arguments, as its own route takes them."""

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)
    verb: Literal["cancel", "pause", "unpause", "resume", "retry", "clear", "rerun", "skip", "set", "undo"]
    """What would be done. Its arguments stand beside it."""


class Because(Body):
    """A change of something that is not a job."""

    reason: str = Field("", max_length=REASON_LENGTH)
    """Why; it is stored."""
