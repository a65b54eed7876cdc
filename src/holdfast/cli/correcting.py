"""The flags that correct a job: other inputs, another workflow file, and whether stale work is kept."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.data_files import load_definition, read_inputs
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.errors import InvalidInput
from holdfast.operations.verbs import Correction, Stale, Verb

CORRECTING = (Verb.RESUME, Verb.RETRY, Verb.RERUN)


@dataclass(frozen=True, slots=True)
class TypedCorrection:
    """A correction as it was typed. The values of inputs are read when the workflow is known."""

    assignments: tuple[str, ...] = ()
    inputs_file: Path | None = None
    workflow_file: Path | None = None
    definition: Definition | None = None
    stale: Stale | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """The same flags again, for a command that does what was planned."""
        flags = [f"--input {shlex.quote(one)}" for one in self.assignments]
        flags += [f"--inputs {shlex.quote(str(self.inputs_file))}"] if self.inputs_file is not None else []
        flags += [f"--workflow {shlex.quote(str(self.workflow_file))}"] if self.workflow_file is not None else []
        return (*flags, *([f"--stale {self.stale}"] if self.stale is not None else []))

    async def read(self, client: Client, job_id: str) -> Correction:
        """The correction of this job."""
        definition = self.definition or (await client.job(job_id, whole=False)).definition
        inputs = read_inputs(definition, self.assignments, self.inputs_file, is_whole=False)
        return Correction(inputs, self.definition, self.stale)


def typed_correction(
    verb: Verb,
    assignments: Sequence[str],
    inputs_file: Path | None,
    workflow_file: Path | None,
    stale: str | None,
) -> TypedCorrection | None:
    """What was typed, with the workflow file read; None: nothing is corrected."""
    is_given = bool(assignments) or inputs_file is not None or workflow_file is not None
    if is_given and verb not in CORRECTING:
        raise InvalidInput(
            f"{verb} corrects nothing: it takes no --input, --inputs or --workflow.",
            remedy="Continue a job with a correction: holdfast resume JOB --input NAME=VALUE",
        )
    if not is_given and stale is not None:
        raise InvalidInput(
            "--stale says what a correction does with completed work, and nothing is corrected.",
            remedy="Correct something with --input, --inputs or --workflow, or leave --stale out.",
        )
    if not is_given:
        return None
    definition = load_definition(workflow_file) if workflow_file is not None else None
    chosen = Stale(stale) if stale is not None else None
    return TypedCorrection(tuple(assignments), inputs_file, workflow_file, definition, chosen)
