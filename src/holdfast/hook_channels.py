"""The ways to the hooks of the apps that this process has: who a hook acts for when it is called."""

from __future__ import annotations

from holdfast.client import Client
from holdfast.notify.hook_caller import EndedJob, HookCaller
from holdfast.notify.service import Channel
from holdfast.operations.hooks import Hook, known_hooks
from holdfast.operations.scope import Scope
from holdfast.store.postgres import PostgresStore


def hook_channels(store: PostgresStore) -> dict[str, Channel]:
    """A channel for each hook. A hook acts for the tenant of the job, and no other."""

    def channel(hook: Hook) -> Channel:
        async def call(ended: EndedJob) -> None:
            scope = Scope(ended.tenant, f"hook {hook.name}", administers=False)
            await hook.function(ended, Client(store, scope))

        return HookCaller(hook.name, call)

    return {hook.way: channel(hook) for hook in known_hooks().values()}
