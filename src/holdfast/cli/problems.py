"""How errors are shown: a message, a remedy, an exit code."""

from __future__ import annotations

import difflib
import traceback
from pathlib import Path
from typing import Any

import typer

from holdfast.cli.streams import OutputClosed, say, say_json
from holdfast.define.named_file import shown_name
from holdfast.environment import variable
from holdfast.errors import ExitCode, HoldfastError, InvalidInput, Unreachable, Unusable

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""What the parser raises for a wrong flag or argument; typer does not export it by name."""


class Interrupted(Exception):
    """Ctrl-C. The text, if any, says how the command ended."""


def report(error: BaseException, *, as_json: bool) -> int:
    """Show a failure on stderr; returns the exit code."""
    if isinstance(error, OutputClosed):
        return ExitCode.DONE
    if isinstance(error, KeyboardInterrupt | Interrupted | typer.Abort):
        if str(error):
            say(str(error))
        return ExitCode.INTERRUPTED
    problem = _as_problem(error)
    if problem is None:
        return _report_bug(error, as_json=as_json)
    if as_json:
        say_json(problem.to_problem())
    else:
        _show(problem)
    return problem.exit_code


def _as_problem(error: BaseException) -> HoldfastError | None:
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, USAGE_ERROR):
        return _usage_problem(error)
    if type(error).__module__.partition(".")[0] == "psycopg":
        # The store turns lost connections into Unreachable; what is left is a refusal, for example of rights.
        return Unreachable(
            f"The database refused: {' '.join(str(error).split())}",
            remedy="Check the installation with: holdfast doctor",
        )
    if isinstance(error, OSError) and error.strerror:
        return _refusal(error)
    return None


def _refusal(error: OSError) -> HoldfastError:
    """A file, a folder or a stream that cannot be used: neither a bug nor a wrong argument."""
    try:
        Path.cwd()
    except OSError:
        return Unusable("The working directory is gone.", remedy="Change to a directory that exists.")
    what = f"{shown_name(error.filename)} cannot be used" if error.filename is not None else "The system refuses"
    return Unusable(f"{what}: {error.strerror}.", remedy="Check the directory, its permissions and the disk.")


def _show(problem: HoldfastError) -> None:
    say(f"error: {problem.message}")
    for detail in problem.errors:
        say(f"  {detail}")
    if problem.remedy:
        say(f"  → {problem.remedy}")


def _usage_problem(error: Exception) -> HoldfastError:
    """A wrong flag or command in one line, with a suggestion."""
    context: Any = getattr(error, "ctx", None)
    message = " ".join(str(getattr(error, "message", "") or error).split())
    option = getattr(error, "option_name", None)
    formatted = getattr(error, "format_message", None)
    if option is not None and message.startswith("No such option"):
        message = f"There is no option '{option}'.{_meant(option, _options(context))}"
    elif formatted is not None:
        message = " ".join(formatted().split())
    path = context.command_path if context is not None else "holdfast"
    lacks_job = getattr(getattr(error, "param", None), "name", None) == "job"
    remedy = f"Name the job, or take the newest: {path} --last" if lacks_job else f"See: {path} --help"
    return InvalidInput(message if message.endswith((".", "?")) else f"{message}.", remedy=remedy)


def _options(context: Any) -> list[str]:
    return [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]


def _meant(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if not close and len(word) > 4:
        close = [name for name in known if name.startswith(word)]
    return f" Did you mean '{close[0]}'?" if close else ""


def _report_bug(error: BaseException, *, as_json: bool) -> int:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    text = f"{line} (this is a bug in holdfast)"
    remedy = "Run it again with HOLDFAST_LOG_LEVEL=debug and report what it prints."
    if as_json:
        problem = HoldfastError(text, remedy=remedy).to_problem()
        say_json({**problem, "type": "urn:holdfast:BUG", "code": "BUG", "title": "A bug in holdfast"})
    else:
        say(f"error: {text}")
    if variable("LOG_LEVEL").lower() == "debug":
        say("".join(traceback.format_exception(error)).rstrip())
    elif not as_json:
        say(f"  → {remedy}")
    return ExitCode.BUG
