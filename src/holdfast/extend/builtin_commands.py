"""The direct commands of every installation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field, model_validator

from holdfast.client_commands import CommandContext
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.define.source import DefinitionText
from holdfast.operations.commands import command


class RegisterInput(BaseModel):
    """A workflow: its text, or the document that the text stands for."""

    source: str | None = Field(None, description="The text of a workflow file, in YAML.")
    definition: dict[str, Any] | None = Field(None, description="The same document as JSON.")

    @model_validator(mode="after")
    def _has_one(self) -> RegisterInput:
        if (self.source is None) == (self.definition is None):
            raise ValueError("Give either 'source' or 'definition'")
        return self


class Registered(BaseModel):
    """The current definition of a workflow id."""

    workflow_id: str
    version: str
    definition_hash: str
    answer: str = Field(description="`registered`, or `already_current`.")


class PruneInput(BaseModel):
    """Which finished jobs are deleted."""

    older_than_days: Annotated[float, Field(gt=0, le=36_500)] = Field(description="How long ago they finished.")
    statuses: list[Literal["completed", "partial", "failed", "cancelled"]] = Field(
        default=[], description="Only these; none: all finished jobs."
    )
    dry_run: bool = Field(False, description="Delete nothing, and say what would be deleted.")


class PruneOutput(BaseModel):
    """What is gone, or would be."""

    dry_run: bool
    jobs: int
    tasks: int
    bytes: int = Field(description="Of payloads.")


@command("workflow.register", input=RegisterInput, output=Registered, scope="submit", is_audited=True)
async def register(given: RegisterInput, context: CommandContext) -> Any:
    """Make a definition the one that its workflow id stands for, without a job."""
    # A large one takes up to a second: the process answers others meanwhile.
    return await context.client.register(await asyncio.to_thread(_definition, given))


def _definition(given: RegisterInput) -> Definition:
    if given.source is not None:
        return load_text(given.source)
    # JSON is YAML, too: one reader finds all mistakes.
    text = orjson.dumps(given.definition, option=orjson.OPT_INDENT_2).decode()
    return replace(load_text(text, "definition"), text=DefinitionText("json", text))


@command("job.prune", input=PruneInput, output=PruneOutput, scope="admin", is_audited=True)
async def prune(given: PruneInput, context: CommandContext) -> Any:
    """Delete the jobs of all tenants that finished that long ago. For administrators of the installation."""
    seconds = given.older_than_days * 86_400
    return await context.client.prune(seconds, statuses=list(given.statuses), dry_run=given.dry_run)
