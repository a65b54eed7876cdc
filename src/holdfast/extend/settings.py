"""Settings of apps: environment variables of their own, checks of these, and the engine's home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.define.settings_check import SettingsCheck, SettingsProblem
from holdfast.environment import everything, is_set, variable

if TYPE_CHECKING:
    from holdfast.settings import Settings

__all__ = [
    "SettingsCheck",
    "SettingsProblem",
    "everything",
    "home",
    "is_set",
    "names_database",
    "tenant",
    "variable",
]


def home() -> Path:
    """The directory of this installation: HOLDFAST_HOME, or the home of the project."""
    return _settings().home


def tenant() -> str:
    """The tenant whose jobs commands are about: HOLDFAST_TENANT, or the tenant of the project."""
    return _settings().tenant


def names_database() -> bool:
    """Whether the environment or the project names a database, so that commands do not use the embedded one."""
    return _settings().database_url is not None


def _settings() -> Settings:
    # Imported here: the help of an app must not wait for it.
    from holdfast.settings import load_settings

    return load_settings()
