"""`holdfast why`: what keeps a job from its end, in sentences, each with the command that would help."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of
from holdfast.cli.session import begin_on, command, drive, open_database, reader_of
from holdfast.cli.streams import answer_json, harmless, show
from holdfast.cli.words import age, clock, counted, cut, elapsed, short
from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import ExitCode
from holdfast.moments import moment
from holdfast.settings import Settings
from holdfast.store.reading import Standing
from holdfast.views.why import Cause, Reason, reasons, why_json

SHOWN_NODES = 5
WIDTH = 400


def explain(job: str, *, as_json: bool, database_url: str | None) -> int:
    return drive(_explain(begin_on(job, database_url), job, as_json=as_json, database_url=database_url))


async def _explain(settings: Settings, job: str, *, as_json: bool, database_url: str | None) -> int:
    async with open_database(settings) as store:
        reader = reader_of(store, settings)
        standing = await reader.standing(await reader.find_job(job))
    if as_json:
        answer_json(why_json(standing, lambda reason: _command(standing, reason, database_url)))
        return ExitCode.DONE
    for line in _lines(standing, database_url):
        show(Text(harmless(line)))
    return ExitCode.DONE


def _lines(standing: Standing, database_url: str | None) -> Iterator[str]:
    job = standing.snapshot.job
    took = elapsed(moment(job.started_at), moment(job.finished_at))
    if job.status in JOB_TERMINAL:
        yield f"Job {short(job.job_id)} of {job.workflow_id} is {job.status}" + (f", after {took}." if took else ".")
    else:
        stopping = f", and is stopping ({standing.stop_cause})" if standing.stop_cause is not None else ""
        yield f"Job {short(job.job_id)} of {job.workflow_id} is {job.status}{stopping}, because:"
    last = None
    for reason in reasons(standing):
        yield f"  {cut(_sentence(reason), WIDTH)}"
        helps = _command(standing, reason, database_url)
        if helps is not None and helps != last:
            yield f"    → {helps}"
        last = helps


def _command(standing: Standing, reason: Reason, database_url: str | None) -> str | None:
    """What would help; None where waiting is all that there is to do."""
    job = short(standing.snapshot.job.job_id)
    node = f" --node {reason.node}" if reason.node is not None else ""
    match reason.cause:
        case Cause.RETRY_SCHEDULED:
            return command(f"logs {job}{node}", database_url)
        case Cause.RUNNING:
            return command(f"watch {job}", database_url)
        case Cause.NO_WORKER_FOR_QUEUE | Cause.NO_WORKER_FOR_HANDLER:
            queue, handler = reason.details["queue"], reason.details["handler"]
            return start("worker", [handler], database_url, queue=queue)
        case Cause.BREAKER_OPEN if reason.details["held_by"] is not None:
            return command(f"breakers close {reason.details['breaker']}", database_url)
        case Cause.LIMIT_REACHED if reason.details["limit"] == "slots":
            queue, handler = reason.details["queue"], reason.details["handler"]
            is_full = reason.details["busy"] >= reason.details["slots"]
            return start("worker", [handler], database_url, queue=queue) if is_full else None
        case Cause.NO_ORCHESTRATOR if not reason.details["orchestrators"]:
            return start("up", handlers_of(standing.snapshot.definition), database_url)
        case Cause.SET_ASIDE:
            return command("doctor", database_url)
        case Cause.LOCKED:
            return f"select pg_terminate_backend({reason.details['pid']})"
        case Cause.INCONSISTENT:
            return command("janitor --once", database_url)
        case Cause.PAUSED:
            return command(f"unpause {job}", database_url) if standing.stop_cause is None else None
        case Cause.PARTIAL | Cause.FAILED if reason.node is not None:
            return command(f"logs {job}{node}", database_url)
        case Cause.PARTIAL | Cause.FAILED | Cause.CANCELLED | Cause.COMPLETED:
            handlers = handlers_of(standing.snapshot.definition) if not standing.orchestrators else []
            best = next(iter(standing.snapshot.advice), None)
            return start(best.words(job), handlers, database_url) if best is not None else None
        case _:
            return None


def _sentence(reason: Reason) -> str:
    subject = reason.node or "it"
    since = age(moment(reason.since))
    details = reason.details
    match reason.cause:
        case Cause.WAITING_FOR_NODES:
            return f"{subject} waits for {_some(details['nodes'])}"
        case Cause.RETRY_SCHEDULED:
            until = moment(reason.until)
            when = f" at {clock(until)}" if until is not None else ""
            return f"{_tasks(reason)} tried again{when}, attempt {details['attempt']}{_after(details.get('error'))}"
        case Cause.PAUSED if reason.node is None:
            return f"{details['by']} paused it {since}"
        case Cause.PAUSED:
            return f"{_tasks(reason)} held while the job is paused"
        case Cause.RUNNING:
            return _running(reason, since)
        case Cause.NO_WORKER_FOR_QUEUE:
            return f"{_tasks(reason)} queued {since}, but no live worker serves the queue '{details['queue']}'"
        case Cause.NO_WORKER_FOR_HANDLER:
            return f"{_tasks(reason)} queued {since}, but no live worker has the handler '{details['handler']}'"
        case Cause.BREAKER_OPEN:
            return f"{_tasks(reason)} held by breaker {details['breaker']}, {_breaker(reason, since)}"
        case Cause.LIMIT_REACHED if "tenant" in details:
            return f"{_tasks(reason)} held by limit {details['limit']}: {_limit(reason)}"
        case Cause.LIMIT_REACHED:
            return _limited(reason, since)
        case Cause.NO_ORCHESTRATOR if details["orchestrators"]:
            return f"nobody has taken it yet; {counted(details['orchestrators'], 'orchestrator')} will, within seconds"
        case Cause.NO_ORCHESTRATOR:
            gone = _went(reason, since) if "owner" in details else f"it was handed in {since}"
            return f"no orchestrator is alive; {gone}"
        case Cause.OWNER_GONE:
            return f"{_went(reason, since)}; another orchestrator takes it within seconds"
        case Cause.SET_ASIDE:
            return f"its orchestrator {details['owner'] or ''} cannot advance it: {details['problem']}"
        case Cause.LOCKED:
            who = details["application"] or details["user"] or "a session"
            what = f"{who} (pid {details['pid']}) keeps rows of {_some(details['tables'])} locked"
            return f"{what}; its transaction began {since or 'some time ago'}: {details['query']}"
        case Cause.INCONSISTENT:
            return f"{subject} does not go on: {details['problem']}; the janitor repairs that"
        case Cause.COMPLETED | Cause.PARTIAL | Cause.FAILED | Cause.CANCELLED:
            error = details["error"] or {"code": "", "message": "no error was kept"}
            at = f"{reason.node}{_item(reason)}: " if reason.node is not None else ""
            hint = f" {error['hint']}" if error.get("hint") else ""
            return f"{at}{error['code']}: {error['message']}.{hint}"


def _went(reason: Reason, since: str) -> str:
    """An owner whose row was deleted has no time of its end."""
    went = f"went {since}" if reason.since is not None else "is not known any more"
    return f"{reason.details['owner']} drove it and {went}"


def _running(reason: Reason, since: str) -> str:
    details = reason.details
    if "doing" in details:
        what = counted(details["signals"], "signal") if "signals" in details else "results"
        verb = "reads" if "signals" in details else "gathers"
        return f"{reason.node + ': ' if reason.node else ''}its orchestrator {details['owner']} {verb} {what}"
    if not details["worker_alive"]:
        return f"{_tasks(reason)} on {_some(details['workers'])}, which is gone; a lease ends by itself"
    progress = details["progress"] or {}
    far = f", {progress.get('done')} of {progress.get('total')}" if progress.get("total") is not None else ""
    text = f" ({progress['text']})" if progress.get("text") else ""
    first = "" if details["tasks"] == 1 else "the first "
    where = f"on {_some(details['workers'])}, attempt {details['attempt']}"
    return f"{_tasks(reason)} running, {first}claimed {since} {where}{far}{text}"


def _breaker(reason: Reason, since: str) -> str:
    details, until = reason.details, moment(reason.until)
    why = f": {details['reason']}" if details["reason"] else ""
    if details["held_by"] is not None:
        return f"which {details['held_by']} opened {since}{why}"
    if details["state"] == "half_open":
        return f"which lets a few through since {clock(moment(reason.since) or '')}, to see whether it is well again"
    if details["has_probe"]:
        return f"which opened {since}{why}; its probe finds out when it is well again"
    return f"which opened {since}{why}" + (f"; it is tried again at {clock(until)}" if until is not None else "")


def _limit(reason: Reason) -> str:
    details, until = reason.details, moment(reason.until)
    if until is not None:
        return f"{details['burst']} may begin in {details['burst'] / details['rate']:g} s, the next at {clock(until)}"
    return f"{details['running']} of {details['concurrency']} run, on {_some(details['workers'])}"


def _limited(reason: Reason, since: str) -> str:
    details = reason.details
    if details["limit"] == "window":
        number = counted(details["tasks"], "item")
        return f"{reason.node}: {number} from {details['first'][0]} on wait until those before them are done"
    if details["busy"] >= details["slots"]:
        slots = counted(details["slots"], "slot")
        return f"{_tasks(reason)} queued {since}; all {slots} of {_some(details['workers'])} are taken"
    return f"{_tasks(reason)} queued {since} and next for {_some(details['workers'])}"


def _tasks(reason: Reason) -> str:
    """`resize is`, `resize[3] is`, `resize: 12 items are`; with their first numbers where there are several."""
    number = reason.details["tasks"]
    if number == 1:
        return f"{reason.node}{_item(reason)} is"
    first = ", ".join(map(str, reason.details["first"]))
    return f"{reason.node}: {number:,} items ({first}{', …' if number > len(reason.details['first']) else ''}) are"


def _item(reason: Reason) -> str:
    return f"[{reason.item}]" if reason.item is not None else ""


def _after(error: dict[str, str] | None) -> str:
    return f", after {error['code']}: {error['message']}" if error else ""


def _some(names: list[str]) -> str:
    if not names:
        return "a worker"
    shown = ", ".join(names[:SHOWN_NODES])
    return f"{shown} and {len(names) - SHOWN_NODES} more" if len(names) > SHOWN_NODES else shown
