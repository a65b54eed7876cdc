"""The shape of a failure: one line, bounded, and a fingerprint that equal failures share."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.failing import MESSAGE_LIMIT, Failure, failure, fingerprint
from holdfast.errors import Code
from holdfast.remedies import Remedy


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("row 17 is bad", "row 2300 is bad"),
        ("took 1.5 s", "took 22.75 s"),
        ("no such file: /data/a/b.tif", "no such file: /mnt/other-place/x_1.tif"),
        ("key 'alpha' is missing", "key 'beta gamma' is missing"),
        ('value "x" is wrong', 'value "something else" is wrong'),
        ("object at 0x7fff12ab died", "object at 0xdeadbeef died"),
        (
            "job 0198c5a2-7d1e-7b32-9f10-0a1b2c3d4e5f is gone",
            "job 01aaaaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee is gone",
        ),
        ("connect to 10.0.0.1:5432 failed", "connect to 192.168.17.254:6543 failed"),
        ("Timeout of 5 s", "timeout of 10 s"),
        ("can't read 'one'", "can't read 'two'"),
        ("it didn't find '/a/b'", "it didn't find '/c'"),
    ],
)
def test_failures_that_differ_only_in_ids_numbers_paths_and_quotes_are_alike(one: str, other: str) -> None:
    assert fingerprint("HANDLER_ERROR", one) == fingerprint("HANDLER_ERROR", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("HANDLER_ERROR", "disk full", ""), ("HANDLER_ERROR", "disk slow", "")),
        (("HANDLER_ERROR", "disk full", ""), ("TIMEOUT", "disk full", "")),
        (("HANDLER_ERROR", "disk full", "a"), ("HANDLER_ERROR", "disk full", "b")),
    ],
)
def test_failures_of_another_kind_code_or_handler_are_not_alike(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert fingerprint(*one) != fingerprint(*other)


@given(st.integers(min_value=0), st.integers(min_value=0))
def test_no_number_makes_a_difference(one: int, other: int) -> None:
    assert fingerprint("E", f"item {one} of {other} failed") == fingerprint("E", "item 1 of 2 failed")


@given(st.text())
def test_a_message_is_always_one_line_of_limited_length(message: str) -> None:
    error = failure("HANDLER_ERROR", message, permanent=False, at=1.0)
    assert error.message
    assert len(error.message) <= MESSAGE_LIMIT
    assert len(error.message.splitlines()) == 1
    assert len(error.fingerprint) == 16


def test_lines_and_spaces_are_folded_and_the_rest_is_cut() -> None:
    error = failure("E", "  first\n\tsecond \r\n third " + "x" * 10_000, permanent=False, at=1.0)
    assert error.message.startswith("first second third xxx")
    assert len(error.message) == MESSAGE_LIMIT
    assert error.message.endswith("xxx… (cut off)")


@pytest.mark.parametrize("message", ["", " \n\t "])
def test_an_empty_message_says_so(message: str) -> None:
    assert failure("E", message, permanent=False, at=1.0).message == "no message"


def test_a_failure_carries_its_place_its_class_and_its_time() -> None:
    error = failure("E", "m", permanent=True, at=3.5, node="n", item=4, attempt=2, handler="h", hint=Remedy("look"))
    assert list(error.to_json().items()) == list({
        "code": "E", "class": "permanent", "message": "m", "fingerprint": fingerprint("E", "m", "h"), "node": "n",
        "index": 4, "attempt": 2, "at": 3.5, "hint": "look",
    }.items())  # fmt: skip


def test_a_nodes_own_task_has_no_index() -> None:
    assert failure("E", "m", permanent=False, at=0.0, node="n", item=-1).index is None
    assert failure("E", "m", permanent=False, at=0.0, node="n", item=0).index == 0


@pytest.mark.parametrize("code", [Code.TEMPLATE_ERROR, Code.CONTRACT_VIOLATION, Code.LEASE_LOST, Code.QUARANTINED])
def test_known_codes_come_with_a_hint(code: Code) -> None:
    assert failure(code, "m", permanent=True, at=0.0).hint
    assert failure(code, "m", permanent=True, at=0.0, hint=Remedy("mine")).hint == "mine"


def test_only_the_class_makes_a_failure_permanent() -> None:
    assert failure("E", "m", permanent=True, at=0.0).is_permanent
    assert not failure("E", "m", permanent=False, at=0.0).is_permanent
    assert not Failure.from_json({"code": "E"}).is_permanent


STORED = {
    "code": "E", "class": "permanent", "message": "m", "fingerprint": "f00d", "node": "n", "index": 4, "attempt": 2,
    "at": 3.5, "hint": "look",
}  # fmt: skip
REMEDY = {"text": "look", "verb": "events", "job": "j", "node": None, "flags": ["--follow"]}


@pytest.mark.parametrize(
    "stored",
    [
        STORED,
        STORED | {"remedy": REMEDY},
        STORED | {"remedy": REMEDY | {"key": "of a later version"}},
        STORED | {"class": "of a later version"},
        STORED | {"key": {"of": ["a later version"]}, "another": None},
    ],
)
def test_what_any_version_has_stored_comes_back_unchanged(stored: dict[str, Any]) -> None:
    assert orjson.loads(orjson.dumps(Failure.from_json(stored).to_json())) == stored


def test_a_class_of_a_later_version_counts_as_transient() -> None:
    assert not Failure.from_json(STORED | {"class": "of a later version"}).is_permanent


def test_a_failure_without_most_of_its_keys_can_be_read() -> None:
    error = Failure.from_json({"code": "E"})
    assert (error.code, error.message, error.node, error.at, error.next_step) == ("E", "", None, None, None)


def test_the_next_step_is_the_remedy_or_else_the_hint() -> None:
    remedy = Remedy("look", "events", "j", flags=("--follow",))
    assert Failure.from_json(STORED | {"remedy": REMEDY}).next_step == remedy
    assert Failure.from_json(STORED).next_step == Remedy("look")
    assert Failure.from_json(STORED | {"remedy": REMEDY | {"key": 1}}).next_step == Remedy("look")


def test_a_failure_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        failure("E", "m", permanent=True, at=0.0).code = "F"  # type: ignore[misc]


def test_a_message_with_a_lone_surrogate_has_a_fingerprint() -> None:
    assert fingerprint("E", "bad \ud800 text")


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        (
            "[Errno 2] No such file or directory: '/srv/app/data/x.tif'",
            "[Errno 2] No such file or directory: '…/x.tif'",
        ),
        ("see https://host/a/b and application/pdf, 3/4/5", "see https://host/a/b and application/pdf, 3/4/5"),
        ("~/keys/one.pem and C:\\Users\\me\\two.txt", "…/one.pem and …/two.txt"),
        ("in /var/lib/app/: gone", "in …/: gone"),
    ],
)
def test_a_message_hides_the_folders_of_a_server(message: str, seen: str) -> None:
    assert failure("E", message, permanent=False, at=0.0).message == seen
