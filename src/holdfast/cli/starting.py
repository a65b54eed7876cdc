"""`holdfast init`: a small project that runs as it is."""

from __future__ import annotations

import os.path
import shlex
from importlib import resources
from pathlib import Path

from holdfast.cli.streams import answer, answer_json
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.project_file import OWN_FILE

FILES = {
    "workflow.yaml": "workflow.yaml",
    "handlers.py": "handlers.py",
    OWN_FILE: OWN_FILE,
    "README.md": "README.md",
    "gitignore": ".gitignore",
}
RUN = "holdfast run workflow.yaml"


def write_project(directory: Path, *, as_json: bool) -> int:
    """Write the files, or none of them if one is there already."""
    _refuse_our_clone(directory)
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


def _refuse_our_clone(directory: Path) -> None:
    """Refuse a folder of Holdfast's own repository: a project there would show up among its files."""
    try:
        place = directory.resolve()
        clone = next((folder for folder in (place, *place.parents) if _is_our_clone(folder)), None)
    except OSError:
        # No directory can have that name; writing to it says so.
        return
    if clone is not None:
        project = shlex.quote(str(clone.parent / place.name)) if place != clone else "PATH"
        raise Refused(
            f"Nothing was written: {shown_name(directory)} lies in a clone of Holdfast, {shown_name(clone)}.",
            remedy=f"Make the project outside of it: holdfast init {project}",
        )


def _is_our_clone(folder: Path) -> bool:
    return (folder / "src/holdfast/cli/starter").is_dir() and (folder / "pyproject.toml").is_file()
