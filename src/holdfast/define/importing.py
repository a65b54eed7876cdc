"""Imports modules of users, by name or by file, and says in one sentence why one cannot be imported."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from holdfast.define.named_file import shown_name
from holdfast.errors import HoldfastError, InvalidInput

PYTHON_SUFFIX = ".py"


def import_named(name: str, folder: Path) -> ModuleType:
    """A module that Python can import from the folder, or the Python file of that name there."""
    if name.endswith(PYTHON_SUFFIX):
        return import_file(folder / name)
    add_to_path(folder)
    return _imported(name, f"The handlers module '{name}'", folder)


def import_file(path: Path) -> ModuleType:
    """The module in a Python file. Its folder can be imported from, or the folder around its package."""
    file, shown = path.resolve(), _shown(path)
    if not file.is_file():
        raise InvalidInput(f"There is no file {shown}.", instance=shown)
    folder, names = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        folder, names = folder.parent, [folder.name, *names]
    name = ".".join(names)
    add_to_path(folder)
    module = _imported(name, f"The file {shown}", folder)
    other = getattr(module, "__file__", None)
    if other is None or Path(other).resolve() != file:
        where = _shown(Path(other)) if other is not None else "Python itself"
        raise InvalidInput(
            f"The file {shown} cannot be imported: {where} has the module name '{name}' already.",
            remedy="Give the file another name.",
        )
    return module


def add_to_path(folder: Path) -> None:
    """Let Python import modules of the folder."""
    text = str(folder)
    if text not in sys.path:
        sys.path.insert(0, text)


def _imported(name: str, what: str, folder: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        # A module of the user may raise anything while it is imported.
        raise _problem(error, name, what, folder) from error


def _problem(error: BaseException, name: str, what: str, folder: Path) -> InvalidInput:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and (name == missing or name.startswith(f"{missing}.")):
        return InvalidInput(
            f"{what} cannot be imported: there is no module '{missing}' in {shown_name(folder)}"
            " or among the installed packages.",
            remedy="Check the name, and the folder in which you run this command.",
        )
    file, line = _place(error)
    reason = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    where = f"{_shown(file)}, line {line}: " if file is not None else ""
    if isinstance(error, HoldfastError):
        # The user's code called us, and we refused.
        reason, remedy = str(error), error.remedy or "Correct the module."
    elif missing is not None:
        remedy = f"Install the package that has '{missing}' into the environment of this command."
    elif isinstance(error, SyntaxError) and file is not None:
        remedy = f"Correct {_shown(file)}. If it is a YAML file, its name must end with .yaml."
    else:
        remedy = f"Correct {_shown(file)}." if file is not None else "Correct the module."
    return InvalidInput(f"{what} cannot be imported: {where}{' '.join(reason.split())}", remedy=remedy)


def _place(error: BaseException) -> tuple[Path | None, int | None]:
    """The file and the line of an error at import: the last line of the user's own code that ran, not of a library."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return Path(error.filename), error.lineno
    frames = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    frames = [(file, line) for file, line in frames if file != Path(__file__) and file.is_file()]
    libraries = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    libraries.append(Path(__file__).parents[1])
    own = [(file, line) for file, line in frames if not any(file.is_relative_to(one) for one in libraries)]
    return (own or frames)[-1] if frames else (None, None)


def _shown(path: Path) -> str:
    """The path as people type it: relative to the working directory if it lies there."""
    here = Path.cwd()
    return shown_name(path.relative_to(here) if path.is_relative_to(here) else path)
