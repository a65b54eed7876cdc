"""Breakers and limits, as a workflow declares them: they hold back tasks that are ready. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

DEFAULT_COOLDOWN_SECONDS = 30.0
DEFAULT_TENANT = "default"


def breaker_key(tenant: str, name: str) -> str:
    """What identifies a breaker among those of all tenants: each tenant has breakers of its own."""
    return name if tenant == DEFAULT_TENANT else f"{name}@{tenant}"


def breaker_name(tenant: str, key: str) -> str | None:
    """The name that workflows give to the breaker with this key; None: it is another tenant's."""
    name, _, owner = key.partition("@")
    return name if (owner or DEFAULT_TENANT) == tenant else None


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When the breaker of a dependency opens, and how it finds out that the dependency works again."""

    name: str
    window_calls: int = 20
    window_seconds: float | None = None
    failure_share: float = 0.5
    min_calls: int = 10
    codes: tuple[str, ...] | None = None
    """The codes that count as failures of the dependency; None: all transient failures."""
    cooldown_seconds: float = DEFAULT_COOLDOWN_SECONDS
    probes: int = 1
    """How many waiting tasks try first when the cooldown is over."""
    probe_url: str | None = None
    probe_handler: str | None = None

    @property
    def has_probe(self) -> bool:
        return self.probe_url is not None or self.probe_handler is not None

    def counts(self, code: str, *, is_permanent: bool) -> bool:
        """Whether a failure with this code counts as a failure of the dependency."""
        return code in self.codes if self.codes is not None else not is_permanent

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "window_calls": self.window_calls,
            "window_seconds": self.window_seconds,
            "failure_share": self.failure_share,
            "min_calls": self.min_calls,
            "codes": list(self.codes) if self.codes is not None else None,
            "cooldown_seconds": self.cooldown_seconds,
            "probes": self.probes,
            "probe_url": self.probe_url,
            "probe_handler": self.probe_handler,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BreakerRules:
        return cls(**{**data, "codes": tuple(data["codes"]) if data["codes"] is not None else None})


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many tasks may run at once: of the node, or of all nodes of the tenant that share the key."""

    limit: int
    key: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"limit": self.limit, "key": self.key}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Concurrency:
        return cls(data["limit"], data["key"])


@dataclass(frozen=True, slots=True)
class Rate:
    """How many tasks may start in a period: of the node, or of all nodes of the tenant that share the key."""

    limit: int
    per_seconds: float
    key: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"limit": self.limit, "per_seconds": self.per_seconds, "key": self.key}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rate:
        return cls(data["limit"], data["per_seconds"], data["key"])


class Limit(NamedTuple):
    """A limit of a lane; `rate` is the number of starts per second, `burst` how many may start at once."""

    name: str
    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None
