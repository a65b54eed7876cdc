"""Signatures by Standard Webhooks: a receiver knows from whom a request is, and that it is not an old one.

A secret is `whsec_` and base64. While one is changed for another, both sign.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
SECRET_BYTES = 32
ROTATION_SECONDS = 86_400.0
"""For how long the former secret still signs."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(delivery_id: str, seconds: int, body: bytes, keys: Iterable[str | None]) -> dict[str, str]:
    """The headers of one try; `seconds` is now, since 1970."""
    signed = b"%b.%d.%b" % (delivery_id.encode(), seconds, body)
    signatures = [f"v1,{_signature(key, signed)}" for key in keys if key is not None]
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
