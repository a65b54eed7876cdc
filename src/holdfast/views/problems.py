"""From a problem object back to the error that it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast import errors
from holdfast.errors import Detail, ExitCode, HoldfastError


class ServiceMistake(HoldfastError):
    """The service made a mistake of its own while it answered; its log says more."""

    code = "BUG"
    title = "Holdfast made a mistake"
    exit_code = ExitCode.BUG


def from_problem(problem: Mapping[str, Any], *, seconds: float | None = None) -> HoldfastError:
    """The error of a problem object, of the class that its code names; a code of a later version goes by its status.

    `seconds` is how long the caller is asked to wait.
    """
    status = problem.get("status")
    kind = _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(status if isinstance(status, int) else 0)
    error = _empty(kind or HoldfastError)
    HoldfastError.__init__(
        error,
        _text(problem.get("detail")) or _text(problem.get("title")) or HoldfastError.title,
        remedy=_text(problem.get("remedy")),
        errors=[_detail(one) for one in problem.get("errors") or () if isinstance(one, Mapping)],
        instance=_text(problem.get("instance")),
    )
    if isinstance(error, errors.TooManyRequests):
        error.seconds = seconds if seconds is not None else 1.0
    return error


def _empty(kind: type[HoldfastError]) -> HoldfastError:
    """An error without its fields: those of some classes come from what is known only where they are raised."""
    error = kind.__new__(kind)
    if isinstance(error, errors.JobFailed):
        error.job = None
    if isinstance(error, errors.TemplateError):
        error.expression = ""
    return error


def _detail(data: Mapping[str, Any]) -> Detail:
    line, column = data.get("line"), data.get("column")
    return Detail(
        _text(data.get("message")) or "",
        file=_text(data.get("file")),
        line=line if isinstance(line, int) else None,
        column=column if isinstance(column, int) else None,
        path=_text(data.get("path")),
        suggestion=_text(data.get("suggestion")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _classes(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    for one in kind.__subclasses__():
        if one.__module__ in (errors.__name__, __name__):
            yield one
            yield from _classes(one)


_BY_CODE: Mapping[str, type[HoldfastError]] = {str(one.code): one for one in _classes(HoldfastError)}
_BY_STATUS: Mapping[int, type[HoldfastError]] = {
    400: errors.InvalidInput,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.NotFound,
    409: errors.Refused,
    413: errors.PayloadRefused,
    422: errors.InvalidInput,
    429: errors.TooManyRequests,
    502: errors.Unreachable,
    503: errors.Unreachable,
    504: errors.Unreachable,
}
"""What an error without a known code is."""
