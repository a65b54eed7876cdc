"""Reads YAML as plain JSON data with places, and refuses all other features of YAML.

Works on the parser's events: no tag creates an object, no alias is followed, and scalars have the
meaning of YAML 1.2. Knows nothing of workflows.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.scanner import Scanner, ScannerError

from holdfast.define.source import MAX_PROBLEMS, Path, Place, Source, path_text
from holdfast.errors import Detail, cut

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 30_000
MAX_TAG_LENGTH = 1000

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_OLD_NUMBER = re.compile(r"[-+]?[0-9]+_[0-9_]*|[-+]?[0-9]+(:[0-5]?[0-9])+")
_OLD_BOOLEAN = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read_yaml(
    text: str,
    file: str | None = None,
    typed_keys: Callable[[Path], bool] = lambda path: False,
    has_key_on: Callable[[Path], bool] = lambda path: False,
) -> tuple[Source | None, list[Detail]]:
    """The data with its places, and all mistakes in the YAML.

    `typed_keys` says where keys may be booleans or numbers; they are read as text. `has_key_on` says which objects
    have a key `on`: older versions of YAML read that word as a boolean, but there nothing else can be meant.
    """
    reader = _Reader(file, typed_keys, has_key_on)
    problem = _unreadable(text, file)
    if problem is not None:
        return None, [problem]
    try:
        return reader.read(text), reader.problems
    except MarkedYAMLError as error:
        return None, [*reader.problems, _syntax_error(error, file)]
    except YAMLError as error:
        return None, [*reader.problems, Detail(f"This is not YAML: {error}.", file=file)]
    except _FatalError as error:
        return None, [*reader.problems, error.detail]


def _unreadable(text: str, file: str | None) -> Detail | None:
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return Detail(f"The file is larger than {MAX_BYTES // 1024} KiB.", file=file)
    # The reader of the file has removed a byte order mark; a second one is a mistake.
    bad = re.match("\ufeff", text) or re.search(
        "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text
    )
    if bad is None:
        return None
    line = text.count("\n", 0, bad.start()) + 1
    column = bad.start() - text.rfind("\n", 0, bad.start())
    message = f"The character U+{ord(bad[0]):04X} is not allowed."
    return Detail(message, file=file, line=line, column=column)


def _syntax_error(error: MarkedYAMLError, file: str | None) -> Detail:
    mark = error.problem_mark or error.context_mark
    what = cut(" ".join(part for part in (error.context, error.problem) if part).rstrip("."), 300)
    suggestion = None
    if "'\\t'" in what:
        suggestion = "Indent with spaces, never with tabs."
    elif "cannot start any token" in what or "values are not allowed here" in what:
        suggestion = "Put the value in quotes."
    return Detail(
        f"This is not YAML: {what}.",
        file=file,
        line=mark.line + 1 if mark else None,
        column=mark.column + 1 if mark else None,
        suggestion=suggestion,
    )


class _Scanner(Scanner):
    """Refuses long tags early: the library takes quadratic time, and no tags are allowed anyway."""

    def scan_tag(self) -> Any:
        if len(self.reader.prefix(MAX_TAG_LENGTH + 1).split(None, 1)[0]) > MAX_TAG_LENGTH:
            mark = self.reader.get_mark()
            raise ScannerError("while scanning a tag", mark, f"it is longer than {MAX_TAG_LENGTH:,} characters", mark)
        return super().scan_tag()


def _events(text: str, file: str | None) -> Iterator[Event]:
    """The parser's events. The parser raises OverflowError for an escape such as "\\U99999999"."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = _Scanner
    parser: Iterator[Event] = iter(yaml.parse(io.StringIO(text)))
    place = Place(1, 1)
    while True:
        try:
            event = next(parser)
        except StopIteration:
            return
        except (OverflowError, ValueError):
            message = "This is not YAML: a text here has an escape that is not a character."
            raise _FatalError(Detail(message, file=file, line=place.line, column=place.column)) from None
        place = _place(event)
        yield event


class _FatalError(Exception):
    def __init__(self, detail: Detail) -> None:
        super().__init__(detail.message)
        self.detail = detail


class _Reader:
    """Builds plain data from events. Continues after a mistake, so that all are found."""

    def __init__(
        self, file: str | None, typed_keys: Callable[[Path], bool], has_key_on: Callable[[Path], bool]
    ) -> None:
        self.source = Source(None, file)
        self.problems: list[Detail] = []
        self.typed_keys = typed_keys
        self.has_key_on = has_key_on

    def read(self, text: str) -> Source | None:
        events = _events(text, self.source.file)
        has_document = False
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if has_document:
                    self.complain(event, (), "The file contains more than one document.", "Remove the line '---'.")
                    return self.source
                if event.version is not None:
                    self.complain(event, (), "A %YAML directive is not allowed: files are YAML 1.2.")
            elif isinstance(event, NodeEvent):
                self.source.data = self.value(event, events, ())
                has_document = True
            elif isinstance(event, StreamEndEvent) and not has_document:
                self.problems.append(Detail("The file is empty.", file=self.source.file, line=1, column=1))
                return None
        return self.source

    def value(self, event: Event, events: Iterator[Event], path: Path) -> Any:
        self.source.values.setdefault(path, _place(event))
        if len(self.source.values) > MAX_VALUES:
            message = f"The file contains more than {MAX_VALUES:,} values."
            raise _FatalError(self.detail(event, path, message, "Pass large data as inputs."))
        if len(path) > MAX_DEPTH:
            message = f"This is nested more than {MAX_DEPTH} levels deep."
            raise _FatalError(self.detail(event, path[:8], message))
        if isinstance(event, AliasEvent):
            return self.complain(event, path, f"The alias '*{cut(str(event.anchor))}' is not allowed.", _WRITE_OUT)
        self.refuse_properties(event, path)
        if isinstance(event, ScalarEvent):
            return self.scalar(event, path)
        if isinstance(event, SequenceStartEvent):
            return self.sequence(events, path)
        return self.mapping(events, path)

    def refuse_properties(self, event: Event, path: Path) -> None:
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            self.complain(event, path, f"The anchor '&{cut(str(anchor))}' is not allowed.", _WRITE_OUT)
        if tag is not None:
            shown = str(tag).replace("tag:yaml.org,2002:", "!!")
            self.complain(event, path, f"The tag '{cut(shown)}' is not allowed.", "Write the plain value.")

    def sequence(self, events: Iterator[Event], path: Path) -> list[Any]:
        items: list[Any] = []
        for event in events:
            if isinstance(event, SequenceEndEvent):
                break
            items.append(self.value(event, events, (*path, len(items))))
        return items

    def mapping(self, events: Iterator[Event], path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for event in events:
            if isinstance(event, MappingEndEvent):
                break
            key = self.key(event, events, path)
            if key is not None and key in data:
                line = self.source.keys[(*path, key)].line
                message = f"The key '{cut(key)}' appears twice; the first is in line {line}."
                self.complain(event, (*path, key), message)
                key = None
            # The value of a bad key is read, to find more mistakes, but not kept.
            inner = (*path, key if key is not None else _NOWHERE)
            self.source.keys.setdefault(inner, _place(event))
            value = self.value(next(events), events, inner)
            if key is not None:
                data[key] = value
        return data

    def key(self, event: Event, events: Iterator[Event], path: Path) -> str | None:
        if not isinstance(event, ScalarEvent):
            self.complain(event, path, "A key must be plain text.", _QUOTE_TEMPLATE)
            faults = len(self.problems)
            self.value(event, events, (*path, _NOWHERE))
            del self.problems[faults:]
            return None
        self.refuse_properties(event, path)
        text = str(event.value)
        if event.style is not None or (text == "on" and self.has_key_on(path)):
            return self.text(event, text, path)
        if text == "<<":
            self.complain(event, path, "The merge key '<<' is not allowed.", _WRITE_OUT)
            return None
        value = _plain(text)
        if isinstance(value, _Ambiguous):
            self.complain(event, path, f"The key '{cut(text)}' is ambiguous in YAML.", _quoted(text))
        if isinstance(value, str | _Ambiguous):
            return self.text(event, text, path)
        if not self.typed_keys(path):
            self.complain(event, path, f"The key {cut(text) or 'null'} is not text.", _quoted(text))
        return text.lower() if isinstance(value, bool) else text

    def scalar(self, event: ScalarEvent, path: Path) -> Any:
        text = str(event.value)
        if event.style is not None:
            return self.text(event, text, path)
        value = _plain(text)
        if isinstance(value, _Ambiguous):
            return self.complain(event, path, value.message, value.suggestion)
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.source.numbers[path] = text
        return value

    def text(self, event: Event, text: str, path: Path) -> str:
        """Refuses characters that only escapes can produce."""
        if "\0" in text:
            self.complain(event, path, "The text contains a NUL character.")
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.complain(event, path, "The text contains half of a surrogate pair.")
            return ""

    def complain(self, event: Event, path: Path, message: str, suggestion: str | None = None) -> None:
        self.problems.append(self.detail(event, path, message, suggestion))
        if len(self.problems) > MAX_PROBLEMS:
            raise _FatalError(self.problems.pop())

    def detail(self, event: Event, path: Path, message: str, suggestion: str | None = None) -> Detail:
        place = _place(event)
        return Detail(
            message,
            file=self.source.file,
            line=place.line,
            column=place.column,
            path=None if _NOWHERE in path else path_text(path) or None,
            suggestion=suggestion,
        )


# A key that no valid file can have.
_NOWHERE = "\0"
_WRITE_OUT = "Write the value out where it is used."
_QUOTE_TEMPLATE = 'Put a template in quotes: "{{ … }}".'


def _quoted(text: str) -> str:
    return f"Put it in quotes: '{cut(text)}'."


class _Ambiguous:
    """A plain scalar that different versions of YAML read differently."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        self.message = message
        self.suggestion = suggestion


def _plain(text: str) -> Any:
    """The value of an unquoted scalar in YAML 1.2, or the reason why it is refused."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _OLD_BOOLEAN.fullmatch(text):
        meant = "true" if text.lower() in ("yes", "on") else "false"
        return _Ambiguous(
            f"'{text}' is ambiguous in YAML.",
            f"Write {meant} for the boolean, '{text}' in quotes for the text.",
        )
    if _LEADING_ZERO.fullmatch(text) or _OLD_NUMBER.fullmatch(text):
        return _Ambiguous(
            f"'{cut(text)}' is ambiguous in YAML.",
            f"Write '{cut(text)}' in quotes for the text, or a plain number.",
        )
    if _NOT_FINITE.fullmatch(text):
        return _Ambiguous(f"The number {text} is not finite.")
    if _INTEGER.fullmatch(text) or _BASED.fullmatch(text):
        number = int(text, 0) if len(text) < 100 else 1 << 64
        in_range = -(2**63) <= number < 2**63
        return number if in_range else _Ambiguous("The number does not fit into 64 bits.")
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else _Ambiguous(f"The number {cut(text)} is not finite.")
    return text


def _place(event: Event) -> Place:
    start, end = event.start_mark, event.end_mark
    quotes = 0 if getattr(event, "style", None) is None else 1
    is_literal = (
        isinstance(event, ScalarEvent)
        and start.line == end.line
        and end.column - start.column == len(event.value) + 2 * quotes
    )
    text_column = start.column + 1 + quotes if is_literal else None
    return Place(start.line + 1, start.column + 1, text_column)
