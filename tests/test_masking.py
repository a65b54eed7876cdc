"""Which parts of a text are masked as secrets, and that no secret is stored with a job."""

from __future__ import annotations

import base64
import json
import traceback
from urllib.parse import quote, quote_plus

import pytest

from holdfast.errors import Detail, InvalidInput
from holdfast.masking import (
    MASK,
    beginning,
    begun_before,
    json_without_task_secrets,
    keep_secret,
    keep_secrets_of,
    keep_task_secret,
    masked,
    unfinished,
    without_secrets,
    without_task_secrets,
)
from tests.conftest import eventually
from tests.running import registry, running

STORAGE = "http://somebody:S3cr3t-Wort@127.0.0.1:1/maps?sv=1&sig=S1gnature%2Babc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no luck at https://host:8080/a/b?page=2", "no luck at https://host:8080/a/b?page=2"),
        ("see me@example.org", "see me@example.org"),
        ("postgresql://u:S3cr3t/x@h:1/db", "postgresql://u:***@h:1/db"),
        ("'postgres://u:p%40ss@h/db' is down", "'postgres://u:***@h/db' is down"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("as postgresql://USER:PASSWORD@HOST/DB", "as postgresql://USER:PASSWORD@HOST/DB"),
        ("There is no file https:/u:p@host/x.yaml.", "There is no file https:/u:***@host/x.yaml."),
        ("There is no file postgresql:/u:p/q@host/x.yaml.", "There is no file postgresql:/u:***@host/x.yaml."),
        ("git clone https://ghp_token@github.com/a.git", "git clone https://***@github.com/a.git"),
        ("https://u:p@ss@host/x", "https://u:***@host/x"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("GET https://h/x?sv=1&sig=abc%3D&se=2 failed", "GET https://h/x?sv=1&sig=***&se=2 failed"),
        ("https://h/x?X-Amz-Signature=abc&X-Amz-Date=1", "https://h/x?X-Amz-Signature=***&X-Amz-Date=1"),
        ("https://h/x?access_token=abc", "https://h/x?access_token=***"),
    ],
)
def test_user_info_and_signatures_of_addresses_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_known_secret_is_masked_everywhere_and_similar_words_are_not() -> None:
    keep_secret("known/secret-1")
    keep_secret("kn0wn")
    keep_secret("carpenter", beside=["carpenter"])
    keep_secret("abc")
    assert masked("it was known/secret-1, known%2Fsecret-1") == "it was ***, ***"
    assert masked("kn0wn: unkn0wn, carpenter, abc, holdfast") == "***: unkn0wn, carpenter, abc, holdfast"
    assert without_secrets({"kn0wn": ["known/secret-1", 1]}) == {"kn0wn": ["***", 1]}, "keys should not change"
    address = {"link": "https://h/x?sig=abc"}
    assert without_secrets(address) == address, "an address in an output should stay usable"


def test_an_error_is_masked_in_every_form() -> None:
    detail = Detail(STORAGE, file=STORAGE, path=STORAGE, suggestion=STORAGE)
    problem = InvalidInput(f"{STORAGE} is no place", remedy=STORAGE, errors=[detail], instance=STORAGE)
    text = f"{problem} {problem.to_problem()} {''.join(traceback.format_exception(problem))}"
    assert "S3cr3t" not in text and "S1gnature" not in text


def test_masking_is_fast_on_texts_that_look_like_addresses() -> None:
    for piece in ("a.", "postgresql://u:", "http://", "?sig", "://u:"):
        masked(piece * 10_000)


@pytest.mark.anyio
async def test_no_secret_is_stored_with_a_job(database_url: str) -> None:
    keep_secrets_of(STORAGE)

    def tell() -> None:
        print("the log has S3cr3t-Wort")
        raise ValueError(f"no way to {STORAGE}")

    async with running(database_url, registry(tell=tell), storage_url=STORAGE, payload_inline_bytes=20) as engine:
        failing = await engine.submit("workflow_id: tells\nnodes: {a: {handler: tell, retry: {max_attempts: 1}}}")
        aside = await engine.submit(
            "workflow_id: aside\nnodes: {a: {handler: echo, params: {x: longer than what a row takes}}}"
        )

        async def is_aside() -> bool:
            return (await engine.status(aside))["reason"] is not None

        await eventually(is_aside)
        await engine.finished(failing)
        rows = await engine.query("select row_to_json(a)::text from attempts a")
        rows += await engine.query("select row_to_json(e)::text from events e")
        rows += await engine.query("select row_to_json(j)::text from jobs j")
        stored = " ".join(text for (text,) in rows)
        assert "http://somebody:***@127.0.0.1:1" in stored and "the log has ***" in stored
        assert "S3cr3t" not in stored and "S1gnature" not in stored


TOKEN = 'to"k/en+wörd\\ of a task\n?'


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
        repr(TOKEN)[1:-1],
        quote(TOKEN),
        quote(TOKEN, safe=""),
        quote_plus(TOKEN),
        base64.b64encode(TOKEN.encode()).decode(),
        base64.urlsafe_b64encode(TOKEN.encode()).decode(),
    ],
)
def test_a_secret_of_a_task_is_masked_in_every_form_in_which_programs_write_it(text: str) -> None:
    keep_task_secret(TOKEN)
    assert masked(f"it is {text}, really") == f"it is {MASK}, really"
    assert without_task_secrets({text: [text, 1, None, True]}) == {MASK: [MASK, 1, None, True]}
    assert json.loads(json_without_task_secrets(json.dumps({"a": f"<{text}>"}, ensure_ascii=False).encode())) == {
        "a": f"<{MASK}>"
    }


@pytest.mark.parametrize("before", ["", "a", "ab", "abc:"])
def test_a_secret_within_a_longer_text_is_masked_in_base64(before: str) -> None:
    keep_task_secret(TOKEN)
    shown = masked(base64.b64encode(f"{before}{TOKEN}:more".encode()).decode())
    assert MASK in shown and len(shown) < len(before) + 30
    plain = base64.b64encode(TOKEN.encode()).decode()
    assert not any(plain[start : start + 6] in shown for start in range(len(plain) - 6))


def test_digits_that_are_a_secret_are_masked_as_a_number_too() -> None:
    keep_task_secret("4711081501")
    assert json_without_task_secrets(b'{"pin":4711081501,"other":47.5}') == b'{"pin":"***","other":47.5}'


def test_a_short_secret_of_a_task_is_not_masked() -> None:
    keep_task_secret("sevenxx")
    assert masked("sevenxx") == "sevenxx"
    assert json_without_task_secrets(b'["sevenxx"]') == b'["sevenxx"]'


def test_a_secret_that_is_an_address_is_masked_whole() -> None:
    keep_task_secret("postgresql://app:pw@db.internal.example/x")
    assert masked("to postgresql://app:pw@db.internal.example/x!") == f"to {MASK}!"


def test_a_cut_leaves_no_half_of_a_secret() -> None:
    keep_task_secret("0123456789abcdef-whole")
    text = "before 0123456789abcdef-whole after"
    assert beginning(text, 12) == beginning(text, 28) == "before "
    assert beginning(text, 29) == text[:29]
    assert beginning(text, 100) == text
    assert unfinished("x 0123456789") == 10 and begun_before("ef-whole x") == 8
    assert unfinished("x 0123456789x") == begun_before("f-hole") == 0
