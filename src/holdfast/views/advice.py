"""What can be advised for a job that has ended, in words."""

from __future__ import annotations

import shlex

from holdfast.core.advising import Advice
from holdfast.core.signals import Request, Verb


def advice_words(advice: Advice, job: str) -> str:
    """The verb as people type it. One that needs a confirmation brings `--yes`: there may be no terminal to ask on."""
    asks = any(step.confirm for step in advice.plan.steps)
    return f"{request_words(advice.request, job)}{' --yes' if asks else ''}"


def advice_note(advice: Advice) -> str:
    """What it is good for."""
    request = advice.request
    if advice.plan.evaluates_result:
        return "evaluate its result once more; nothing runs"
    if request.verb is Verb.RESUME:
        is_redone = any(step.redone for step in advice.plan.steps)
        return f"run what is missing{', and what follows it' if is_redone else '; what completed stays'}"
    if request.verb is Verb.UNDO:
        return "go on with the undo where it was"
    if request.verb is Verb.SKIP:
        return f"go on without {request.node}"
    return f"run {request.node} again" + (", and leave what follows as it is" if request.only else "")


def request_words(request: Request, job: str) -> str:
    """A verb with its arguments as people type it."""
    parts = [str(request.verb), job]
    if request.node is not None:
        parts += ["--from", request.node] if request.verb in (Verb.RERUN, Verb.UNDO) else [request.node]
    parts += [f"--item {item}" for item in request.items]
    parts += ["--code", shlex.quote(request.code)] if request.code else []
    parts += ["--fingerprint", shlex.quote(request.fingerprint)] if request.fingerprint else []
    parts += ["--only"] if request.only else []
    parts += ["--tolerated"] if request.tolerated else []
    return " ".join(parts)
