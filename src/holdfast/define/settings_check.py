"""Checks of an app's own settings. An app declares one beside its handlers, and a worker begins with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.errors import Detail, InvalidInput


class SettingsProblem(NamedTuple):
    """What is wrong with a setting, and what helps. A worker does not start with it, unless it only warns."""

    message: str
    remedy: str
    only_warns: bool = False


@dataclass(frozen=True, slots=True)
class SettingsCheck:
    """Finds what is wrong with the settings of an app. It is a value of the module that has the app's handlers."""

    app: str
    problems: Callable[[], Iterable[SettingsProblem]]


def checks_in(module: object) -> list[SettingsCheck]:
    """The checks that a module declares or imports."""
    return [value for value in vars(module).values() if isinstance(value, SettingsCheck)]


def refuse_wrong_settings(checks: Iterable[SettingsCheck]) -> None:
    """Raises InvalidInput with all problems with which no worker may start."""
    wrong = {check.app: [one for one in check.problems() if not one.only_warns] for check in checks}
    problems = [Detail(one.message, suggestion=one.remedy) for found in wrong.values() for one in found]
    if problems:
        apps = ", ".join(app for app, found in wrong.items() if found)
        raise InvalidInput(
            f"The settings for the handlers of {apps} are wrong.",
            errors=problems,
            remedy="Correct the settings, then check them with: holdfast doctor",
        )
