"""Handlers that do with a secret what they should not: at the top level, so that another process can import them."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from typing import Any
from urllib.parse import quote

from holdfast.define.registry import Result, handler
from holdfast.errors import Permanent, Transient
from holdfast.worker.context import Context


def every_form(secret: str) -> list[str]:
    """As programs write it, alone and within more."""
    pair = f"user:{secret}"
    return [
        secret,
        json.dumps({"key": secret}),
        repr([secret]),
        f"https://host/?q={quote(secret, safe='')}&r={quote(secret)}",
        *(base64.b64encode(text.encode()).decode() for text in (secret, pair, f"u{pair}", f"us{pair}")),
        base64.urlsafe_b64encode(secret.encode()).decode(),
    ]


def betray(token: str, header: str, ctx: Context) -> Any:
    """Print, log, save and return it, whole and in pieces."""
    assert header == f"Bearer {token} of me"
    for form in every_form(token):
        print(form)
        ctx.logger.warning("the key is %s", form)
        logging.getLogger("elsewhere").error("it is %s", form)
    print(token[:5], end="", flush=True)
    print(token[5:])
    try:
        raise ValueError(f"not {token}")
    except ValueError:
        ctx.logger.exception("with a traceback of %s", token)
    thread = threading.Thread(target=print, args=(f"from a thread: {token}",))
    thread.start()
    thread.join()
    ctx.progress(1, 2, f"with {token}")
    ctx.checkpoint("half", {"forms": every_form(token), token: 1})
    return Result(
        {"forms": every_form(token), token: [{"deep": token}], "padding": "x" * 100_000},
        warnings=(f"careful with {token}",),
        deliverables={"place": f"s3://bucket/{token}"},
    )


def fail(token: str, how: str, ctx: Context) -> None:
    """Raise it."""
    forms = " and ".join(every_form(token))
    if how == "permanent":
        raise Permanent(f"refused {forms}", code="NO_LUCK")
    if how == "transient" and ctx.attempt == 1:
        raise Transient(f"once more {forms}")
    if how == "code":
        raise Permanent("with a code of its own", code=token)
    if how == "named":
        ctx.checkpoint(token, 1)
    if how == "cut":
        raise Permanent("y" * 16_380 + token)
    raise RuntimeError(f"broken: {forms}")


@handler("betray.apart", isolation="process")
def betray_apart(token: str, header: str, *, ctx: Context) -> Any:
    return betray(token, header, ctx)


@handler("betray.here")
def betray_here(token: str, header: str, *, ctx: Context) -> Any:
    return betray(token, header, ctx)


@handler("fail.apart", isolation="process")
def fail_apart(token: str, how: str, *, ctx: Context) -> None:
    fail(token, how, ctx)


@handler("fail.here")
def fail_here(token: str, how: str, *, ctx: Context) -> None:
    fail(token, how, ctx)


@handler("look.around", isolation="process", environment=("*",), attempts_per_process=10)
def look_around(token: str | None = None) -> dict[str, Any]:
    """The process, and which variables of secrets it has."""
    return {"pid": os.getpid(), "variables": [name for name in os.environ if name.startswith("HOLDFAST_SECRET_")]}


@handler("check.length")
def check_length(text: str, whole: Any = None, page: Any = None) -> int:
    """What a handler has got, without telling it."""
    return len(text)


@handler("take.back", isolation="process")
def take_back(params: dict[str, Any], output: Any) -> None:
    """Undo `check.length`: the params have the value again."""
    if len(params["text"]) != output or params["text"].startswith("{{"):
        raise Permanent(f"the params are {params} and the output {output}")
