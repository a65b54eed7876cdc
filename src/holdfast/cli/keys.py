"""`holdfast keys`: the API keys of the HTTP service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import age, cut, day_and_clock, parse_duration
from holdfast.errors import ExitCode, InvalidInput
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.identities import Key


def list_keys(*, as_json: bool, target: Target) -> int:
    return drive(_list(begin(target), as_json=as_json, target=target))


async def _list(settings: Settings, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        found = await client.keys()
    if as_json:
        answer_json({"keys": to_json(found)})
    elif found:
        _show(found)
    else:
        answer(f"Tenant {settings.tenant} has no keys.")
        say(f"  → Make one, for example: {target.command('keys add ci --role submitter')}")
    return ExitCode.DONE


def _show(keys: Sequence[Key]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("key", "name", "tenant", "roles", "made", "last used", "ends"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for one in keys:
        made, used = f"{age(one.created_at)} ago", f"{age(one.last_used_at)} ago" if one.last_used_at else "never"
        table.add_row(
            f"{one.prefix}…", cut(one.name, 40), cut(one.tenant, 40), ", ".join(one.roles), made, used, _end(one)
        )
    show(table)


def _end(one: Key) -> str:
    if one.revoked_at is not None:
        return f"revoked by {one.revoked_by}"
    if one.expires_at is None:
        return "never"
    return day_and_clock(one.expires_at) if one.valid else f"ended {day_and_clock(one.expires_at)}"


def add_key(name: str | None, roles: Sequence[str], *, expires: str | None, as_json: bool, target: Target) -> int:
    if name is None:
        raise InvalidInput(
            "`keys add` needs a name.", remedy=f"Name it: {target.command('keys add ci --role submitter')}"
        )
    if not roles:
        raise InvalidInput(
            "`keys add` needs a role.", remedy=f"Give one: {target.command(f'keys add {name} --role viewer')}"
        )
    seconds = parse_duration(expires, "--expires") if expires is not None else None
    expires_at = datetime.now(UTC) + timedelta(seconds=seconds) if seconds is not None else None
    return drive(_add(begin(target), name, roles, expires_at, as_json=as_json))


async def _add(
    settings: Settings, name: str, roles: Sequence[str], expires_at: datetime | None, *, as_json: bool
) -> int:
    async with open_client(settings) as client:
        made = await client.add_key(name, roles=roles, expires_at=expires_at)
    if as_json:
        answer_json(to_json(made))
    else:
        answer(made.key)
        say(f"This is the key of {name}, for tenant {made.details.tenant}. It is shown only now.")
    return ExitCode.DONE


def revoke_key(prefix: str | None, *, as_json: bool, target: Target) -> int:
    if prefix is None:
        raise InvalidInput("`keys revoke` needs a key.", remedy=f"List them with: {target.command('keys')}")
    return drive(_revoke(begin(target), prefix, as_json=as_json))


async def _revoke(settings: Settings, prefix: str, *, as_json: bool) -> int:
    async with open_client(settings) as client:
        ended = await client.revoke_key(prefix)
    if as_json:
        answer_json(to_json(ended))
    else:
        answer(f"Key {ended.prefix}… of {ended.name} is revoked; within five seconds no request can use it.")
    return ExitCode.DONE
