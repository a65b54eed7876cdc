"""What those may change who may submit but not operate: only what they have submitted themselves."""

from __future__ import annotations

from holdfast.errors import Forbidden
from holdfast.operations.identity import Permission
from holdfast.service.call import CallContext


async def refuse_unless_own(call: CallContext, job_id: str) -> None:
    """Refuse a change of a job of somebody else. Those who may operate may change every job of their tenant."""
    if Permission.OPERATE in call.identity.permissions:
        return
    # Raises NotFound where there is no such job, so that a refusal says nothing of other tenants.
    await call.client.find_job(job_id)
    submitter = await call.state.store.identities().submitter(call.tenant, job_id)
    if submitter != call.identity.name:
        raise Forbidden(
            f"{call.identity.name} did not submit job {job_id}, and may stop only its own.",
            remedy=f"Use a key with the permission {Permission.OPERATE}.",
        )
