"""`holdfast init`: a small project that runs as it is."""

from __future__ import annotations

import os.path
import shlex
from importlib import resources
from pathlib import Path

from holdfast.cli.streams import answer, answer_json
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, InvalidInput, Refused

FILES = {
    "workflow.yaml": "workflow.yaml",
    "handlers.py": "handlers.py",
    "README.md": "README.md",
    "gitignore": ".gitignore",
}
RUN = "holdfast run workflow.yaml --handlers handlers"


def write_project(directory: Path, *, as_json: bool) -> int:
    """Write the files, or none of them if one is there already."""
    targets = {source: directory / name for source, name in FILES.items()}
    existing = [str(target) for target in targets.values() if os.path.lexists(target)]
    if existing:
        raise Refused(
            f"Nothing was written: {', '.join(existing)} {'is' if len(existing) == 1 else 'are'} there already.",
            remedy="Choose another directory.",
        )
    starter = resources.files("holdfast.cli.starter")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for source, target in targets.items():
            target.write_text(starter.joinpath(source).read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"The project cannot be written to {shown_name(directory)}: {error.strerror}.") from None
    here = directory.samefile(Path())
    command = RUN if here else f"cd {shlex.quote(str(directory))} && {RUN}"
    if as_json:
        files = [str(target) for target in targets.values()]
        answer_json({"directory": str(directory), "files": files, "next": command})
    else:
        for target in targets.values():
            answer(f"wrote {target}")
        answer(f"Now run it: {command}")
    return ExitCode.DONE
