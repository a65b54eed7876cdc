"""Every setting, typed, in one place; the only reader of the environment.

A flag wins over a variable, a variable over the project file, and the project file over the default.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from holdfast.define.named_file import shown_name
from holdfast.environment import PREFIX, SECRET, everything, variable
from holdfast.errors import Detail, InvalidInput
from holdfast.masking import MASK, keep_secret, keep_secrets_of, keep_task_secret
from holdfast.project_file import LISTS, ProjectFile, find_project_file

SEPARATED = (*LISTS, "trusted_proxies", "cors_origins", "outgoing_allow")
"""Settings of several values, which a variable separates by commas."""
_CREDENTIAL = re.compile(r"(AWS|AZURE|GOOGLE)_\w*(KEY|TOKEN|SECRET|PASSWORD)|PGPASSWORD")
"""Variables in which object stores and Postgres look for secrets."""
_SAFE_URL = r"^(https://[^\s/?#@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)(/[^\s?#]*)?$"
"""TLS, or this machine."""
_HOST = r"(?=.*[A-Za-z])[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?"
_ORIGIN = r"^https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d+)?$"
"""As browsers send it: no path, no wildcard."""


def _network(text: str) -> str:
    """An address, or a network like 10.0.0.0/8. A star would let everybody choose an address."""
    try:
        ip_network(text)
    except ValueError:
        raise ValueError("an address of a proxy is like 10.0.0.7, a network like 10.0.0.0/8") from None
    return text


def _place(text: str) -> str:
    """A name of a host, an address, or a network like 10.0.0.0/8."""
    try:
        ip_network(text)
    except ValueError:
        if not re.fullmatch(_HOST, text):
            raise ValueError("it is a host like hooks.internal, an address, or a network like 10.0.0.0/8") from None
    return text


class Settings(BaseModel):
    """Read from `HOLDFAST_…` variables and the project file; units stand in the names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    _project: ProjectFile | None = PrivateAttr(None)
    _from_project: frozenset[str] = PrivateAttr(frozenset())
    handlers: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    database_url: str | None = None
    url: str | None = None
    api_key: str | None = Field(None, repr=False)
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
    requeue_limit: int = Field(5, ge=0, le=1_000)
    payload_inline_bytes: int = Field(65_536, ge=0, le=1 << 30)
    payload_limit_bytes: int = Field(16 * 1024 * 1024, ge=1, le=1 << 30)
    storage_url: str | None = None
    secrets_dir: Path | None = None
    retention_days: float | None = Field(None, gt=0, le=36_500)
    audit_days: float = Field(365, gt=0, le=36_500)
    stats_days: float = Field(90, gt=0, le=36_500)
    api: bool = True
    host: str = Field("127.0.0.1", min_length=1, max_length=253)
    port: int = Field(8321, ge=0, le=65_535)
    traces_url: str | None = Field(None, pattern=r"^https?://[^\s]+$")
    metrics_host: str = Field("127.0.0.1", min_length=1, max_length=253)
    metrics_port: int | None = Field(None, ge=0, le=65_535)
    public_url: str | None = Field(None, pattern=r"^https?://[^\s]+$")
    root_path: str = Field("", pattern=r"^(/[^\s/]+)*$")
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    cors_origins: tuple[Annotated[str, Field(pattern=_ORIGIN)], ...] = ()
    oidc_issuer: str | None = Field(None, max_length=2000, pattern=_SAFE_URL)
    oidc_audience: str | None = Field(None, min_length=1, max_length=2000)
    oidc_client_id: str | None = Field(None, min_length=1, max_length=500)
    oidc_client_secret: str | None = Field(None, min_length=1, max_length=2000, repr=False)
    oidc_tenant_claim: str = Field("tenant", min_length=1, max_length=200)
    oidc_roles_claim: str = Field("roles", min_length=1, max_length=200)
    key_requests_per_second: float = Field(1000, gt=0, le=1e9)
    address_requests_per_second: float = Field(100, gt=0, le=1e9)
    wrong_credentials_per_minute: float = Field(30, gt=0, le=1e9)
    outgoing_allow: tuple[Annotated[str, AfterValidator(_place)], ...] = ()
    smtp_url: str | None = Field(None, max_length=2000, repr=False)
    smtp_from: str | None = Field(None, max_length=500)
    mail_templates: Path | None = None
    allow_bootstrap: bool = False
    api_connections: int = Field(1000, ge=1, le=100_000)
    api_readers: int = Field(8, ge=1, le=100)
    api_read_seconds: float = Field(20, gt=0, le=3600)
    body_limit_bytes: int = Field(8 * 1024 * 1024, ge=1024, le=1 << 30)
    upload_limit_bytes: int = Field(16 << 30, ge=1024, le=1 << 50)
    log_level: str | None = Field(None, pattern="(?i)^(debug|info|warning|error|critical)$")
    """None: `info` for services, `warning` for other commands."""
    log_format: str = Field("text", pattern="^(text|console|json)$")
    failpoint: str | None = None
    failpoint_once: Path | None = None

    @property
    def project(self) -> ProjectFile | None:
        """The project file in use."""
        return self._project

    @property
    def from_project(self) -> frozenset[str]:
        """The settings whose value comes from the project file."""
        return self._from_project

    def shown(self) -> list[tuple[str, str | None, bool]]:
        """Each setting for people: its variable, its value without secrets, and whether it is the default."""
        return [
            (
                PREFIX + name.upper(),
                _shown(name, getattr(self, name), bool(field.repr)),
                name not in self.model_fields_set,
            )
            for name, field in Settings.model_fields.items()
        ]

    @property
    def handlers_folder(self) -> Path:
        """The folder from which the modules of `handlers` are imported."""
        return self._project.folder if self._project is not None and "handlers" in self._from_project else Path.cwd()


def _shown(name: str, value: Any, is_open: bool) -> str | None:
    if value is None or value == ():
        return None
    if not is_open:
        return MASK
    if isinstance(value, tuple):
        return ", ".join(value)
    if name == "url" or name.endswith("_url"):
        # Its user info and its query may have a password or a token.
        scheme, mark, rest = str(value).partition("://")
        place = rest.partition("?")[0].partition("#")[0]
        # A password may have a `?` that was not escaped: then its end looks like a query.
        is_clear = mark and "@" not in rest[len(place) :]
        return f"{scheme}://{place.rpartition('@')[2]}" if is_clear else MASK
    return str(value).lower() if isinstance(value, bool) else str(value)


def load_settings(**overrides: Any) -> Settings:
    """Settings from flags (None: not given), the environment and the project file; bad ones are refused.

    Secrets that stand in the environment are masked from now on.
    """
    for name, text in everything().items():
        if _CREDENTIAL.fullmatch(name):
            keep_secret(text)
            keep_secrets_of(f"?{text}")
        elif name.startswith(SECRET):
            keep_task_secret(text)
    project = find_project_file()
    given = {name for name, value in overrides.items() if value is not None}
    own = _from_environment() | {name: value for name, value in overrides.items() if value is not None}
    shared = _from_project_file(project) if project is not None else {}
    _choose_address(given, own, shared)
    try:
        settings = Settings(**shared | own)
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
    keep_secrets_of(settings.smtp_url or "")
    for secret in (settings.api_key, settings.oidc_client_secret):
        if secret is not None:
            keep_secret(secret)
    settings._project, settings._from_project = project, frozenset(shared.keys() - own.keys())
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


def _choose_address(given: set[str], own: dict[str, Any], shared: dict[str, Any]) -> None:
    """A flag that names a service wins over a variable that names a database, and the other way round."""
    if "url" not in own:
        return
    if "database_url" in given:
        del own["url"]
        return
    if "url" not in given and "database_url" in own:
        raise InvalidInput(
            "HOLDFAST_URL names a service, and HOLDFAST_DATABASE_URL a database.",
            remedy="Unset one of them, or choose with --url or --database-url.",
        )
    own.pop("database_url", None)
    shared.pop("database_url", None)


def _from_environment() -> dict[str, Any]:
    """What is set; an empty variable says the same as none. Lists are separated by commas."""
    variables = {name: variable(name.upper()) for name in Settings.model_fields}
    return {name: _listed(text) if name in SEPARATED else text for name, text in variables.items() if text}


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _from_project_file(project: ProjectFile) -> dict[str, Any]:
    """The values of the project file, checked one by one: an error names the file and the line.

    The home is relative to the folder of the file, so that every folder of a project has the same jobs.
    """
    problems = []
    for key, value in project.values.items():
        try:
            Settings(**{key: value})
        except ValidationError as error:
            problems += [project.detail(key, f"'{key}': {one['msg']}.") for one in error.errors()]
    if problems:
        raise InvalidInput(f"The project file {shown_name(project.path)} is not valid.", errors=problems)
    home = Path(project.values.get("home", Settings.model_fields["home"].default)).expanduser()
    return project.values | {"home": home if project.folder == Path.cwd() else project.folder / home}


def _variable(location: tuple[int | str, ...]) -> str:
    return PREFIX + "_".join(str(part) for part in location).upper()
