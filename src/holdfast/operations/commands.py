"""Direct commands: operations of apps that run at once, in the process that is asked.

A command is idempotent, because a caller that got no answer asks again. It is never queued, and never tried again here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, is_dataclass
from functools import cache, cached_property, partial
from typing import Any, TypeVar

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from holdfast.define.source import did_you_mean
from holdfast.errors import Detail, HoldfastError, InvalidInput, NotFound
from holdfast.log_events import EventLog
from holdfast.masking import without_task_secrets
from holdfast.operations.app_functions import check_name, mark_of, offered
from holdfast.operations.identity import Identity, Permission
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.views.commands import DirectCommand

ENTRY_POINT_GROUP = "holdfast.commands"
COMMAND = "command"
PERMISSIONS = frozenset({Permission.READ, Permission.SUBMIT, Permission.OPERATE, Permission.ADMIN})
AUDITED_BYTES = 16 * 1024
"""How much of its input a line of the audit has at most."""
Function = TypeVar("Function", bound=Callable[..., Any])
_log = EventLog("holdfast.service")


class CommandFailed(HoldfastError):
    code = "COMMAND_FAILED"
    title = "The command failed"


@dataclass(frozen=True)
class Command:
    """A function that may be called directly, with what it takes and what it answers."""

    name: str
    input: Any
    output: Any
    permission: Permission
    function: Callable[..., Any]
    is_audited: bool
    """Whether the function itself changes nothing without a line of the audit."""

    @cached_property
    def takes(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.input)

    @cached_property
    def answers(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.output)

    @property
    def view(self) -> DirectCommand:
        described = inspect.getdoc(self.function) or ""
        schemas = self.takes.json_schema(), self.answers.json_schema(mode="serialization")
        return DirectCommand(self.name, described, str(self.permission), *schemas)


def command(
    name: str, *, input: Any, output: Any, scope: str, is_audited: bool = False
) -> Callable[[Function], Function]:
    """Make a function a direct command: it is called with its checked input and a CommandContext.

    `input` and `output` are pydantic models or dataclasses. `scope` is the permission that a caller needs: `read`,
    `submit`, `operate` or `admin`. The function may run twice with the same input, and must then do its work once. Each
    call writes a line of the audit before it begins, unless the function sees to that: `is_audited`.
    """
    check_name(name, COMMAND, "catalog.publish")
    if scope not in PERMISSIONS:
        raise InvalidInput(f"'{scope}' is not the scope of a command.", remedy=f"Use {', '.join(sorted(PERMISSIONS))}.")

    for kind in (input, output):
        if not _is_object(kind):
            raise InvalidInput(f"{kind!r} is no pydantic model and no dataclass.", remedy=f"Give {name} one of these.")

    def mark(function: Function) -> Function:
        made = Command(name, input, output, Permission(scope), function, is_audited)
        # What cannot be described fails at import, and not with the first call.
        made.view  # noqa: B018
        setattr(function, mark_of(COMMAND), made)
        return function

    return mark


def _is_object(kind: Any) -> bool:
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, RootModel)
    return is_model or (isinstance(kind, type) and is_dataclass(kind))


@cache
def known_commands() -> Mapping[str, Command]:
    """The commands of all installed packages by name. A package that is broken is left out, and the log says so."""
    return offered(ENTRY_POINT_GROUP, COMMAND, Command, _log)


def commands() -> list[DirectCommand]:
    """What can be called directly."""
    return [one.view for one in known_commands().values()]


async def run_command(
    scope: Scope, store: OperationsStore, identity: Identity, name: str, given: Mapping[str, Any], context: Any
) -> dict[str, Any]:
    """Call a command once, and return what it answers as JSON. The function gets the context as it is."""
    chosen = known_commands().get(name)
    if chosen is None:
        raise NotFound(
            f"There is no command '{name}'.",
            remedy=did_you_mean(name, known_commands()) or "List the commands: holdfast commands",
            instance=name,
        )
    identity.refuse_without(chosen.permission)
    checked = _checked_input(chosen, given)
    if not chosen.is_audited:
        # Before the call: a process that dies within it has changed nothing of which the audit does not know.
        await store.audit().write(
            "command.run", scope.tenant, scope.actor, scope.origin, instance=name, after=_audited(chosen, checked)
        )
    try:
        returned = await _called(chosen.function, checked, context)
    except HoldfastError:
        raise
    except Exception as error:
        _log.write("command_failed", command=name, request=scope.origin.request_id, error=error)
        raise CommandFailed(
            f"The command {name} failed: {type(error).__name__}.",
            remedy="The log of the process that ran it says where.",
            instance=name,
        ) from None
    try:
        answer = chosen.answers.validate_python(returned, from_attributes=True)
        shown: dict[str, Any] = chosen.answers.dump_python(answer, mode="json", by_alias=True)
        return shown
    except ValidationError as error:
        _log.write("command_failed", command=name, request=scope.origin.request_id, error=error)
        raise CommandFailed(
            f"The command {name} did its work, but returned something other than it declares.", instance=name
        ) from None


async def _called(function: Callable[..., Any], given: Any, context: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(given, context)
    call = partial(copy_context().run, function, given, context)
    return await asyncio.get_running_loop().run_in_executor(None, call)


def _checked_input(chosen: Command, given: Mapping[str, Any]) -> Any:
    unknown = _unknown(chosen.input, given)
    details = [
        Detail(f"'{name}' is not known.", path=name, suggestion=did_you_mean(name, known)) for name, known in unknown
    ]
    try:
        checked = chosen.takes.validate_python(dict(given))
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            details.append(Detail(f"{one['msg']}.", path=".".join(map(str, one["loc"])) or None))
    if details:
        raise InvalidInput(f"The input of {chosen.name} is not valid.", errors=details, instance=chosen.name)
    return checked


def _unknown(kind: Any, given: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The names that a model does not know, unless it says itself what happens to them."""
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or "extra" in kind.model_config:
        return []
    known = [name for key, one in kind.model_fields.items() for name in (key, one.alias) if name is not None]
    return [(name, known) for name in given if name not in known]


def _audited(chosen: Command, checked: Any) -> dict[str, Any]:
    """What a line of the audit says of the input: a text that a model keeps secret is masked by the model."""
    written = chosen.takes.dump_json(checked)
    if len(written) > AUDITED_BYTES:
        return {"input_bytes": len(written)}
    shown: dict[str, Any] = {"input": without_task_secrets(chosen.takes.dump_python(checked, mode="json"))}
    return shown
