"""`holdfast webhooks`: the addresses to which events of a tenant are sent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import age, cut, day_and_clock, elapsed
from holdfast.errors import ExitCode, InvalidInput
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.notify import NewSecret, Webhook

EXAMPLE = "webhooks add portal https://portal.example/hooks --event failed"


def list_webhooks(*, as_json: bool, target: Target) -> int:
    return drive(_list(begin(target), as_json=as_json, target=target))


async def _list(settings: Settings, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        found = await client.webhooks()
    if as_json:
        answer_json({"webhooks": to_json(found)})
    elif found:
        _show(found)
        if any(not one.enabled for one in found):
            say(f"  → When the receiver works again: {target.command('webhooks enable NAME')}")
    else:
        answer(f"Tenant {settings.tenant} has no webhooks.")
        say(f"  → Make one, for example: {target.command(EXAMPLE)}")
    return ExitCode.DONE


def _show(webhooks: Sequence[Webhook]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("webhook", "url", "events", "state"):
        table.add_column(heading, overflow="fold")
    for one in webhooks:
        table.add_row(cut(one.name, 40), cut(one.url, 80), ", ".join(one.events) or "by name only", _state(one))
    show(table)


def _state(one: Webhook) -> str:
    if one.disabled_at is not None:
        return f"disabled {age(one.disabled_at)}: {one.disabled_reason}"
    return f"failing for {elapsed(one.failing_since, None)}" if one.failing_since is not None else "works"


def add_webhook(name: str | None, url: str | None, events: Sequence[str], *, as_json: bool, target: Target) -> int:
    if name is None or url is None:
        raise InvalidInput("`webhooks add` needs a name and a URL.", remedy=f"Write it like: {target.command(EXAMPLE)}")
    return drive(_add(begin(target), name, url, events, as_json=as_json, target=target))


async def _add(settings: Settings, name: str, url: str, events: Sequence[str], *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        kept = await client.keep_webhook(name, url, events=events)
    if as_json:
        answer_json(to_json(kept))
        return ExitCode.DONE
    if kept.secret is not None:
        answer(kept.secret)
        say(f"This is the secret of webhook {name}, with which the receiver checks signatures. It is shown only now.")
    else:
        answer(f"Webhook {name} is changed; its secret stays.")
    if kept.warning is not None:
        say(f"warning: {kept.warning}, in the settings of the processes that send.")
        say(f"  → Try it: {target.command(f'notify test --webhook {name}')}")
    return ExitCode.DONE


def change_webhook(verb: str, name: str | None, *, as_json: bool, target: Target) -> int:
    """Remove, enable or rotate one."""
    if name is None:
        raise InvalidInput(
            f"`webhooks {verb}` needs the name of a webhook.", remedy=f"List them with: {target.command('webhooks')}"
        )
    return drive(_change(begin(target), verb, name, as_json=as_json, target=target))


async def _change(settings: Settings, verb: str, name: str, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        match verb:
            case "remove":
                changed: Webhook | NewSecret = await client.drop_webhook(name)
            case "enable":
                changed = await client.enable_webhook(name)
            case _:
                changed = await client.rotate_webhook(name)
    if as_json:
        answer_json(to_json(changed))
    elif isinstance(changed, NewSecret):
        show_secret(changed, f"webhook {name}")
    elif verb == "enable":
        answer(f"Webhook {name} is enabled.")
        say(f"  → Send again what is dead: {target.command(f'deliveries redrive --webhook {name}')}")
    else:
        answer(f"Webhook {name} is removed; what waited for it is dead.")
    return ExitCode.DONE


def show_secret(made: NewSecret, whose: str) -> None:
    answer(made.secret)
    say(f"This is the new secret of {whose}. It is shown only now.")
    if made.former_secret_until is not None:
        say(f"Until {day_and_clock(made.former_secret_until)} the former one signs too.")
