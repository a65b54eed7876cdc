"""What a person can do next, as data. Each edge shows it in its own way: the command line as a command to type."""

from __future__ import annotations

from typing import Any, NamedTuple


class Remedy(NamedTuple):
    """A sentence, and the command that does what it says, if there is one."""

    text: str
    verb: str | None = None
    job: str | None = None
    node: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def command(self) -> str | None:
        """As people type it."""
        if self.verb is None:
            return None
        parts = (self.verb, self.job, self.node, *self.flags)
        return f"holdfast {' '.join(part for part in parts if part)}"

    def __str__(self) -> str:
        return self.text if self.verb is None else f"{self.text}: {self.command}"

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Remedy:
        """As any version has written it: another one may know more fields, or fewer."""
        known = {name: data[name] for name in cls._fields if name in data}
        return cls(**known | {"flags": tuple(data.get("flags", ()))})
