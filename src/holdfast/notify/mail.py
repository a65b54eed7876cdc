"""A mail about the events of a job: what failed in one line, what survived, the command that continues, and a link.

An installation may replace the templates: `subject.txt`, `mail.txt` and `mail.html` in a folder of its own. Values are
escaped before they get into the HTML, and an address is parsed before it gets into a header.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

from holdfast.define.named_file import shown_name
from holdfast.define.notify import JOB_ENDS, is_address
from holdfast.errors import InvalidInput
from holdfast.notify.body import result_url
from holdfast.service_address import page_of_job
from holdfast.store.notify_rows import ClaimedDelivery, NotedEvent

NAMES = ("subject.txt", "mail.txt", "mail.html")
MOST_EVENTS = 50
"""How many lines of events a mail has; it counts all."""
LONGEST_SUBJECT = 200
_ENDS = frozenset(map(str, JOB_ENDS))


class MailRefused(Exception):
    """No such mail can be made. The text says why."""


class Templates(NamedTuple):
    """The texts of a mail."""

    subject: Template
    text: Template
    html: Template


def load_templates(folder: Path | None) -> Templates:
    """The templates of the installation, each if there is one; else ours."""
    return Templates(*(Template(_read(name, folder)) for name in NAMES))


def _read(name: str, folder: Path | None) -> str:
    if folder is not None and not folder.is_dir():
        raise InvalidInput(
            f"HOLDFAST_MAIL_TEMPLATES is no folder: {shown_name(folder)}.", remedy=f"It may have {', '.join(NAMES)}."
        )
    if folder is not None and (folder / name).is_file():
        return (folder / name).read_text(encoding="utf-8")
    return files("holdfast.notify").joinpath("templates", name).read_text(encoding="utf-8")


def checked_sender(text: str) -> Address:
    """The address that mails come from, with or without a name."""
    name, address = parseaddr(text)
    if not is_address(address):
        raise InvalidInput(
            "HOLDFAST_SMTP_FROM is not an address.", remedy="Write it like: Holdfast <holdfast@example.org>"
        )
    return Address(name, addr_spec=address)


def recipient(delivery: ClaimedDelivery) -> Address:
    """The recipient, if the tenant may send to its domain."""
    text = delivery.target
    if not is_address(text):
        raise MailRefused(f"'{text[:100]}' is not an e-mail address")
    domain = text.rpartition("@")[2].lower()
    if domain not in (one.lower() for one in delivery.mail_domains):
        raise MailRefused(
            f"{domain} is not among the mail domains of tenant {delivery.tenant};"
            " an administrator of the installation adds it with: holdfast notify domains"
        )
    return Address(addr_spec=text)


def make_mail(
    delivery: ClaimedDelivery, sender: Address, templates: Templates, public_url: str | None, *, has_ui: bool
) -> EmailMessage:
    """The mail of a delivery. Raises MailRefused if there can be none."""
    to = recipient(delivery)
    if not delivery.events:
        raise MailRefused("the events of the mail are gone")
    last = delivery.events[-1]
    values = _values(delivery, last)
    rows = _rows(delivery, _link(delivery.job_id, public_url, has_ui=has_ui))
    try:
        subject = templates.subject.substitute(values)
        text = templates.text.substitute(
            values, facts="\n".join(f"{label:<15}{value}" for label, value in rows), events=_events(delivery.events)
        )
        markup = templates.html.substitute(
            {name: html.escape(value) for name, value in values.items()},
            facts="".join(_html_row(*row) for row in rows),
            events=_events(delivery.events, lambda line: f"<li>{html.escape(line)}</li>"),
        )
    except (KeyError, ValueError) as problem:
        raise MailRefused(f"a template of the mail cannot be filled in: {problem}") from None
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"] = sender, to
    message["Subject"] = "".join(one for one in " ".join(subject.split()) if one.isprintable())[:LONGEST_SUBJECT]
    message["Date"] = format_datetime(last.created_at)
    message["Message-ID"] = _message_id(delivery.delivery_id, sender)
    if delivery.first_id not in (None, delivery.delivery_id):
        message["In-Reply-To"] = message["References"] = _message_id(str(delivery.first_id), sender)
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    message.add_alternative(markup, subtype="html")
    return message


def _message_id(delivery_id: str, sender: Address) -> str:
    return f"<{delivery_id}@{sender.domain}>"


def _values(delivery: ClaimedDelivery, last: NotedEvent) -> dict[str, str]:
    facts = delivery.facts
    return {
        "headline": _headline(delivery, last),
        "about": _about(delivery, last),
        "failed": facts.failed if facts is not None else "",
        "survived": facts.survived if facts is not None else "",
        "command": facts.command if facts is not None else "",
        "status": facts.status if facts is not None else "",
        "job": delivery.job_id or "",
        "workflow": last.workflow_id or "",
        "tenant": delivery.tenant,
        "generation": str(last.generation or ""),
    }


def _about(delivery: ClaimedDelivery, last: NotedEvent) -> str:
    if delivery.job_id is None:
        return f"Tenant {delivery.tenant}."
    return (
        f"Job {delivery.job_id} of workflow {last.workflow_id}, tenant {delivery.tenant}, generation {last.generation}."
    )


def _headline(delivery: ClaimedDelivery, last: NotedEvent) -> str:
    """How it ended and why, or what has happened so far."""
    subject = last.workflow_id or "Holdfast"
    if last.event in _ENDS:
        failed = delivery.facts.failed if delivery.facts is not None else ""
        return f"{subject} {last.event.removeprefix('job_')}" + (f": {failed}" if failed else "")
    if last.event == "test":
        return "A test: mails reach you"
    return f"{subject}: {_line(delivery.events[0])}"


def _rows(delivery: ClaimedDelivery, link: str | None) -> list[tuple[str, str]]:
    facts = delivery.facts
    found = [("More", link or "")]
    if facts is not None:
        found = [
            ("What failed", facts.failed),
            ("What survived", facts.survived),
            ("To continue", facts.command),
            *found,
        ]
    return [(label, value) for label, value in found if value]


def _link(job_id: str | None, public_url: str | None, *, has_ui: bool) -> str | None:
    """Where a person reads more: the page of the job, or its JSON where there is no web UI."""
    if has_ui and job_id is not None and public_url is not None:
        return page_of_job(job_id, public_url)
    return result_url(job_id, public_url)


def _html_row(label: str, value: str) -> str:
    shown = html.escape(value)
    if label == "To continue":
        shown = f"<code>{shown}</code>"
    elif label == "More":
        shown = f'<a href="{shown}">{shown}</a>'
    return f'<tr><th style="text-align: left; padding-right: 1rem">{label}</th><td>{shown}</td></tr>'


def _events(events: Sequence[NotedEvent], form: Callable[[str], str] = lambda line: f"  {line}") -> str:
    lines = [f"{event.created_at:%Y-%m-%d %H:%M:%S} UTC  {_line(event)}" for event in events[:MOST_EVENTS]]
    if len(events) > MOST_EVENTS:
        lines.append(f"and {len(events) - MOST_EVENTS:,} more")
    return "\n".join(map(form, lines))


def _line(event: NotedEvent) -> str:
    """`3 items failed in each (NO_COVERAGE: nothing covers 1)`"""
    data = event.data or {}
    place = f" in {event.node}" if event.node is not None else ""
    match event.event:
        case "task_exhausted" if event.items:
            what = f"{event.times:,} {'item' if event.times == 1 else 'items'} failed{place}"
        case "task_exhausted":
            what = f"the task failed{place}"
        case "node_failed":
            what = f"{event.node or 'a node'} failed"
        case "test":
            what = f"a test by {data.get('by', 'somebody')}"
        case name if name in _ENDS:
            what = f"the job {'was ' if name == 'job_cancelled' else 'is '}{name.removeprefix('job_')}"
        case name:
            what = f"{name.replace('_', ' ')}{place}"
    why = ": ".join(str(data[name]) for name in ("breaker", "code", "message", "reason") if data.get(name))
    return " ".join(f"{what} ({why})".split()) if why else what
