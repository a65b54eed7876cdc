"""The values of secrets, as a worker finds them: in its environment, in files, or with a provider.

Only the worker asks, right before it runs a handler. What it finds is masked from then on.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from holdfast.define.gates import DEFAULT_TENANT
from holdfast.environment import SECRET, foreign
from holdfast.errors import Code
from holdfast.masking import keep_task_secret

ENTRY_POINT_GROUP = "holdfast.secrets"
VALUE_BYTES = 64 * 1024
REMEMBERED_SECONDS = 60.0
"""How long the answer of a provider is used: a fan-out must not ask it for every item."""
MOST_REMEMBERED = 1000
# Two other names could stand for the same variable: ACME stands for acme alone.
_IN_VARIABLES = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*\Z")

Provider = Callable[[str, str], str | None]
"""Returns the value of a tenant's secret, by its name; None: it has none. It may wait, and may raise anything."""


class NoSecret(Exception):
    """A secret has no value here. The text says which, and where the worker has looked."""

    def __init__(self, message: str, code: Code) -> None:
        super().__init__(message)
        self.code = code


class SecretValues:
    """Looks for a value in variables first, then in files, then with each provider in the order of their names."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._remembered: dict[tuple[str, str], tuple[float, str]] = {}

    async def of(self, tenant: str, names: Iterable[str]) -> dict[str, str]:
        """The values of all these secrets of the tenant; NoSecret for the first that has none."""
        values = {name: self._in_variables(tenant, name) for name in names}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            values |= await asyncio.to_thread(lambda: {name: self._elsewhere(tenant, name) for name in missing})
        found = {name: value for name, value in values.items() if value is not None}
        for value in found.values():
            keep_task_secret(value)
        for name in missing:
            if name not in found:
                raise NoSecret(self._missing(tenant, name), Code.SECRET_MISSING)
        return found

    def _in_variables(self, tenant: str, name: str) -> str | None:
        return next((value for one in _variables(tenant, name) if (value := foreign(one))), None)

    def _elsewhere(self, tenant: str, name: str) -> str | None:
        for file in self._files(tenant, name):
            value = _read(file, name)
            if value is not None:
                return value
        return self._provided(tenant, name)

    def _files(self, tenant: str, name: str) -> list[Path]:
        if self.folder is None:
            return []
        # A tenant may have any name, also one that leads out of the folder.
        is_folder = tenant and "/" not in tenant and "\0" not in tenant and not tenant.startswith(".")
        files = [self.folder / tenant / name] if is_folder else []
        return [*files, self.folder / name] if tenant == DEFAULT_TENANT else files

    def _provided(self, tenant: str, name: str) -> str | None:
        now = time.monotonic()
        since, value = self._remembered.get((tenant, name), (0.0, ""))
        if value and now - since < REMEMBERED_SECONDS:
            return value
        for provider, ask in providers():
            try:
                answer = ask(tenant, name)
            except Exception as problem:
                raise _unreadable(name, f"provider {provider} raised {type(problem).__name__}: {problem}") from None
            if answer is not None:
                if not isinstance(answer, str):
                    raise _unreadable(name, f"provider {provider} returned {type(answer).__name__}, not text")
                if len(self._remembered) >= MOST_REMEMBERED:
                    self._remembered.clear()
                self._remembered[tenant, name] = now, answer
                return answer
        return None

    def _missing(self, tenant: str, name: str) -> str:
        """That there is no value, and where a person can put one."""
        looked = [f"in the variable {one}" for one in _variables(tenant, name)[-1:]]
        if self.folder is None:
            looked.append("in no folder, because HOLDFAST_SECRETS_DIR is not set")
        else:
            files = [str(file.relative_to(self.folder)) for file in self._files(tenant, name)]
            looked += [f"in HOLDFAST_SECRETS_DIR for {' and '.join(files)}"] if files else []
        looked += [f"with the provider {provider}" for provider, _ in providers()]
        return f"this worker has no secret {name} for the tenant {tenant}: it looked {', '.join(looked)}"


@cache
def providers() -> list[tuple[str, Provider]]:
    """The providers of installed packages, by their names."""
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    return [(point.name, point.load()) for point in points]


def _variables(tenant: str, name: str) -> list[str]:
    """The names of the variables that may have it; messages name the last one."""
    prefixed = [f"{SECRET}{tenant}__{name}", f"{SECRET}{tenant.upper()}__{name}"] if _IN_VARIABLES.match(tenant) else []
    return [*prefixed, f"{SECRET}{name}"] if tenant == DEFAULT_TENANT else prefixed


def _read(file: Path, name: str) -> str | None:
    """The value in a file, without a line break at its end; None: there is no such file, or it is empty."""
    try:
        if not file.is_file():
            return None
        with file.open("rb") as opened:
            text = opened.read(VALUE_BYTES + 1)
        if len(text) > VALUE_BYTES:
            raise _unreadable(name, f"its file has more than {VALUE_BYTES:,} bytes")
        value = text.decode()
    except OSError as problem:
        raise _unreadable(name, f"its file cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise _unreadable(name, "its file is not UTF-8") from None
    return value.removesuffix("\n").removesuffix("\r") or None


def _unreadable(name: str, why: str) -> NoSecret:
    return NoSecret(f"the secret {name} cannot be read: {why}", Code.SECRET_UNREADABLE)
