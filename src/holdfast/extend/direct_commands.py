"""The parts of an app's direct commands: operations that run at once, in the process that is asked.

Public, for modules that an entry point of the group `holdfast.commands` names. A command is a function with
`@command`; it is called with its checked input and a `CommandContext`.
"""

from __future__ import annotations

from holdfast.client_commands import CommandContext
from holdfast.operations.commands import command
from holdfast.operations.identity import EVERY_TENANT, Identity, Permission

__all__ = ["EVERY_TENANT", "CommandContext", "Identity", "Permission", "command"]
