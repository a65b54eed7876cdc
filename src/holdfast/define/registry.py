"""Handlers: how a function becomes one, what arguments it takes, and how a process finds those that it has."""

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
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from holdfast.errors import Detail, ErrorCode, InvalidInput

ENTRY_POINT_GROUP = "holdfast.handlers"
ATTRIBUTE = "__holdfast_handler__"
THREAD, PROCESS = "thread", "process"
"""Where a handler may run: in the worker, or in a process of its own."""

PLAIN_TYPES = (str, int, bool, dict, list, float)
"""Annotations that are checked exactly: no text becomes a number."""

Function = TypeVar("Function", bound=Callable[..., Any])


class ContractViolation(Exception):
    """A task's params do not fit its handler's arguments."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a handler may return instead of a plain value: the output and what is worth telling about it."""

    output: Any = None
    warnings: tuple[str, ...] = ()
    deliverables: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function with a name and the check of its arguments."""

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

    def arguments(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The params as keyword arguments; a missing, unknown or wrongly typed one is refused."""
        if self.context_parameter in params:
            given = f"the worker gives it the context as '{self.context_parameter}'"
            raise ContractViolation(f"handler {self.name}: {given}: name the param otherwise")
        missing = self.required - params.keys()
        if missing:
            raise ContractViolation(f"handler {self.name} misses {_names(missing)}")
        if self.takes_anything and not self.checks:
            return dict(params)
        unknown = [name for name in params if name not in self.checks]
        if unknown and not self.takes_anything:
            close = difflib.get_close_matches(unknown[0], list(self.checks), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise ContractViolation(f"handler {self.name} does not take {_names(unknown)}{hint}")
        return {name: self.checks[name](v) if name in self.checks else v for name, v in params.items()}


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
) -> Callable[[Function], Function]:
    """Make a function a handler. It stays an ordinary function and can be called as one."""

    def mark(function: Function) -> Function:
        known_as = name or getattr(function, "__name__", None)
        if known_as is None:
            raise InvalidInput(f"{function!r} has no name of its own.", remedy="Give it one: @handler('name')")
        _check_isolation(known_as, isolation, memory_mb, attempts_per_process, network=network)
        _check_environment(known_as, isolation, environment)
        found = describe(
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
            setattr(function, ATTRIBUTE, found)
        except (AttributeError, TypeError):
            raise _no_function(known_as, function) from None
        return function

    return mark


def _check_isolation(
    name: str, isolation: str, memory_mb: int | None, attempts_per_process: int, *, network: bool
) -> None:
    if isolation not in (THREAD, PROCESS):
        raise InvalidInput(
            f"The handler '{name}' asks for isolation '{isolation}', which does not exist.",
            remedy=f"Use '{THREAD}' or '{PROCESS}'.",
        )
    if memory_mb is not None and (isolation != PROCESS or memory_mb <= 0):
        raise InvalidInput(
            f"The handler '{name}' has memory_mb={memory_mb} and isolation='{isolation}'.",
            remedy=f"A bound of at least 1 MB can be kept for isolation='{PROCESS}' only.",
        )
    if not network and isolation != PROCESS:
        raise InvalidInput(
            f"The handler '{name}' has network=False and isolation='{isolation}'.",
            remedy=f"The network can be taken away with isolation='{PROCESS}' only.",
        )
    if attempts_per_process < 1 or (attempts_per_process > 1 and isolation != PROCESS):
        raise InvalidInput(
            f"The handler '{name}' has attempts_per_process={attempts_per_process} and isolation='{isolation}'.",
            remedy=f"A process runs at least 1 attempt, and there are processes with isolation='{PROCESS}' only.",
        )


def _check_environment(name: str, isolation: str, environment: Sequence[str]) -> None:
    if environment and isolation != PROCESS:
        raise InvalidInput(
            f"The handler '{name}' declares environment={environment!r} and isolation='{isolation}'.",
            remedy=f"A thread sees the worker's variables; declare them for isolation='{PROCESS}' only.",
        )
    if isinstance(environment, str) or not all(_is_variable(one) for one in environment):
        raise InvalidInput(
            f"The handler '{name}' declares environment={environment!r}, which are no names of variables.",
            remedy="Give a tuple of names; a star stands for anything, such as: environment=('AWS_*', 'API_TOKEN')",
        )


def _is_variable(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[\w*]+", name) is not None


def describe(function: Callable[..., Any], name: str, **options: Any) -> Handler:
    """Read a function's signature once, at import, so that calls cost nothing."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise _no_function(name, function) from None
    context, takes_anything = None, False
    required, checks = set(), {}
    for parameter in parameters:
        annotation = hints.get(parameter.name, parameter.annotation)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_anything = True
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            if parameter.default is inspect.Parameter.empty:
                raise InvalidInput(
                    f"The handler '{name}' takes '{parameter.name}' by position only, and params come by name.",
                    remedy="Remove the '/' from its parameters.",
                )
        elif getattr(_without_extras(annotation), "__holdfast_context__", False) or parameter.name == "ctx":
            context = parameter.name
        else:
            checks[parameter.name] = _check(name, parameter.name, annotation)
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
        **options,
    )


def _without_extras(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _no_function(name: str, given: Any) -> InvalidInput:
    """Of a method of one object, a builtin: other processes would not find it, and it cannot be marked."""
    return InvalidInput(
        f"The handler '{name}' cannot be made of {given!r}: it is no function.",
        remedy="Define a function that calls it, and mark that with @handler.",
    )


def _check(handler_name: str, parameter: str, annotation: Any) -> Callable[[Any], Any]:
    """How a value is checked against an annotation; anything else than a plain type is left to pydantic."""
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
            first = error.errors()[0]
            place = ".".join([parameter, *(str(part) for part in first["loc"])])
            raise ContractViolation(f"handler {handler_name}: '{place}': {first['msg']}") from None

    return check_rich


def _unchecked(value: Any) -> Any:
    return value


def _type_name(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


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

    def add(self, found: Handler) -> None:
        """Two handlers of one name would make runs depend on import order: refused."""
        known = self._handlers.get(found.name)
        if known is not None and known.function is not found.function:
            raise InvalidInput(
                f"Two handlers are named '{found.name}': {_place(known.function)} and {_place(found.function)}.",
                remedy="Give one of them another name: @handler('other.name')",
            )
        self._handlers[found.name] = found

    def add_module(self, module: Any) -> int:
        """Every handler that a module defines or imports; returns how many."""
        found = [(name, v) for name, v in vars(module).items() if isinstance(getattr(v, ATTRIBUTE, None), Handler)]
        for name, function in found:
            known: Handler = getattr(function, ATTRIBUTE)
            self.add(known)
            self._places[known.name] = (getattr(module, "__name__", "__main__"), name)
        for declared in codes_in(module):
            known_code = self.codes.setdefault(declared.code, declared)
            if known_code != declared:
                raise InvalidInput(
                    f"The code {declared.code} is declared twice, and not alike.",
                    remedy="Declare it once and import it where it is needed.",
                )
        return len(found)

    def place(self, found: Handler) -> tuple[str, str] | None:
        """The module and the name in it under which another process finds the handler; None if it cannot."""
        own = (found.function.__module__, getattr(found.function, "__qualname__", ""))
        module, path = self._places.get(found.name, own)
        try:
            return (module, path) if module != "__main__" and locate(module, path) is found.function else None
        except (AttributeError, ImportError):
            return None


def discover(modules: Iterable[str] = (), *, entry_points_too: bool = True) -> Registry:
    """The handlers of installed packages and of the modules named; the working directory is importable."""
    registry = Registry()
    if entry_points_too:
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
            registry.add_module(point.load())
    for name in modules:
        if registry.add_module(_import(name)) == 0:
            raise InvalidInput(
                f"The module '{name}' has no handlers.", remedy="Mark its functions with @handler('name')."
            )
    return registry


def _import(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = name.removesuffix(".py").replace("/", ".") if name.endswith(".py") else name
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        # Whatever a user's module raises while it is imported is the user's to see, in one line.
        raise InvalidInput(
            f"The handlers module '{name}' cannot be imported: {type(error).__name__}: {error}",
            errors=[Detail(f"{type(error).__name__}: {error}", path=f"--handlers {name}")],
            remedy="Give a module name that Python can import from here, for example: --handlers my_handlers",
        ) from error


def locate(module: str, path: str) -> Callable[..., Any]:
    """The function of that name in that module."""
    function: Callable[..., Any] = operator.attrgetter(path)(importlib.import_module(module))
    return function


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
