"""Every setting, typed, in one place; the only reader of the environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.environment import PREFIX, everything, variable
from holdfast.errors import Detail, InvalidInput
from holdfast.masking import keep_secret, keep_secrets_of

_CREDENTIAL = re.compile(r"(AWS|AZURE|GOOGLE)_\w*(KEY|TOKEN|SECRET|PASSWORD)|PGPASSWORD")
"""Variables in which object stores and Postgres look for secrets."""


class Settings(BaseModel):
    """Read from `HOLDFAST_…` variables; units stand in the names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database_url: str | None = None
    home: Path = Path(".holdfast")
    tenant: str = Field("default", min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    postgres_bin: Path | None = None
    lease_seconds: float = Field(10, gt=0, le=3600)
    renew_seconds: float = Field(3, gt=0, le=3600)
    owner_lease_seconds: float = Field(10, gt=0, le=3600)
    owner_renew_seconds: float = Field(3, gt=0, le=3600)
    owner_scan_seconds: float = Field(2, gt=0, le=3600)
    claim_batch: int = Field(100, ge=1, le=10_000)
    concurrency: int = Field(16, ge=1, le=10_000)
    grace_seconds: float = Field(30, ge=0, le=86_400)
    hang_seconds: float = Field(60, gt=0, le=86_400)
    poll_seconds: float = Field(5, gt=0, le=3600)
    lost_limit: int = Field(10, ge=0, le=1_000)
    crash_limit: int = Field(2, ge=1, le=100)
    payload_inline_bytes: int = Field(65_536, ge=0, le=1 << 30)
    payload_limit_bytes: int = Field(16 * 1024 * 1024, ge=1, le=1 << 30)
    storage_url: str | None = None
    retention_days: float | None = Field(None, gt=0, le=36_500)
    log_level: str = Field("warning", pattern="(?i)^(debug|info|warning|error|critical)$")
    log_format: str = Field("text", pattern="^(text|json)$")
    failpoint: str | None = None
    failpoint_once: Path | None = None


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment, with the given ones (None: not given) on top; bad ones are refused.

    Secrets that stand in the environment are masked from now on.
    """
    for name, text in everything().items():
        if _CREDENTIAL.fullmatch(name):
            keep_secret(text)
            keep_secrets_of(f"?{text}")
    try:
        settings = Settings(**_from_environment() | {k: v for k, v in overrides.items() if v is not None})
    except ValidationError as error:
        details = [
            Detail(f"{_variable(e['loc'])}: {e['msg']} (got {e['input']!r})", path=_variable(e["loc"]))
            for e in error.errors()
        ]
        raise InvalidInput(
            "The settings are not valid.",
            errors=details,
            remedy="Correct or unset the variables named above.",
        ) from None
    if settings.renew_seconds >= settings.lease_seconds:
        raise InvalidInput(
            f"HOLDFAST_RENEW_SECONDS ({settings.renew_seconds:g}) must be shorter than "
            f"HOLDFAST_LEASE_SECONDS ({settings.lease_seconds:g}).",
            remedy="Use about a third of the lease.",
        )
    if settings.owner_renew_seconds >= settings.owner_lease_seconds:
        raise InvalidInput(
            f"HOLDFAST_OWNER_RENEW_SECONDS ({settings.owner_renew_seconds:g}) must be shorter than "
            f"HOLDFAST_OWNER_LEASE_SECONDS ({settings.owner_lease_seconds:g}).",
            remedy="Use about a third of the lease.",
        )
    return settings


def _from_environment() -> dict[str, str]:
    """What is set; an empty variable says the same as none."""
    variables = {name: variable(name.upper()) for name in Settings.model_fields}
    return {name: text for name, text in variables.items() if text}


def _variable(location: tuple[int | str, ...]) -> str:
    return PREFIX + "_".join(str(part) for part in location).upper()
