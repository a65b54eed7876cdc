"""The parts of an app's hooks: functions that are called when a job has ended.

Public, for modules that an entry point of the group `holdfast.hooks` names. A hook is a coroutine function with
`@hook`; it is called with an `EndedJob` and a `Client` that acts for the job's tenant, at least once for each end.
"""

from __future__ import annotations

from holdfast.client import Client
from holdfast.notify.hook_caller import EndedJob
from holdfast.operations.hooks import hook

__all__ = ["Client", "EndedJob", "hook"]
