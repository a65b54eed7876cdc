"""A real mail server on a socket of its own: with TLS and a login if asked, and able to refuse and to fail."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "holdfast", "correct horse"


class Mailbox:
    """Keeps each mail that it has taken. `mode` says how it behaves from the next one on."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.users: list[str | None] = []
        self.mode = "takes"
        self.port = 0

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.mode == "knows no recipient":
            return "550 there is no such person"
        if self.mode == "has no room":
            return "452 the mailbox is full"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.mode == "refuses the mail":
            return "554 this looks like an advertisement"
        if self.mode == "is busy":
            return "451 come again"
        content = cast(bytes, envelope.content)
        self.mails.append(cast(EmailMessage, message_from_bytes(content, policy=cast(Any, default))))
        self.recipients.append(list(envelope.rcpt_tos))
        self.users.append(cast(Any, session).auth_data if session.authenticated else None)
        if self.mode == "is cut after the mail":
            transport = server.transport
            assert transport is not None
            cast(asyncio.Transport, transport).abort()
        return "250 taken"

    @staticmethod
    def login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and data == LoginPassword(USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False, auth_data=USER if is_right else None)


@asynccontextmanager
async def mailbox(scheme: str = "smtp", authority: trustme.CA | None = None) -> AsyncIterator[Mailbox]:
    """A server for URLs that begin so. With TLS, `authority` signs its certificate, and it wants a login."""
    box = Mailbox()
    context = None
    if authority is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    options: dict[str, Any] = {"hostname": "mail.test", "enable_SMTPUTF8": False}
    if context is not None:
        options |= {"authenticator": box.login, "auth_required": True}
        options |= {"auth_require_tls": scheme == "starttls"}
    if scheme == "starttls":
        options |= {"tls_context": context, "require_starttls": True}

    def serve() -> SMTP:
        return SMTP(box, **options)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(serve, "127.0.0.1", 0, ssl=context if scheme == "smtps" else None)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()
