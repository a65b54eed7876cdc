"""Sends mails by SMTP: one recipient each, and one connection for each mail."""

from __future__ import annotations

import asyncio
import ssl
from email.headerregistry import Address

import aiosmtplib

from holdfast.masking import masked
from holdfast.notify.deciding import Ending
from holdfast.notify.mail import MailRefused, Templates, make_mail
from holdfast.notify.mail_server import MailServer
from holdfast.store.notify_rows import ClaimedDelivery

SEND_SECONDS = 30.0


class MailSender:
    """Sends what recipients of mails get."""

    def __init__(
        self,
        server: MailServer,
        sender: Address,
        templates: Templates,
        public_url: str | None,
        *,
        has_ui: bool = False,
        seconds: float = SEND_SECONDS,
    ) -> None:
        self._server = server
        self._sender = sender
        self._templates = templates
        self._public_url = public_url
        self._has_ui = has_ui
        self._seconds = seconds
        self._tls = ssl.create_default_context()

    async def send(self, delivery: ClaimedDelivery) -> Ending:
        try:
            message = make_mail(delivery, self._sender, self._templates, self._public_url, has_ui=self._has_ui)
        except MailRefused as problem:
            return Ending(str(problem), is_final=True, is_of_destination=False)
        client = aiosmtplib.SMTP(
            hostname=self._server.host,
            port=self._server.port,
            username=self._server.user,
            password=self._server.password,
            use_tls=self._server.scheme == "smtps",
            start_tls=self._server.scheme == "starttls",
            tls_context=self._tls if self._server.scheme != "smtp" else None,
            timeout=self._seconds,
        )
        try:
            async with asyncio.timeout(self._seconds):
                await client.connect()
                await client.send_message(message)
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            return _ending(error, self._seconds)
        finally:
            # What the server says to a farewell changes nothing: the mail is there.
            client.close()
        return Ending()


def _ending(error: Exception, seconds: float) -> Ending:
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        error = error.recipients[0]
    if isinstance(error, aiosmtplib.SMTPResponseException):
        says = f"the mail server says {error.code}: {' '.join(str(error.message).split())}"
        is_of_mail = isinstance(error, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError)
        return Ending(
            masked(says), error.code, is_final=is_of_mail and error.code >= 500, is_of_destination=not is_of_mail
        )
    if isinstance(error, TimeoutError | aiosmtplib.SMTPTimeoutError):
        return Ending(f"the mail server did not answer within {seconds:g} s")
    return Ending(masked(f"the mail server cannot be used: {str(error) or type(error).__name__}"))
