"""Breakers and limits, as a workflow declares them: they hold back tasks that are ready. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    given: frozenset[str] | None = field(default=None, repr=False, compare=False)
    """The fields that the author of the workflow gave, if that is known. The others are defaults."""

    @property
    def stated(self) -> frozenset[str]:
        """The fields that the author gave; if that is unknown, those that differ from the built-in defaults."""
        return self.given if self.given is not None else self.differing

    @property
    def differing(self) -> frozenset[str]:
        return frozenset(name for name in DEFAULTED if getattr(self, name) != getattr(_BUILT_IN, name))

    def with_default(self, default: BreakerRules) -> BreakerRules:
        """The same with other defaults, which adapt to what the author gave, so that they never contradict."""
        stated = self.stated
        # What a default itself has adapted to does not count: a file may say something else.
        otherwise = {name: getattr(default if name in default.stated else _BUILT_IN, name) for name in DEFAULTED}
        values = otherwise | {name: getattr(self, name) for name in stated}
        if "window_calls" not in stated and "min_calls" in stated:
            values["window_calls"] = max(values["window_calls"], values["min_calls"])
        if "min_calls" not in stated:
            values["min_calls"] = min(values["min_calls"], values["window_calls"])
        return replace(self, **values, given=stated)

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


DEFAULTED = ("window_calls", "window_seconds", "failure_share", "min_calls", "cooldown_seconds", "probes")
"""The fields of a breaker that have defaults."""
_BUILT_IN = BreakerRules("")


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
