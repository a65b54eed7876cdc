"""Handlers: how a function becomes one, which arguments it takes, and how a process finds its handlers."""

from __future__ import annotations

import difflib
import importlib
import inspect
import operator
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from holdfast.define.importing import import_named
from holdfast.define.settings_check import SettingsCheck, checks_in
from holdfast.errors import ErrorCode, InvalidInput

ENTRY_POINT_GROUP = "holdfast.handlers"
ATTRIBUTE = "__holdfast_handler__"
THREAD, PROCESS = "thread", "process"
"""Where a handler may run: in the worker, or in a separate process."""

SHOWN_PARAMS = 20
PLAIN_TYPES = (str, int, bool, dict, list, float)
"""Annotations without conversion: a text does not become a number."""

Function = TypeVar("Function", bound=Callable[..., Any])


_CERTAIN = re.compile(
    r".*_(type|parsing)|literal_error|enum|missing|extra_forbidden|(greater|less)_than(_equal)?|multiple_of|"
    r"(string_)?too_(short|long)|string_pattern_mismatch|int_from_float|finite_number"
)
"""Pydantic's errors that depend on the value alone, and neither on files, nor on the clock, nor on code of the user."""


class ContractViolation(Exception):
    """A task's params do not fit its handler's arguments. If it `is_certain`, they fit on no worker at any time."""

    def __init__(self, message: str, *, is_certain: bool = True) -> None:
        super().__init__(message)
        self.is_certain = is_certain


@dataclass(frozen=True, slots=True)
class Result:
    """What a handler may return instead of a plain value: the output with warnings, deliverables and metrics."""

    output: Any = None
    warnings: tuple[str, ...] = ()
    deliverables: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function with its name, its options and the checks of its arguments."""

    name: str
    function: Callable[..., Any]
    queue: str | None = None
    isolation: str = THREAD
    timeout_seconds: float | None = None
    memory_mb: int | None = None
    network: bool = True
    attempts_per_process: int = 1
    environment: tuple[str, ...] = ()
    database: bool = False
    context_parameter: str | None = None
    is_async: bool = False
    takes_anything: bool = False
    required: frozenset[str] = frozenset()
    checks: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    plain: frozenset[str] = frozenset()
    """The parameters whose check needs no more than the type of a value."""

    def arguments(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The params as keyword arguments. Raises ContractViolation for a missing, unknown or wrongly typed one."""
        if self.context_parameter in params:
            reason = f"the worker passes the context as '{self.context_parameter}'"
            raise ContractViolation(f"handler {self.name}: {reason}: give the param another name")
        missing = self.required - params.keys()
        if missing:
            raise ContractViolation(
                f"{self.name} needs {names_in(missing)}, which the node does not pass ({params_in(params)})"
            )
        if self.takes_anything and not self.checks:
            return dict(params)
        unknown = [name for name in params if name not in self.checks]
        if unknown and not self.takes_anything:
            close = difflib.get_close_matches(unknown[0], list(self.checks), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise ContractViolation(f"handler {self.name} does not take {names_in(unknown)}{hint}")
        return {name: self.checks[name](v) if name in self.checks else v for name, v in params.items()}


@overload
def handler(
    name: str | None = None,
    *,
    queue: str | None = None,
    isolation: str = THREAD,
    timeout_seconds: float | None = None,
    memory_mb: int | None = None,
    network: bool = True,
    attempts_per_process: int = 1,
    environment: Sequence[str] = (),
    database: bool = False,
) -> Callable[[Function], Function]: ...


@overload
def handler(name: Function, /) -> Function: ...


def handler(
    name: Any = None,
    *,
    queue: str | None = None,
    isolation: str = THREAD,
    timeout_seconds: float | None = None,
    memory_mb: int | None = None,
    network: bool = True,
    attempts_per_process: int = 1,
    environment: Sequence[str] = (),
    database: bool = False,
) -> Any:
    """Makes a function a handler. You can still call it as an ordinary function.

    `@handler` without parentheses names it after its module and itself: `sales.report`.
    """
    if callable(name):
        return handler(_full_name(name))(name)

    def mark(function: Function) -> Function:
        known_as = name or getattr(function, "__name__", None)
        if known_as is None:
            raise InvalidInput(f"{function!r} has no name.", remedy="Give it one: @handler('name')")
        _check_isolation(known_as, isolation, memory_mb, attempts_per_process, network=network)
        _check_environment(known_as, isolation, environment)
        described = describe(
            function,
            known_as,
            queue=queue,
            isolation=isolation,
            timeout_seconds=timeout_seconds,
            memory_mb=memory_mb,
            network=network,
            attempts_per_process=attempts_per_process,
            environment=tuple(environment),
            database=database,
        )
        try:
            setattr(function, ATTRIBUTE, described)
        except (AttributeError, TypeError):
            raise _no_function(known_as, function) from None
        return function

    return mark


def _full_name(function: Callable[..., Any]) -> str:
    """`sales.report` for the function report of the module sales, also while Python runs sales.py as a program."""
    name = getattr(function, "__name__", None)
    if name is None:
        raise InvalidInput(f"{function!r} has no name.", remedy="Give it one: @handler('name')")
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file is not None else ""
    return f"{module}.{name}" if module else str(name)


def _check_isolation(
    name: str, isolation: str, memory_mb: int | None, attempts_per_process: int, *, network: bool
) -> None:
    if isolation not in (THREAD, PROCESS):
        raise InvalidInput(
            f"The handler '{name}' has isolation='{isolation}', which does not exist.",
            remedy=f"Use '{THREAD}' or '{PROCESS}'.",
        )
    if memory_mb is not None and (isolation != PROCESS or memory_mb <= 0):
        raise InvalidInput(
            f"The handler '{name}' has memory_mb={memory_mb} and isolation='{isolation}'.",
            remedy=f"A memory limit is at least 1 MB and needs isolation='{PROCESS}'.",
        )
    if not network and isolation != PROCESS:
        raise InvalidInput(
            f"The handler '{name}' has network=False and isolation='{isolation}'.",
            remedy=f"network=False needs isolation='{PROCESS}'.",
        )
    if attempts_per_process < 1 or (attempts_per_process > 1 and isolation != PROCESS):
        raise InvalidInput(
            f"The handler '{name}' has attempts_per_process={attempts_per_process} and isolation='{isolation}'.",
            remedy=f"attempts_per_process is at least 1, and more than 1 needs isolation='{PROCESS}'.",
        )


def _check_environment(name: str, isolation: str, environment: Sequence[str]) -> None:
    if environment and isolation != PROCESS:
        raise InvalidInput(
            f"The handler '{name}' declares environment={environment!r} and isolation='{isolation}'.",
            remedy=f"A thread sees all variables of the worker; environment needs isolation='{PROCESS}'.",
        )
    if isinstance(environment, str) or not all(_is_variable(one) for one in environment):
        raise InvalidInput(
            f"The handler '{name}' declares environment={environment!r}, which is not a tuple of variable names.",
            remedy="Give a tuple of names; a star matches any characters: environment=('AWS_*', 'API_TOKEN')",
        )


def _is_variable(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[\w*]+", name) is not None


def describe(function: Callable[..., Any], name: str, **options: Any) -> Handler:
    """Reads a function's signature once, at import, so that calls do not pay for it."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise _no_function(name, function) from None
    context, takes_anything = None, False
    required, plain, checks = set(), set(), {}
    for parameter in parameters:
        annotation = hints.get(parameter.name, parameter.annotation)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_anything = True
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            if parameter.default is inspect.Parameter.empty:
                raise InvalidInput(
                    f"The handler '{name}' takes '{parameter.name}' by position only, but params are passed by name.",
                    remedy="Remove the '/' from its parameters.",
                )
        elif getattr(_without_extras(annotation), "__holdfast_context__", False) or parameter.name == "ctx":
            context = parameter.name
        else:
            checks[parameter.name] = _check(name, parameter.name, annotation)
            if annotation in PLAIN_TYPES:
                plain.add(parameter.name)
            if parameter.default is inspect.Parameter.empty:
                required.add(parameter.name)
    return Handler(
        name=name,
        function=function,
        context_parameter=context,
        is_async=inspect.iscoroutinefunction(function),
        takes_anything=takes_anything,
        required=frozenset(required),
        checks=checks,
        plain=frozenset(plain),
        **options,
    )


def _without_extras(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _no_function(name: str, candidate: Any) -> InvalidInput:
    """The error for a method of an object or a builtin: other processes cannot import it."""
    return InvalidInput(
        f"The handler '{name}' is {candidate!r}, which is not a function.",
        remedy="Define a function that calls it, and decorate that with @handler.",
    )


def _check(handler_name: str, parameter: str, annotation: Any) -> Callable[[Any], Any]:
    """The check of a parameter's annotation. Pydantic checks everything but plain types."""
    if annotation in (inspect.Parameter.empty, Any):
        return _unchecked
    if annotation in PLAIN_TYPES:
        accepted = (int, float) if annotation is float else (annotation,)

        def check_plain(value: Any) -> Any:
            is_bool = isinstance(value, bool)
            if not isinstance(value, accepted) or (is_bool and annotation is not bool):
                raise ContractViolation(
                    f"handler {handler_name}: '{parameter}' must be {annotation.__name__}, not {_type_name(value)}"
                )
            return value

        return check_plain
    adapter = TypeAdapter(annotation)
    base = _without_extras(annotation)
    check_base = _check(handler_name, parameter, base) if base in PLAIN_TYPES else _unchecked

    def check_rich(value: Any) -> Any:
        try:
            return adapter.validate_python(check_base(value))
        except ValidationError as error:
            faults = error.errors()
            place = ".".join([parameter, *(str(part) for part in faults[0]["loc"])])
            message = f"handler {handler_name}: '{place}': {faults[0]['msg']}"
            is_certain = all(_CERTAIN.fullmatch(fault["type"]) for fault in faults)
            raise ContractViolation(message, is_certain=is_certain) from None

    return check_rich


def _unchecked(value: Any) -> Any:
    return value


def _type_name(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def names_in(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


def params_in(params: Mapping[str, Any]) -> str:
    """What a node passes, shortened: a node may pass hundreds of params."""
    names = sorted(params)
    more = f" and {len(names) - SHOWN_PARAMS} more" if len(names) > SHOWN_PARAMS else ""
    return f"it passes {', '.join(names[:SHOWN_PARAMS])}{more}" if names else "it passes nothing"


def codes_in(module: Any) -> list[ErrorCode]:
    """The codes that a module declares or imports."""
    return [value for value in vars(module).values() if isinstance(value, ErrorCode)]


class Registry:
    """The handlers that a process has, by name."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._handlers = {h.name: h for h in handlers}
        self._places: dict[str, tuple[str, str]] = {}
        self.codes: dict[str, ErrorCode] = {}
        """The codes that the modules of these handlers declare."""
        self.checks: list[SettingsCheck] = []
        """The checks of settings that the modules of these handlers declare."""
        self.modules: list[str] = []
        """The modules of the user that were named, without those of installed packages."""

    def __contains__(self, name: object) -> bool:
        return name in self._handlers

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def get(self, name: str) -> Handler | None:
        return self._handlers.get(name)

    @property
    def names(self) -> list[str]:
        return sorted(self._handlers)

    @property
    def with_context(self) -> list[str]:
        return sorted(h.name for h in self._handlers.values() if h.context_parameter is not None)

    def without_database(self) -> tuple[Registry, list[str]]:
        """The handlers that need no database, and the names of the others."""
        kept = Registry(one for one in self if not one.database)
        kept._places, kept.codes = dict(self._places), self.codes
        kept.checks, kept.modules = list(self.checks), list(self.modules)
        return kept, sorted(one.name for one in self if one.database)

    def add(self, added: Handler) -> None:
        """Adds a handler. Refuses a second one of the same name: the import order would decide which one runs."""
        known = self._handlers.get(added.name)
        if known is not None and known.function is not added.function:
            raise InvalidInput(
                f"Two handlers are named '{added.name}': {_place(known.function)} and {_place(added.function)}.",
                remedy="Give one of them another name: @handler('other.name')",
            )
        self._handlers[added.name] = added

    def add_module(self, module: Any) -> int:
        """Adds every handler that a module defines or imports, or that its workflows use. Returns their number."""
        marked = [(name, v) for name, v in vars(module).items() if isinstance(getattr(v, ATTRIBUTE, None), Handler)]
        for name, function in marked:
            known: Handler = getattr(function, ATTRIBUTE)
            self.add(known)
            self._places[known.name] = (getattr(module, "__name__", "__main__"), name)
        values = [v for v in vars(module).values() if not isinstance(v, type)]
        workflows = [v for v in values if getattr(v, "__holdfast_workflow__", False) is True]
        used = [getattr(function, ATTRIBUTE) for one in workflows for function in one.handlers.values()]
        for known in used:
            self.add(known)
        for declared in codes_in(module):
            known_code = self.codes.setdefault(declared.code, declared)
            if known_code != declared:
                raise InvalidInput(
                    f"The code {declared.code} is declared twice, with different meanings.",
                    remedy="Declare it once, and import it in other modules.",
                )
        self.checks += [check for check in checks_in(module) if check not in self.checks]
        return len(marked) + len(used)

    def place(self, handler: Handler) -> tuple[str, str] | None:
        """The module and the name under which another process can import the handler; None if it cannot."""
        own = (handler.function.__module__, getattr(handler.function, "__qualname__", ""))
        module, path = self._places.get(handler.name, own)
        try:
            return (module, path) if module != "__main__" and locate(module, path) is handler.function else None
        except (AttributeError, ImportError):
            return None


def discover(modules: Iterable[str] = (), *, folder: Path | None = None, entry_points_too: bool = True) -> Registry:
    """The handlers of installed packages and of the named modules.

    Modules of the folder can be imported; the default is the working directory.
    """
    registry = Registry()
    if entry_points_too:
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
            registry.add_module(point.load())
    for name in modules:
        module = import_named(name, folder or Path.cwd())
        registry.modules.append(module.__name__)
        if registry.add_module(module) == 0:
            raise InvalidInput(
                f"The module '{name}' has no handlers.", remedy="Decorate its functions with @handler('name')."
            )
    return registry


def locate(module: str, path: str) -> Callable[..., Any]:
    """The function of that name in that module."""
    function: Callable[..., Any] = operator.attrgetter(path)(importlib.import_module(module))
    return function


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
