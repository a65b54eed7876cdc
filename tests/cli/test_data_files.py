"""What is given by standard input has no ending that says what it is."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.data_files import read_data
from holdfast.define.yaml import MAX_BYTES
from holdfast.errors import InvalidInput

LARGE = {"text": "x" * MAX_BYTES}


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> Any:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
    return read_data(Path("-"), "inputs file")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": 1.50, "no": [null]}', {"a": 1.5, "no": [None]}),
        ("\ufeff" + '{"a": 1}', {"a": 1}),
        (json.dumps(LARGE), LARGE),
        ("a: b\nc: [1, 2]\n", {"a": "b", "c": [1, 2]}),
        ("\ufeffa: b", {"a": "b"}),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_standard_input_is_json_if_it_can_be_read_as_json_and_yaml_otherwise(
    monkeypatch: pytest.MonkeyPatch, text: str, read: Any
) -> None:
    assert given(monkeypatch, text) == read


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ('{"' + "a" * 5000 + '": 1, "' + "a" * 5000 + '": 2}', "a…' appears twice"),
        (json.dumps(LARGE)[:-1], "is not JSON"),
        ("\ufeff\ufeffa: b", "cannot be read"),
        ("a: no", "cannot be read"),
    ],
)
def test_what_is_refused_in_a_file_is_refused_in_standard_input(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem) as refusal:
        given(monkeypatch, text)
    assert len(str(refusal.value)) < 400
