"""Direct commands: operations of apps that run at once, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import Body, Path, Request, Response

from holdfast.client_commands import CommandContext
from holdfast.errors import Forbidden, Unreachable
from holdfast.operations import commands
from holdfast.operations.app_functions import NAME_LENGTH
from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.commands import DirectCommand

table = RouteTable("commands")


class CallerLeft(Unreachable):
    code = "CALLER_LEFT"
    title = "The caller did not wait for the answer"


@table.get("/commands", Permission.READ, answers=ListOf(DirectCommand))
async def list_commands(call: Call) -> Response:
    """The direct commands by name: each with the permission that it needs, and the schemas of its input and output."""
    return call.items(commands.commands())


@table.post("/commands/{name}", Permission.READ, answers=dict[str, Any], errors=(Forbidden, commands.CommandFailed))
async def run_command(
    call: Call,
    name: Annotated[str, Path(description="The name of a command.", max_length=NAME_LENGTH)],
    given: Annotated[dict[str, Any], Body(description="What the command takes; its schema says what.", examples=[{}])],
) -> Response:
    """Call a command once and answer what it returns. The command says which permission it needs.

    It is idempotent: a caller that got no answer may ask again. It ends when the caller has closed the connection.
    """
    context = CommandContext(call.client, call.identity)
    work = commands.run_command(call.client.scope, call.state.store, call.identity, name, given, context)
    return call.answer(await _while_asked(call.request, work))


async def _while_asked(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of the work, which is cancelled if the caller leaves: the caller's timeout is its timeout."""
    running, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    either: set[asyncio.Future[Any]] = {running, leaving}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise CallerLeft("The caller closed the connection before the command had ended.")
        return running.result()
    finally:
        for one in either:
            one.cancel()
        await asyncio.gather(*either, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
