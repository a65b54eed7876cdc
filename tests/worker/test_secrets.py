"""Where a worker looks for secrets, and what it says when it finds none."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from holdfast.worker import secrets
from holdfast.worker.secrets import VALUE_BYTES, NoSecret, SecretValues

pytestmark = pytest.mark.anyio
ASKED: list[tuple[str, str]] = []


def provide(tenant: str, name: str) -> str | None:
    """A provider of an installed package."""
    ASKED.append((tenant, name))
    if name == "BROKEN":
        raise ConnectionError("the vault is sealed")
    if name == "NUMBER":
        return 7  # type: ignore[return-value]
    return f"from the vault for {tenant}" if name == "VAULTED" else None


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("vault", f"{__name__}:provide", secrets.ENTRY_POINT_GROUP)
    monkeypatch.setattr(secrets, "entry_points", lambda group: [point] if group == point.group else [])
    secrets.providers.cache_clear()
    monkeypatch.setattr(secrets, "providers", secrets.providers.__wrapped__)
    ASKED.clear()


async def one(values: SecretValues, name: str, tenant: str = "default") -> str:
    return (await values.of(tenant, [name]))[name]


async def problem(values: SecretValues, name: str, tenant: str = "default") -> tuple[str, str]:
    with pytest.raises(NoSecret) as caught:
        await values.of(tenant, [name])
    return caught.value.code, str(caught.value)


async def test_a_variable_wins_over_a_file_and_a_file_over_a_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: None
) -> None:
    values = SecretValues(tmp_path)
    assert await one(values, "VAULTED") == "from the vault for default"
    (tmp_path / "VAULTED").write_text("in a file\n")
    assert await one(values, "VAULTED") == "in a file"
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "VAULTED").write_text("in the tenant's folder\r\n")
    assert await one(values, "VAULTED") == "in the tenant's folder"
    monkeypatch.setenv("HOLDFAST_SECRET_VAULTED", "in a variable")
    assert await one(values, "VAULTED") == "in a variable"
    monkeypatch.setenv("HOLDFAST_SECRET_DEFAULT__VAULTED", "with the tenant")
    assert await one(values, "VAULTED") == "with the tenant"


async def test_a_provider_is_asked_once_for_many_tasks_and_again_later(
    monkeypatch: pytest.MonkeyPatch, provider: None
) -> None:
    values = SecretValues(None)
    for _ in range(3):
        assert await one(values, "VAULTED", "acme") == "from the vault for acme"
    assert ASKED == [("acme", "VAULTED")]
    monkeypatch.setattr(secrets, "REMEMBERED_SECONDS", 0.0)
    await one(values, "VAULTED", "acme")
    assert len(ASKED) == 2


async def test_no_tenant_reads_the_secrets_of_another_through_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "KEY").write_text("beside the folder")
    (tmp_path / "files" / "acme").mkdir()
    (tmp_path / "files" / "acme" / "KEY").write_text("of acme")
    (tmp_path / "files" / "KEY").write_text("of default")
    monkeypatch.setenv("HOLDFAST_SECRET_A_B__KEY", "of a_b")
    monkeypatch.setenv("HOLDFAST_SECRET_OTHER", "of default")
    values = SecretValues(tmp_path / "files")
    assert await one(values, "KEY", "a_b") == "of a_b"
    for tenant in ("..", ".", "../files/acme", "acme/", "/", "ACME", "A_B", "a-b", "a__b", "", "x\0", "ä"):
        assert (await problem(values, "KEY", tenant))[0] == "SECRET_MISSING", tenant
    assert (await problem(values, "OTHER", "acme"))[0] == "SECRET_MISSING"
    # The file KEY is a secret of `default`, and no folder of a tenant of that name.
    assert (await problem(values, "X", "KEY"))[0] == "SECRET_MISSING"
    assert (await problem(values, "acme"))[0] == "SECRET_MISSING"


async def test_what_cannot_be_read_says_why(tmp_path: Path, provider: None) -> None:
    values = SecretValues(tmp_path)
    (tmp_path / "LARGE").write_bytes(b"x" * (VALUE_BYTES + 1))
    (tmp_path / "BINARY").write_bytes(b"\xff\xfe")
    (tmp_path / "EMPTY").write_bytes(b"\n")
    os.mkfifo(tmp_path / "PIPE")
    unreadable = "SECRET_UNREADABLE"
    large = "the secret LARGE cannot be read: its file has more than 65,536 bytes"
    assert await problem(values, "LARGE") == (unreadable, large)
    assert await problem(values, "BINARY") == (unreadable, "the secret BINARY cannot be read: its file is not UTF-8")
    assert await problem(values, "BROKEN") == (
        unreadable, "the secret BROKEN cannot be read: provider vault raised ConnectionError: the vault is sealed",
    )  # fmt: skip
    assert "returned int, not text" in (await problem(values, "NUMBER"))[1]
    for name in ("EMPTY", "PIPE"):
        assert (await problem(values, name))[0] == "SECRET_MISSING"


async def test_a_missing_secret_says_where_the_worker_has_looked(tmp_path: Path, provider: None) -> None:
    assert await problem(SecretValues(None), "KEY", "acme") == (
        "SECRET_MISSING",
        "this worker has no secret KEY for the tenant acme: it looked in the variable HOLDFAST_SECRET_ACME__KEY,"
        " in no folder, because HOLDFAST_SECRETS_DIR is not set, with the provider vault",
    )
    _, message = await problem(SecretValues(tmp_path), "KEY", "Two words")
    assert "it looked in HOLDFAST_SECRETS_DIR for Two words/KEY, with the provider vault" in message
