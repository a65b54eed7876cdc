"""Recovery with psql alone: as a login that may call the functions for people, and nothing else."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Json

from holdfast.define.load import load_text
from holdfast.remedies import Remedy
from holdfast.store.migrate import admit_operators, apply_missing
from holdfast.store.schema import ddl
from tests.conftest import eventually
from tests.running import QUICK, client_of, registry, serving
from tests.store.stage import Stage
from tests.store.test_recovery import ALONE, Play, begun

pytestmark = pytest.mark.anyio

FUNCTIONS = {
    "explain_job", "resume_job", "retry_node", "clear_tasks", "skip_node", "pause_job", "unpause_job", "cancel_job",
    "answer",
}  # fmt: skip
VIEWS = {"job_overview", "node_overview", "failed_tasks"}
FOR_EVERYBODY = {"gates_of", "pick_gated"}
"""They run with the rights of their caller: without a right on the tables they show nothing."""
LOST = "00000000-0000-7000-8000-000000000000"
BORDERED = load_text("""
workflow_id: bordered
inputs: {items: {type: array}}
nodes:
  start: {type: start, next: tell}
  tell: {handler: work, next: end}
  end: {type: end}
""")


class Person:
    """Somebody who has connected with psql."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self.connection = psycopg.connect(url, autocommit=True)
        self.notices: list[str] = []
        self.connection.add_notice_handler(lambda notice: self.notices.append(notice.message_primary or ""))

    def rows(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters).fetchall()

    def send(self, function: str, *arguments: Any, **named: Any) -> int:
        """Call a function; returns the id of the signal."""
        places = [sql.Placeholder()] * len(arguments)
        names = [sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder()) for name in named]
        call = sql.SQL("select {}({})").format(sql.Identifier("holdfast", function), sql.SQL(", ").join(places + names))
        (row,) = self.connection.execute(call, (*arguments, *named.values())).fetchall()
        return int(row[0])

    def answer(self, signal_id: int) -> tuple[bool | None, str, str]:
        ((applied, reason, next_step),) = self.rows("select * from holdfast.answer(%s)", signal_id)
        return applied, reason, next_step

    def explain(self, job_id: str) -> list[str]:
        """The lines, with JOB for the id and TIME for times."""
        lines = [line for (line,) in self.rows("select line from holdfast.explain_job(%s)", job_id)]
        return [
            re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d", "TIME", line.replace(job_id, "JOB")) for line in lines
        ]


@pytest.fixture
def url(database_url: str) -> str:
    """The functions are those of Postgres: the model has none."""
    return database_url


@contextmanager
def logged_in(url: str, options: LiteralString) -> Iterator[Person]:
    name = f"person_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        role, there = sql.Identifier(name), conninfo_to_dict(url)
        connection.execute(sql.SQL("create role {} login password 'quiet' {}").format(role, sql.SQL(options)))
        person = Person(f"postgresql://{name}:quiet@{there['host']}:{there['port']}/{there['dbname']}", name)
        try:
            yield person
        finally:
            person.connection.close()
            connection.execute(sql.SQL("drop owned by {}").format(role))
            connection.execute(sql.SQL("drop role {}").format(role))


@pytest.fixture
def operator(database_url: str) -> Iterator[Person]:
    with logged_in(database_url, "in role holdfast_operator") as person:
        yield person


@pytest.fixture
def stranger(database_url: str) -> Iterator[Person]:
    with logged_in(database_url, "") as person:
        yield person


async def failed(stage: Stage) -> Play:
    """A job whose items 1 and 3 of 5 failed."""
    play = await begun(stage, 5)
    await play.work(1, 3)
    return play


async def answered(play: Play, operator: Person, signal_id: int) -> tuple[bool | None, str, str]:
    await play.cycle()
    return operator.answer(signal_id)


async def test_a_job_is_resumed_and_the_owner_answers(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    signal_id = operator.send("resume_job", play.job_id, "mended")
    look = f"select * from holdfast.answer({signal_id});"
    assert operator.notices == [f"The resume of job {play.job_id} is recorded. See the answer with: {look}"]
    reason, again = "no orchestrator has answered yet; 1 is alive", f"Ask again with: {look}"
    assert operator.answer(signal_id) == (None, reason, again)
    see = f"See how the job is now with: select * from holdfast.explain_job('{play.job_id}');"
    assert await answered(play, operator, signal_id) == (True, "generation 2", see)
    assert [row[:2] for row in await play.queued()] == [("each", 1), ("each", 3)]


@pytest.mark.parametrize(
    ("function", "arguments", "queued"),
    [
        ("retry_node", ("each",), [("each", 1), ("each", 3)]),
        ("clear_tasks", ("each", [0, 3]), [("each", 0), ("each", 3)]),
        ("skip_node", ("each",), [("tell", -1)]),
    ],
)
async def test_a_part_of_a_job_runs_again_or_is_skipped(
    stage: Stage, operator: Person, function: str, arguments: tuple[Any, ...], queued: list[tuple[str, int]]
) -> None:
    play = await failed(stage)
    signal_id = operator.send(function, play.job_id, *arguments)
    assert (await answered(play, operator, signal_id))[:2] == (True, "generation 2")
    assert [row[:2] for row in await play.queued()] == queued


async def test_a_job_is_paused_unpaused_and_cancelled(stage: Stage, operator: Person) -> None:
    play = await begun(stage, 2)
    for function, state in (("pause_job", "paused"), ("unpause_job", "ready")):
        assert (await answered(play, operator, operator.send(function, play.job_id)))[0]
        assert {row["state"] for row in await stage.behind.queue(play.job_id)} == {state}
    assert (await answered(play, operator, operator.send("cancel_job", play.job_id)))[0]
    assert (await play.status(), await play.queued()) == ("cancelled", [])


async def test_a_cancel_that_waits_for_running_tasks_says_so(stage: Stage, operator: Person) -> None:
    play = await begun(stage, 0, flow=ALONE)
    leases = await stage.claim(play.worker)
    signal_id = operator.send("cancel_job", play.job_id)
    applied, reason, again = await answered(play, operator, signal_id)
    assert (applied, reason) == (None, "the job is stopping: its last tasks run, and may finish")
    assert again == f"Ask again with: select * from holdfast.answer({signal_id});"
    lines = operator.explain(play.job_id)
    assert lines[2:4] == [f"CANCELLED: cancelled by {operator.name}", "It is stopping (cancelled)"]
    assert lines[-1] == "  it is stopping; look again with: select * from holdfast.explain_job('JOB');"
    await play.report(leases)
    applied, reason, _ = await answered(play, operator, signal_id)
    assert (applied, reason) == (False, "too late: its last tasks have finished, and it is completed")


async def test_a_refusal_of_the_owner_names_the_function_that_helps(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    applied, reason, next_step = await answered(play, operator, operator.send("retry_node", play.job_id, "tell"))
    assert (applied, reason) == (False, "tell was never reached")
    assert next_step == f"Retry what failed before it: select holdfast.retry_node('{play.job_id}', 'each');"


@pytest.mark.parametrize(
    ("remedy", "words"),
    [
        (Remedy("See how it is", "status", "7"), "See how it is: select * from holdfast.explain_job('7');"),
        (Remedy("Wait", "watch", "7"), "Wait: select * from holdfast.explain_job('7');"),
        (Remedy("Go on", "resume", "7"), "Go on: select holdfast.resume_job('7');"),
        (Remedy("Let it go on", "unpause", "7"), "Let it go on: select holdfast.unpause_job('7');"),
        (Remedy("Run it", "retry", "7", "it's"), "Run it: select holdfast.retry_node('7', 'it''s');"),
        (
            Remedy("Leave the rest", "retry", "7", "a", ("--only",)),
            "Leave the rest: select holdfast.retry_node('7', 'a', only_this => true);",
        ),
        (Remedy("Skip it", "skip", "7", "a"), "Skip it: select holdfast.skip_node('7', 'a');"),
        (Remedy("Run it again", "rerun", "7", flags=("--from", "a")), "Run it again: holdfast rerun 7 --from a"),
        (Remedy("See the queues with", "queues"), "See the queues with: holdfast queues"),
        (Remedy("List the jobs with", "status"), "List the jobs with: holdfast status"),
        (Remedy("Wait until it is reached."), "Wait until it is reached."),
    ],
)
def test_a_remedy_becomes_a_call_where_there_is_a_function(database_url: str, remedy: Remedy, words: str) -> None:
    stored = Json(remedy.to_json())
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute("select holdfast.remedy_words(%s::json::text)", (stored,)).fetchone() == (words,)
        # An older version wrote a sentence.
        assert connection.execute("select holdfast.remedy_words(%s)", ("Wait.",)).fetchone() == ("Wait.",)


async def test_the_history_names_the_login_and_the_person_who_says_a_name(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    for actor, named in (("", operator.name), (" ann ", f"ann ({operator.name})")):
        operator.send("clear_tasks", play.job_id, "each", [0], "mended", actor)
        ((by, reason),) = await rows_of(stage, "select actor, reason from holdfast.inbox where actor is not null")
        assert (by, reason) == (named, "mended")
        await play.cycle()
    ((data,),) = await rows_of(
        stage, "select data from holdfast.events where event = 'job_recovered' order by seq desc limit 1"
    )
    assert (data["actor"], data["reason"]) == (f"ann ({operator.name})", "mended")


async def rows_of(stage: Stage, statement: LiteralString) -> list[tuple[Any, ...]]:
    with psycopg.connect(stage.store.url, autocommit=True) as connection:  # type: ignore[attr-defined]
        return connection.execute(statement).fetchall()


def refusal(operator: Person, function: str, *arguments: Any) -> tuple[type[psycopg.Error], str, str]:
    with pytest.raises(psycopg.Error) as caught:
        operator.send(function, *arguments)
    said = caught.value.diag
    return type(caught.value), said.message_primary or "", said.message_hint or ""


async def test_a_job_that_does_not_exist_is_refused_everywhere(operator: Person) -> None:
    calls: list[tuple[str, tuple[Any, ...]]] = [(name, ()) for name in FUNCTIONS if name.endswith("_job")]
    calls += [("retry_node", ("each",)), ("skip_node", ("each",)), ("clear_tasks", ("each", [1]))]
    for function, arguments in calls:
        kind, message, hint = refusal(operator, function, LOST, *arguments)
        assert (kind, message) == (errors.NoDataFound, f"There is no job {LOST}."), function
        assert "select * from holdfast.job_overview" in hint
    assert refusal(operator, "resume_job", None)[1] == "There is no job without an id."
    assert refusal(operator, "answer", 4711)[:2] == (errors.NoDataFound, "There is no signal 4711.")


async def test_what_a_job_refuses_for_sure_is_refused_at_once(stage: Stage, operator: Person) -> None:
    play = await begun(stage, 5)

    def refused(function: str, *arguments: Any) -> tuple[type[psycopg.Error], str, str]:
        kind, message, hint = refusal(operator, function, play.job_id, *arguments)
        words, _, why = message.partition(": ")
        assert words.startswith(f"Job {play.job_id} was not changed by ")
        return kind, why, hint.replace(play.job_id, "JOB")

    look = "select * from holdfast.explain_job('JOB');"
    state, argument = errors.ObjectNotInPrerequisiteState, errors.InvalidParameterValue
    on_its_way = f"It goes on by itself; see how it is with: {look}"
    assert refused("resume_job") == (state, "it is running.", on_its_way)
    for function in ("retry_node", "skip_node"):
        for name in ("eech", "", None):
            kind, why, hint = refused(function, name)
            assert (kind, hint) == (errors.NoDataFound, "Its nodes are: each, all, tell")
            assert why == f"it has no node {'NULL' if name is None else repr(name)}."
    assert refused("clear_tasks", "eech", [1])[0] is errors.NoDataFound
    for items in ([], None, [None]):
        kind, why, hint = refused("clear_tasks", "each", items)
        assert (kind, why) == (argument, "it names no items.")
        assert hint == "Name them by number: select holdfast.clear_tasks('JOB', 'each', array[0, 3]);"
    for wrong in (5, -1):
        kind, why, hint = refused("clear_tasks", "each", [0, wrong])
        assert (kind, why) == (argument, f"there is no item {wrong}; each has 5 items, numbered from 0.")
        assert hint == "See what failed with: select * from holdfast.failed_tasks where job_id = 'JOB';"
    assert refused("clear_tasks", "tell", [-1])[1] == "there is no item -1; tell has items, numbered from 0."
    await play.work()
    for function in ("pause_job", "unpause_job"):
        assert refused(function) == (state, "it is already completed.", f"See how it ended with: {look}")
    assert refused("cancel_job")[1] == "too late, it is already completed."
    assert refused("resume_job") == (state, "it is completed.", f"See how it ended with: {look}")
    kind, why, hint = refused("clear_tasks", "tell", [0])
    assert (kind, why) == (argument, "tell has one task and no items.")
    assert hint == "If it failed, run it again with: select holdfast.retry_node('JOB', 'tell');"
    assert await rows_of(stage, "select count(*) from holdfast.inbox") == [(0,)]


async def test_a_failed_job_that_is_unpaused_is_resumed_instead(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    _, message, hint = refusal(operator, "unpause_job", play.job_id)
    assert "it is already failed" in message
    assert hint == f"Continue it with: select holdfast.resume_job('{play.job_id}');"


async def test_start_and_end_are_no_nodes_for_a_verb(stage: Stage, operator: Person) -> None:
    play = await begun(stage, 0, flow=BORDERED)
    assert refusal(operator, "skip_node", play.job_id, "end")[2] == "Its nodes are: tell"


async def test_items_in_an_array_of_two_dimensions_are_one_list(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    signal_id = operator.send("clear_tasks", play.job_id, "each", [[0, 1], [2, 3]])
    assert (await answered(play, operator, signal_id))[0]
    assert [row[1] for row in await play.queued()] == [0, 1, 2, 3]


async def test_a_signal_wakes_the_owner_as_one_of_the_client_does(stage: Stage, operator: Person) -> None:
    play = await begun(stage, 2)
    with psycopg.connect(stage.store.url, autocommit=True) as listening:  # type: ignore[attr-defined]
        listening.execute("listen holdfast_signal")
        await stage.store.send(play.job_id, "pause", "ann", "")
        operator.send("pause_job", play.job_id)
        wakes = [notify.payload for notify in listening.notifies(timeout=5, stop_after=2)]
    assert wakes == [str(play.owner.orchestrator_id)] * 2


async def test_a_signal_that_is_sent_while_no_orchestrator_is_alive_is_applied_once_one_starts(
    database_url: str, operator: Person
) -> None:
    mended: list[bool] = []

    async def work() -> str:
        if not mended:
            raise ValueError("not yet")
        return "done"

    handlers = registry(work=work)
    flow = "workflow_id: w\nnodes: {a: {handler: work, retry: {max_retries: 0}}}"
    async with client_of(database_url) as engine:
        async with serving(database_url, handlers, **QUICK):
            job_id = await engine.submit(flow)
            assert (await engine.finished(job_id))["status"] == "failed"
        mended.append(True)
        signal_id = operator.send("resume_job", job_id)
        start = "Start one with: holdfast up. It answers what waits."
        assert operator.answer(signal_id) == (None, "no orchestrator has answered yet, and none is alive", start)
        lines = operator.explain(job_id)
        assert f"Signal {signal_id}, resume by {operator.name} at TIME, has no answer yet" in lines
        assert "No orchestrator is alive, so nothing moves. Start one with: holdfast up" in lines
        async with serving(database_url, handlers, **QUICK):

            async def is_answered() -> bool:
                return operator.answer(signal_id)[0] is True

            await eventually(is_answered)
            assert (await engine.finished(job_id))["status"] == "completed"


async def test_a_call_in_a_transaction_that_is_rolled_back_sends_nothing(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    with operator.connection.transaction(force_rollback=True):
        signal_id = operator.send("resume_job", play.job_id)
        assert operator.answer(signal_id)[0] is None
    await play.cycle()
    assert refusal(operator, "answer", signal_id)[0] is errors.NoDataFound
    assert await play.status() == "failed"


async def test_a_failed_job_is_explained_with_what_can_be_done(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    assert operator.explain(play.job_id) == [
        "Job JOB of workflow wide, version 1, tenant default",
        "Status: failed since TIME, generation 1",
        "",
        "node  status     completed  failed  running       of",
        "each  failed             3       2        0        5"
        "  HANDLER_ERROR in item 1: 2 of 5 items failed; the first: as scripted",
        "all   cancelled          0       0        0        0  job stopped",
        "tell  cancelled          0       0        0        0  job stopped",
        "",
        "What you can do next:",
        "  run what is missing, and what follows it: select holdfast.resume_job('JOB');",
        "  run each again: select holdfast.retry_node('JOB', 'each');",
        "  continue without each: select holdfast.skip_node('JOB', 'each');",
        "  see what failed: select * from holdfast.failed_tasks where job_id = 'JOB';",
    ]


async def test_a_running_job_is_explained_with_what_can_be_done(stage: Stage, operator: Person) -> None:
    play = await begun(stage, 3)
    leases = await stage.claim(play.worker, 2)
    await play.report(leases[:1], leases[0].item)
    await play.cycle()
    lines = operator.explain(play.job_id)
    assert lines[1:5] == [
        "Status: running since TIME, generation 1",
        "",
        "node  status     completed  failed  running       of",
        "each  running            0       1        1        3  HANDLER_ERROR in item 0: as scripted",
    ]
    assert lines[-4:] == [
        "  start no more tasks for a while: select holdfast.pause_job('JOB');",
        "  stop it; what it has finished is kept: select holdfast.cancel_job('JOB');",
        "  run failed items of each again: select holdfast.clear_tasks('JOB', 'each', '{0}');",
        "  see what failed: select * from holdfast.failed_tasks where job_id = 'JOB';",
    ]
    operator.send("pause_job", play.job_id)
    await play.cycle()
    lines = operator.explain(play.job_id)
    assert lines[2] == f"It is paused by {operator.name}"
    assert "  let it continue: select holdfast.unpause_job('JOB');" in lines


async def test_a_partial_job_and_a_completed_one_are_explained(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    operator.send("skip_node", play.job_id, "each")
    await play.cycle()
    await play.work()
    lines = operator.explain(play.job_id)
    assert lines[1] == "Status: partial since TIME, generation 2"
    assert lines[4] == "each  completed          3       0        0        5  by person"
    assert lines[-1] == "  run what is missing, and what follows it: select holdfast.resume_job('JOB');"
    other = await begun(stage, 1)
    await other.work()
    assert operator.explain(other.job_id)[-1] == "tell  completed          1       0        0        1"


async def test_every_call_that_an_explanation_shows_can_be_made(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    calls = [line.partition(": ")[2].replace("JOB", play.job_id) for line in operator.explain(play.job_id)[-4:]]
    for call in calls:
        with operator.connection.transaction(force_rollback=True):
            operator.connection.execute(call.encode())


async def test_the_words_of_a_failure_stay_in_one_line(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    with psycopg.connect(stage.store.url, autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute("update holdfast.nodes set error = %s where node = 'each'", (LONG,))
    (line,) = (line for line in operator.explain(play.job_id) if line.startswith("each"))
    assert line.endswith("  X: one two " + "y" * 88 + "…")


LONG = Json({"code": "X", "message": "one\n\ttwo " + "y" * 200})


async def test_views_show_the_jobs_of_all_tenants_and_neither_params_nor_outputs(
    stage: Stage, operator: Person
) -> None:
    play = await failed(stage)
    await stage.submit(tenant="acme")
    overview = operator.rows(
        "select tenant, workflow_id, status, task_count, completed_count, failed_count, owner, error_code"
        " from holdfast.job_overview order by created_at"
    )
    assert overview == [
        ("default", "wide", "failed", 5, 3, 2, None, "HANDLER_ERROR"),
        ("acme", "w", "pending", 0, 0, 0, None, None),
    ]
    tasks = operator.rows(
        "select node, item, attempt, worker, error_code, error_class, error_message from holdfast.failed_tasks"
        " where job_id = %s order by item",
        play.job_id,
    )
    assert tasks == [("each", n, 1, "worker", "HANDLER_ERROR", "permanent", "as scripted") for n in (1, 3)]
    nodes = operator.rows("select place, node, type, importance, status, error_item from holdfast.node_overview")
    assert nodes == [
        (1, "each", "fan_out", "critical", "failed", 1),
        (2, "all", "fan_in", "critical", "cancelled", None),
        (3, "tell", "task", "critical", "cancelled", None),
    ]
    for view in VIEWS:
        shown = operator.connection.execute(sql.SQL("select * from {}").format(sql.Identifier("holdfast", view)))
        assert shown.description is not None
        assert not {column.name for column in shown.description} & {"params", "inputs", "output", "result", "log"}


def test_an_operator_may_use_the_views_and_functions_for_people_and_nothing_else(operator: Person) -> None:
    readable = operator.rows(
        "select relname from pg_class where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'v', 'm', 'p')"
        " and has_table_privilege(oid, 'select, insert, update, delete, truncate, references, trigger')"
    )
    assert {name for (name,) in readable} == VIEWS
    changeable = operator.rows(
        "select relname from pg_class where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'v', 'm', 'p')"
        " and has_table_privilege(oid, 'insert, update, delete, truncate, references, trigger')"
    )
    assert changeable == []
    usable = operator.rows(
        "select relname from pg_class where relnamespace = 'holdfast'::regnamespace and case when relkind = 'S'"
        " then has_sequence_privilege(oid, 'usage, select, update') end"
    )
    assert usable == []
    assert callable_by(operator, operator.name) == FUNCTIONS | FOR_EVERYBODY
    assert operator.rows("select has_schema_privilege('holdfast', 'create')") == [(False,)]


@pytest.mark.parametrize(
    "statement",
    [
        "select * from holdfast.jobs",
        "select params, output from holdfast.tasks",
        "insert into holdfast.inbox (job_id, kind) values (gen_random_uuid(), 'cancel')",
        "delete from holdfast.answers",
        "select holdfast.send_verb(gen_random_uuid(), 'cancel', '', 'root')",
        "select holdfast.admit_operators('mallory')",
        "set search_path = holdfast; select * from pick_gated(array[1], 1, true)",
        "create table holdfast.mine (n int)",
    ],
)
def test_an_operator_is_denied_everything_else(operator: Person, statement: LiteralString) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        operator.connection.execute(statement)


def test_a_login_without_the_role_may_call_nothing(stranger: Person, database_url: str) -> None:
    assert refusal(stranger, "cancel_job", LOST)[0] is errors.InsufficientPrivilege
    with psycopg.connect(database_url, autocommit=True) as connection:
        # A role of the services, which may use the schema.
        connection.execute(sql.SQL("grant usage on schema holdfast to {}").format(sql.Identifier(stranger.name)))
    assert refusal(stranger, "cancel_job", LOST)[0] is errors.InsufficientPrivilege


async def test_the_functions_cannot_be_led_astray_by_the_search_path(stage: Stage, operator: Person) -> None:
    play = await failed(stage)
    operator.connection.execute("create temporary table jobs (job_id uuid, status text, owner bigint)")
    operator.connection.execute("set search_path = pg_temp, holdfast")
    assert (await answered(play, operator, operator.send("resume_job", play.job_id)))[0]


@pytest.mark.usefixtures("template_database")  # Its migration has made the role for the whole server.
@pytest.mark.parametrize("is_printed", [False, True], ids=["migrate", "ddl"])
async def test_a_role_that_may_make_no_roles_migrates_and_admits_operators(
    empty_database_url: str, is_printed: bool
) -> None:
    with (
        psycopg.connect(empty_database_url, autocommit=True) as administrator,
        logged_in(empty_database_url, "") as owner,
    ):
        database, role = sql.Identifier(empty_database_url.rsplit("/", 1)[1]), sql.Identifier(owner.name)
        administrator.execute(sql.SQL("grant create on database {} to {}").format(database, role))
        if is_printed:
            owner.connection.execute(ddl().encode())
        else:
            await apply_missing(owner.url)
        assert callable_by(owner, "holdfast_operator") == FUNCTIONS | FOR_EVERYBODY
        # A role of another name stands for one that does not exist: the tests share their server.
        operators = f"operators_{uuid.uuid4().hex[:12]}"
        assert owner.rows("select holdfast.admit_operators(%s)", operators) == [(False,)]
        role = sql.Identifier(operators)
        administrator.execute(sql.SQL("create role {}").format(role))
        try:
            for _ in range(2):
                assert owner.rows("select holdfast.admit_operators(%s)", operators) == [(True,)]
            assert callable_by(owner, operators) == FUNCTIONS | FOR_EVERYBODY
        finally:
            administrator.execute(sql.SQL("drop owned by {}").format(role))
            administrator.execute(sql.SQL("drop role {}").format(role))


async def test_migrate_gives_back_the_privileges_that_a_restore_left_out(empty_database_url: str) -> None:
    await apply_missing(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("revoke all on all functions in schema holdfast from holdfast_operator")
        connection.execute("revoke all on all tables in schema holdfast from holdfast_operator")
        connection.execute("revoke all on schema holdfast from holdfast_operator")
        # The privileges that a function has by itself.
        connection.execute("update pg_proc set proacl = null where pronamespace = 'holdfast'::regnamespace")
        assert await admit_operators(empty_database_url)
    with logged_in(empty_database_url, "in role holdfast_operator") as operator:
        assert callable_by(operator, operator.name) == FUNCTIONS | FOR_EVERYBODY
        assert operator.rows("select * from holdfast.job_overview") == []
        # It neither owns the schema nor may it create roles: nothing is left to do, and nothing fails.
        assert await admit_operators(operator.url)


def callable_by(person: Person, role: str) -> set[str]:
    rows = person.rows(
        "select proname from pg_proc where pronamespace = 'holdfast'::regnamespace"
        " and has_function_privilege(%s, oid, 'execute') and has_schema_privilege(%s, 'holdfast', 'usage')",
        role,
        role,
    )
    return {name for (name,) in rows}
