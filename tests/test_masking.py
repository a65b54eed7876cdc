"""Which parts of a text are masked as secrets, and that no secret is stored with a job."""

from __future__ import annotations

import traceback

import pytest

from holdfast.errors import Detail, InvalidInput
from holdfast.masking import keep_secret, keep_secrets_of, masked, without_secrets
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
