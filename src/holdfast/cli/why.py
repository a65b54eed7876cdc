"""`holdfast why`: what keeps a job from its end, in sentences, each with the command that would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.text import Text

from holdfast.bootstrap import open_client
from holdfast.cli.failures import failure_lines
from holdfast.cli.fleet import handlers_of, start
from holdfast.cli.pausing import unpause_command
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import answer_json, harmless, show
from holdfast.cli.words import age, coming, counted, cut, elapsed, short
from holdfast.errors import ExitCode
from holdfast.views.encoding import to_json
from holdfast.views.why import Cause, Reason, Why
from holdfast.worker.code_files import older_code

ListCommand = Callable[[str], str]
"""The command that lists the failed tasks of a node."""
SHOWN_NODES = 5
WIDTH = 400
_ENDED = {
    "completed": "completed",
    "partial": "ended partial",
    "failed": "failed",
    "cancelled": "was cancelled",
}


def explain(job: str, *, as_json: bool, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            answer = await client.why(await find_job(client, job, settings))
        reasons = tuple(replace(reason, command=_command(answer, reason, target)) for reason in answer.reasons)
        why = replace(answer, reasons=reasons)
        if as_json:
            answer_json(to_json(why))
        else:
            for line in _lines(why, lambda node: _list_command(why, node, target)):
                show(Text(harmless(line)))
        return ExitCode.DONE

    return drive(work())


def _list_command(why: Why, node: str, target: Target) -> str:
    """Lists the failed tasks of a node."""
    return target.command(f"tasks {short(why.job_id)} {node} --status failed")


def _lines(why: Why, list_command: ListCommand) -> Iterator[str]:
    took = elapsed(why.began_at, why.finished_at)
    name = f"Job {short(why.job_id)} of {why.workflow_id}"
    paused = next((one for one in why.reasons if one.cause is Cause.PAUSED and one.node is None), None)
    if why.is_terminal:
        yield f"{name} {_ENDED[why.status]}" + (f" after {took}." if took else ".")
    elif paused is not None and why.stop_cause is None:
        because = f": {paused.details['reason']}" if paused.details["reason"] else "."
        yield cut(f"{name} is paused, by {paused.details['by']} {age(paused.since)}{because}", WIDTH)
    else:
        stopping = f", and is stopping ({why.stop_cause})" if why.stop_cause is not None else ""
        yield f"{name} is {why.status}{stopping}, because:"
    last = None
    for reason in _in_order(why):
        if why.is_terminal and reason.details.get("error") is None:
            sentence = _without_error(why, reason)
        else:
            sentence = _sentence(reason) if reason is not paused or why.stop_cause is not None else ""
        if sentence:
            yield f"  {cut(sentence, WIDTH)}"
        yield from _failed_items(why, reason, list_command)
        if reason.command is not None and reason.command != last:
            yield f"    → {reason.command}"
        last = reason.command
    for worker in why.outdated if why.status != "completed" else ():
        yield f"  {older_code(worker.name, worker.changed_files)}"


def _in_order(why: Why) -> list[Reason]:
    """What the failed items of nodes explain comes before the command that continues the whole job."""
    if why.is_terminal and why.tolerated:
        return sorted(why.reasons, key=lambda reason: reason.node is None and reason.details.get("error") is None)
    return list(why.reasons)


def _failed_items(why: Why, reason: Reason, list_command: ListCommand) -> Iterator[str]:
    """The failed items of the node below its sentence. A single failure that the sentence quotes is left out."""
    failures = why.failures.get(reason.node or "")
    if failures is None or (failures.failed == 1 and not failures.is_tolerated):
        return
    if len(failures.groups) > 1 or failures.is_tolerated:
        for line in failure_lines(failures.groups, failures.failed, in_batches=failures.in_batches):
            yield f"      {cut(line, WIDTH // 2)}"
    if list_command(failures.node) != reason.command:
        yield f"    → {list_command(failures.node)}"


def _command(why: Why, reason: Reason, target: Target) -> str | None:
    """What would help; None where waiting is all that there is to do."""
    job = short(why.job_id)
    node = f" --node {reason.node}" if reason.node is not None else ""
    match reason.cause:
        case Cause.RETRY_SCHEDULED:
            return target.command(f"logs {job}{node}")
        case Cause.RUNNING:
            return target.command(f"watch {job}")
        case Cause.NO_WORKER_FOR_QUEUE | Cause.NO_WORKER_FOR_HANDLER:
            queue, handler = reason.details["queue"], reason.details["handler"]
            return start("worker", [handler], target, queue=queue)
        case Cause.BREAKER_OPEN if reason.details["held_by"] is not None:
            return target.command(f"breakers close {reason.details['breaker']}")
        case Cause.LIMIT_REACHED if reason.details["limit"] == "slots":
            queue, handler = reason.details["queue"], reason.details["handler"]
            is_full = reason.details["busy"] >= reason.details["slots"]
            return start("worker", [handler], target, queue=queue) if is_full else None
        case Cause.NO_ORCHESTRATOR if not reason.details["orchestrators"]:
            return start("up", handlers_of(why.definition), target)
        case Cause.SET_ASIDE:
            return target.command("doctor")
        case Cause.LOCKED:
            return f"select pg_terminate_backend({reason.details['pid']})"
        case Cause.INCONSISTENT:
            return target.command("janitor --once")
        case Cause.PAUSED if "queue" in reason.details:
            return unpause_command(reason.details["queue"], target)
        case Cause.PAUSED:
            return target.command(f"unpause {job}") if why.stop_cause is None else None
        case Cause.PARTIAL if reason.node is not None and reason.details["error"] is None:
            return _list_command(why, reason.node, target)
        case Cause.PARTIAL | Cause.FAILED if reason.node is not None:
            return target.command(f"logs {job}{node}")
        case Cause.PARTIAL | Cause.FAILED | Cause.CANCELLED | Cause.COMPLETED:
            handlers = handlers_of(why.definition) if not why.orchestrators else []
            best = next(iter(why.recovery), None)
            return start(best.words(job), handlers, target) if best is not None else None
        case _:
            return None


def _sentence(reason: Reason) -> str:
    subject = reason.node or "it"
    since = age(reason.since)
    details = reason.details
    match reason.cause:
        case Cause.WAITING_FOR_NODES:
            return f"{subject} waits for {_some(details['nodes'])}"
        case Cause.RETRY_SCHEDULED:
            until = reason.until
            when = f" at {coming(until)}" if until is not None else ""
            return f"{_tasks(reason)} tried again{when}, attempt {details['attempt']}{_after(details.get('error'))}"
        case Cause.PAUSED if reason.node is None:
            because = f": {details['reason']}" if details["reason"] else ""
            return f"{details['by']} paused it {since}{because}"
        case Cause.PAUSED if "queue" in details:
            because = f": {details['reason']}" if details["reason"] else ""
            return f"{_tasks(reason)} held: queue {details['queue']} is paused, by {details['by']} {since}{because}"
        case Cause.PAUSED:
            return f"{_tasks(reason)} held while the job is paused"
        case Cause.RUNNING:
            return _running(reason, since)
        case Cause.NO_WORKER_FOR_QUEUE:
            return f"{_queued(reason)}, but no live worker serves the queue '{details['queue']}'"
        case Cause.NO_WORKER_FOR_HANDLER:
            return f"{_queued(reason)}, but no live worker has the handler '{details['handler']}'"
        case Cause.BREAKER_OPEN:
            return f"{_tasks(reason)} held by breaker {details['breaker']}, {_breaker(reason, since)}"
        case Cause.LIMIT_REACHED if "tenant" in details:
            return f"{_tasks(reason)} held by limit {details['limit']}: {_limit(reason)}"
        case Cause.LIMIT_REACHED:
            return _limited(reason)
        case Cause.NO_ORCHESTRATOR if details["orchestrators"]:
            return f"no orchestrator owns it yet; one of {details['orchestrators']} takes it within seconds"
        case Cause.NO_ORCHESTRATOR:
            gone = _went(reason, since) if "owner" in details else f"it was submitted {since}"
            return f"no orchestrator is running; {gone}"
        case Cause.OWNER_GONE:
            return f"{_went(reason, since)}; another orchestrator takes it within seconds"
        case Cause.SET_ASIDE:
            return f"its orchestrator {details['owner'] or ''} cannot advance it: {details['problem']}"
        case Cause.LOCKED:
            who = details["application"] or details["user"] or "a session"
            what = f"{who} (pid {details['pid']}) keeps rows of {_some(details['tables'])} locked"
            return f"{what}; its transaction began {since or 'some time ago'}: {details['query']}"
        case Cause.INCONSISTENT:
            return f"{subject} makes no progress: {details['problem']}; the janitor repairs that"
        case Cause.COMPLETED | Cause.PARTIAL | Cause.FAILED | Cause.CANCELLED:
            error = details["error"]
            at = f"{reason.node}{_item(reason)}: " if reason.node is not None else ""
            hint = f" {error['hint']}" if error.get("hint") else ""
            return f"{at}{error['code']}: {error['message']}.{hint}"


def _without_error(why: Why, reason: Reason) -> str:
    """Why a job ended as it did if no error says so; nothing where the failed items of nodes say it."""
    failures = why.failures.get(reason.node or "")
    if failures is not None and failures.is_tolerated:
        codes = ", ".join(dict.fromkeys(str(group.code) for group in failures.groups))
        nouns = ("batch", "batches") if failures.in_batches else ("item",)
        number = f"{failures.failed:,} of {counted(failures.items, *nouns)}"
        return f"{number} of {failures.node} failed ({codes}), and the workflow tolerates that"
    if reason.node is None and why.tolerated:
        return ""
    return f"{reason.node or 'the job'} ended {why.status}, and no error is stored"


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
    details, until = reason.details, reason.until
    error = details["error"]
    call = f"; the last call failed with {error['code']}: {error['message']}" if error else ""
    why = (f": {details['reason']}" if details["reason"] else "") + call
    if details["held_by"] is not None:
        return f"which {details['held_by']} opened {since}{why}"
    if details["state"] == "half_open":
        return f"which opened {since} and lets a few tasks through now, to test the dependency{call}"
    if details["has_probe"]:
        return f"which opened {since}{why}; its probe finds out when it is well again"
    return f"which opened {since}{why}" + (f"; it is tried again at {coming(until)}" if until is not None else "")


def _limit(reason: Reason) -> str:
    details, until = reason.details, reason.until
    if until is not None:
        return f"{details['burst']} may begin in {details['burst'] / details['rate']:g} s, the next at {coming(until)}"
    return f"{details['running']} of {details['concurrency']} run, on {_some(details['workers'])}"


def _limited(reason: Reason) -> str:
    details = reason.details
    if details["limit"] == "window":
        number = counted(details["tasks"], "item")
        return f"{reason.node}: {number} from {details['first'][0]} on wait until those before them are done"
    if details["busy"] >= details["slots"]:
        slots = counted(details["slots"], "slot")
        return f"{_queued(reason)}; all {slots} of {_some(details['workers'])} are taken"
    return f"{_queued(reason)} and next for {_some(details['workers'])}"


def _queued(reason: Reason) -> str:
    """`resize has been queued for 6.0 s`"""
    return f"{_tasks(reason, 'has been', 'have been')} queued for {elapsed(reason.since, None)}"


def _tasks(reason: Reason, one: str = "is", several: str = "are") -> str:
    """`resize is`, `resize[3] is`, `resize: 12 items are`; with their first numbers where there are several."""
    number = reason.details["tasks"]
    if number == 1:
        return f"{reason.node}{_item(reason)} {one}"
    first = ", ".join(map(str, reason.details["first"]))
    more = ", …" if number > len(reason.details["first"]) else ""
    return f"{reason.node}: {number:,} items ({first}{more}) {several}"


def _item(reason: Reason) -> str:
    return f"[{reason.index}]" if reason.index is not None else ""


def _after(error: dict[str, str] | None) -> str:
    return f", after {error['code']}: {error['message']}" if error else ""


def _some(names: list[str]) -> str:
    if not names:
        return "a worker"
    shown = ", ".join(names[:SHOWN_NODES])
    return f"{shown} and {len(names) - SHOWN_NODES} more" if len(names) > SHOWN_NODES else shown
