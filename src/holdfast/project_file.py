"""The file that describes a project: `holdfast.toml`, or `[tool.holdfast]` in `pyproject.toml`.

Finds it, and checks keys and types. What the values mean is said in settings.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from holdfast.define.named_file import read_named_file, shown_name
from holdfast.define.source import did_you_mean
from holdfast.errors import Detail, InvalidInput
from holdfast.masking import keep_secret

OWN_FILE, SHARED_FILE = "holdfast.toml", "pyproject.toml"
TABLE = ("tool", "holdfast")
LISTS, TEXTS, NUMBERS = ("handlers", "queues"), ("database_url", "home", "tenant"), ("concurrency",)
KEYS = (*LISTS, *TEXTS, *NUMBERS)
MAX_BYTES = 1 << 20
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"(\s*)([\w.\"'-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=")
_SYNTAX_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A project file with its values, and the line and the column of each key."""

    path: Path
    values: dict[str, Any]
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.path.parent

    def detail(self, key: str, message: str, suggestion: str | None = None) -> Detail:
        line, column = self.places.get(key, (None, None))
        return Detail(message, file=shown_name(self.path), line=line, column=column, path=key, suggestion=suggestion)


def find_project_file() -> ProjectFile | None:
    """The nearest project file, from the working directory upwards; refused if it is not valid."""
    try:
        here = Path.cwd()
        owners = {here.stat().st_uid, os.geteuid(), 0}
    except OSError:
        return None
    for folder in (here, *here.parents):
        for name in (OWN_FILE, SHARED_FILE):
            path = folder / name
            # In a folder like /tmp, another user could leave a file that names modules to import.
            if folder != here and not _belongs_to(path, owners):
                continue
            project = _read(path)
            if project is not None:
                _check(project)
                return project
    return None


def _belongs_to(path: Path, owners: set[int]) -> bool:
    try:
        return path.stat().st_uid in owners
    except OSError:
        return False


def _read(path: Path) -> ProjectFile | None:
    """The project file at the path; None if there is none, or none of ours."""
    is_shared = path.name == SHARED_FILE
    try:
        content = read_named_file(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if is_shared:
            return None
        raise InvalidInput(f"The project file {shown_name(path)} cannot be read: {error.strerror}.") from None
    if is_shared and b"holdfast" not in content:
        return None
    text = content.decode("utf-8", "replace")
    data = _parsed(text, path)
    places = dict(_places(text, TABLE if is_shared else ()))
    if not is_shared:
        return ProjectFile(path, data, places)
    tools = data.get(TABLE[0])
    values = tools.get(TABLE[1]) if isinstance(tools, dict) else None
    return ProjectFile(path, values, places) if isinstance(values, dict) else None


def _parsed(text: str, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if path.name == SHARED_FILE and not re.search(r"tool\s*\.\s*holdfast", text):
            return {}
        match = _SYNTAX_PLACE.fullmatch(str(error))
        message, line, column = match.groups() if match is not None else (str(error), None, None)
        detail = Detail(
            f"This is not TOML: {message}.",
            file=shown_name(path),
            line=int(line) if line is not None else None,
            column=int(column) if column is not None else None,
        )
        raise InvalidInput(f"The project file {shown_name(path)} cannot be read.", errors=[detail]) from None


def _places(text: str, table: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The line and the column of each key of the table. The parser of the standard library does not say them."""
    current: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            current = _names(header[1])
            continue
        key = _KEY.match(line)
        if key is None:
            continue
        names = (*current, *_names(key[2]))
        if names[: len(table)] == table and len(names) > len(table):
            yield names[len(table)], (number, len(key[1]) + 1)


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))


def _check(project: ProjectFile) -> None:
    problems = [problem for key, value in project.values.items() if (problem := _problem(project, key, value))]
    if problems:
        raise InvalidInput(
            f"The project file {shown_name(project.path)} is not valid.",
            errors=problems,
            remedy=f"The keys are {', '.join(KEYS)}." if any(one.path not in KEYS for one in problems) else None,
        )
    url = project.values.get("database_url")
    if url is not None and (password := _password(url)):
        keep_secret(password)
        raise InvalidInput(
            f"The project file {shown_name(project.path)} contains a password, which others can read.",
            errors=[project.detail("database_url", "'database_url' must not contain a password.")],
            remedy="Put the whole URL into the variable HOLDFAST_DATABASE_URL, or the password into ~/.pgpass.",
        )


def _problem(project: ProjectFile, key: str, value: Any) -> Detail | None:
    if key not in KEYS:
        return project.detail(key, f"There is no key '{key}'.", did_you_mean(key, KEYS))
    if key in LISTS:
        is_valid, expected = isinstance(value, list) and all(_is_text(one) for one in value), "a list of strings"
    elif key in TEXTS:
        is_valid, expected = _is_text(value), "a string"
    else:
        is_valid, expected = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    return None if is_valid else project.detail(key, f"'{key}' must be {expected}.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _password(url: str) -> str | None:
    """The password in a URL or in a text of the form `host=… password=…`."""
    if "://" not in url:
        match = re.search(r"\bpassword\s*=\s*('[^']*'|\S+)", url)
        return match[1].strip("'") if match is not None else None
    try:
        parts = urlsplit(url)
        return parts.password or dict(parse_qsl(parts.query)).get("password")
    except ValueError:
        # Not a URL; the connection says so.
        return None
