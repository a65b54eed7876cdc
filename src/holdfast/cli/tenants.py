"""`holdfast tenants`: the tenants that an administrator has made, and the queues that they are bound to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import age, cut
from holdfast.errors import ExitCode, InvalidInput
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.identities import Tenant


def list_tenants(*, as_json: bool, target: Target) -> int:
    return drive(_list(begin(target), as_json=as_json, target=target))


async def _list(settings: Settings, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        found = await client.tenants()
    if as_json:
        answer_json({"tenants": to_json(found)})
    elif found:
        table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
        for heading in ("tenant", "queues", "made", "by"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        for one in found:
            table.add_row(cut(one.name, 40), _queues(one), f"{age(one.created_at)} ago", cut(one.created_by, 40))
        show(table)
    else:
        answer("No tenant has been made. Tenants also exist by their jobs alone.")
        say(f"  → Make one, for example: {target.command('tenants add acme --queue maps')}")
    return ExitCode.DONE


def add_tenant(name: str | None, queues: Sequence[str], *, as_json: bool, target: Target) -> int:
    if name is None:
        raise InvalidInput(
            "`tenants add` needs a name.", remedy=f"Name it: {target.command('tenants add acme --queue maps')}"
        )
    return drive(_add(begin(target), name, list(queues) or None, as_json=as_json))


async def _add(settings: Settings, name: str, queues: Sequence[str] | None, *, as_json: bool) -> int:
    async with open_client(settings) as client:
        kept = await client.keep_tenant(name, queues=queues)
    if as_json:
        answer_json(to_json(kept))
    else:
        what = "is made" if kept.is_new else "is changed"
        answer(f"Tenant {kept.tenant.name} {what}; its workflows may use {_queues(kept.tenant)}.")
    return ExitCode.DONE


def _queues(tenant: Tenant) -> str:
    return ", ".join(tenant.queues) if tenant.queues is not None else "every queue"
