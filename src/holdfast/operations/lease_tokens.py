"""The leases of workers over HTTP as texts: what a lease is for, signed, so that only the installation can make one.

A token says which task, which epoch and which worker. Whether that worker still holds the lease, the database says.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

import orjson

from holdfast.store.leases import Held

MOST_TOKEN_LENGTH = 2000


class LeaseFacts(NamedTuple):
    """What a token says."""

    job_id: str
    node: str
    item: int
    epoch: int
    holder: int
    """The worker that claimed the task."""
    attempt: int
    claimed_at: int
    """In microseconds since 1970 by the database's clock."""
    handler: str
    tenant: str
    owner: int = 0
    definition_hash: str = ""
    has_contract: bool = False
    """The output must keep the schema that the definition has for the node."""

    @property
    def held(self) -> Held:
        return self.job_id, self.node, self.item, self.epoch


def token_of(secret: bytes, facts: LeaseFacts) -> str:
    body = base64.urlsafe_b64encode(orjson.dumps(list(facts))).rstrip(b"=")
    return f"{body.decode()}.{_signature(secret, body)}"


def facts_of(secret: bytes, token: str) -> LeaseFacts | None:
    """What a token says; None if it was not made with this secret."""
    body, _, signature = token.encode("ascii", "replace").partition(b".")
    if not hmac.compare_digest(_signature(secret, body).encode(), signature):
        return None
    try:
        return LeaseFacts._make(orjson.loads(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))))
    except (binascii.Error, ValueError, TypeError):
        # Another version has made it.
        return None


def _signature(secret: bytes, body: bytes) -> str:
    return base64.urlsafe_b64encode(hmac.digest(secret, b"lease " + body, hashlib.sha256)).rstrip(b"=").decode()
