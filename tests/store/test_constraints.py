"""Each named constraint refuses what its sentence says, and only that."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

JOB = "00000000-0000-7000-8000-000000000001"
GOOD = {
    "jobs": "insert into jobs (job_id, workflow_id, version, definition_hash, identity, body_hash, inputs, {columns})"
    f" values ('{JOB}', 'w', '1', 'd', 'i', 'b', '{{{{}}}}', {{values}})",
    "nodes": f"insert into nodes (job_id, node, {{columns}}) values ('{JOB}', 'n', {{values}})",
    "tasks": f"insert into tasks (job_id, node, {{columns}}) values ('{JOB}', 'n', {{values}})",
    "queue": "insert into queue (job_id, node, item, epoch, attempt, lane_id, owner, timeout_seconds, {columns})"
    f" values ('{JOB}', 'n', 0, 1, 1, 1, 1, 60, {{values}})",
    "inbox": f"insert into inbox (job_id, {{columns}}) values ('{JOB}', {{values}})",
    "janitor_actions": "insert into janitor_actions (run, duty, reason, {columns})"
    f" values ('{JOB}', 'd', 'r', {{values}})",
    "breakers": "insert into breakers (name, settings, {columns}) values ('b', '{{}}', {values})",
    "limits": "insert into limits (tenant, name, {columns}) values ('', 'tenant', {values})",
    "payloads": f"insert into payloads (job_id, bytes, {{columns}}) values ('{JOB}', 1, {{values}})",
    "api_keys": "insert into api_keys (prefix, secret_hash, name, tenant, created_by, {columns})"
    " values ('p', 'h', 'n', 't', 'a', {values})",
    "stats_progress": "insert into stats_progress (snapshot, {columns}) values (pg_current_snapshot(), {values})",
    "sources": "insert into sources (tenant, definition_hash, content, {columns}) values ('t', 'd', 'c', {values})",
    "tenants": "insert into tenants (created_by, {columns}) values ('a', {values})",
    "sessions": "insert into sessions (token_hash, name, tenant, expires_at, {columns})"
    " values ('h', 'n', 't', now(), {values})",
    "lanes": "insert into lanes (queue, handler, {columns}) values ('q', 'h', {values})",
    "webhooks": "insert into webhooks (tenant, name, url, events, secret, created_by, {columns})"
    " values ('t', 'n', 'u', '{{}}', 's', 'a', {values})",
    "deliveries": "insert into deliveries (outbox_id, tenant, kind, receiver, destination, {columns})"
    " values (1, 't', 'webhook', 'r', 'd', {values})",
    "schedules": "insert into schedules (tenant, name, schedule_id, workflow_id, time_zone, anchored_at, inputs,"
    " created_by, changed_by, {columns})"
    f" values ('t', 'n', '{JOB}', 'w', 'UTC', now(), '{{{{}}}}', 'a', 'a', {{values}})",
    "installation_secrets": "insert into installation_secrets (lease_secret, {columns}) values ('s', {values})",
}

TICKS, HOURLY = "every_seconds, overlap, catch_up, source", "3600, 'skip', 'none', 'person'"

REFUSED = {
    "job_status_is_known": ("jobs", "status, finished_at", "'held', now()"),
    "finished_jobs_have_a_finishing_time": ("jobs", "status", "'completed'"),
    "finished_at_is_not_before_started_at": (
        "jobs", "status, started_at, finished_at", "'failed', now(), now() - interval '1 s'",
    ),
    "generation_counts_from_one": ("jobs", "generation", "0"),
    "run_counts_from_one": ("jobs", "run", "0"),
    "node_status_is_known": ("nodes", "status", "'quarantined'"),
    "a_node_has_no_more_rows_than_its_width": ("nodes", "status, width, expanded_count", "'running', 1, 2"),
    "counters_do_not_exceed_the_rows": (
        "nodes",
        "status, width, expanded_count, completed_count, failed_count, skipped_count, cancelled_count",
        "'running', 3, 3, 1, 1, 1, 1",
    ),
    "only_existing_rows_are_enqueued": ("nodes", "status, width, expanded_count, enqueued_count", "'running', 3, 1, 2"),
    "task_status_is_known": ("tasks", "item, status, finished_at", "0, 'running', now()"),
    "item_is_an_index_or_minus_one": ("tasks", "item", "-2"),
    "finished_tasks_have_a_finishing_time": ("tasks", "item, status", "0, 'completed'"),
    "queue_state_is_known": ("queue", "state", "'parked'"),
    "leased_rows_have_a_holder": ("queue", "state", "'leased'"),
    "waiting_rows_have_a_due_time": ("queue", "state", "'waiting'"),
    "signal_kind_is_known": ("inbox", "kind", "'nonsense'"),
    "keys_have_a_role": ("api_keys", "roles", "'{}'"),
    "tenants_have_a_name": ("tenants", "name", "'*'"),
    "bound_tenants_have_a_queue": ("tenants", "name, queues", "'t', '{}'"),
    "sessions_have_a_role": ("sessions", "roles", "'{}'"),
    "breaker_state_is_known": ("breakers", "state", "'ajar'"),
    "only_an_open_breaker_is_held": ("breakers", "state, held", "'half_open', true"),
    "limits_are_above_zero": ("limits", "concurrency", "0"),
    "a_rate_has_a_burst": ("limits", "rate", "1"),
    "janitor_action_is_known": ("janitor_actions", "action", "'repair'"),
    "there_is_one_row": ("stats_progress", "is_only_row", "false"),
    "source_kind_is_known": ("sources", "kind", "'xml'"),
    "a_disabled_webhook_has_a_reason": ("webhooks", "disabled_at", "now()"),
    "delivery_status_is_known": ("deliveries", "status", "'lost'"),
    "schedules_have_a_cron_expression_or_an_interval": ("schedules", f"cron, {TICKS}", f"'* * * * *', {HOURLY}"),
    "schedule_overlap_is_known": ("schedules", TICKS, HOURLY.replace("skip", "wait")),
    "schedule_catch_up_is_known": ("schedules", TICKS, HOURLY.replace("none", "some")),
    "schedule_source_is_known": ("schedules", TICKS, HOURLY.replace("person", "wind")),
    "paused_schedules_have_no_next_tick": ("schedules", f"paused_at, next_at, {TICKS}", f"now(), now(), {HOURLY}"),
    "at_most_a_hundred_ticks_wait": ("schedules", f"waiting, {TICKS}", f"array_fill(now(), array[101]), {HOURLY}"),
    "installation_has_one_row": ("installation_secrets", "only_one", "false"),
    "payloads_are_named_by_their_sha256": ("payloads", "digest", "'../../etc/passwd'"),
}  # fmt: skip

ACCEPTED = [
    ("jobs", "status, started_at, finished_at", "'completed', now(), now()"),
    ("jobs", "status", "'running'"),
    (
        "nodes",
        "status, width, expanded_count, enqueued_count, completed_count, failed_count",
        "'running', 3, 2, 2, 1, 1",
    ),
    ("tasks", "item", "-1"),
    ("tasks", "item, status, finished_at", "3, 'skipped', now()"),
    ("queue", "state, holder", "'leased', 1"),
    ("queue", "state, due_at", "'waiting', now()"),
    ("inbox", "kind", "'cancel'"),
    ("inbox", "kind", "'recheck'"),
    ("janitor_actions", "action", "'alert'"),
    ("breakers", "state, held", "'open', true"),
    ("limits", "rate, burst", "0.5, 1"),
    ("limits", "backlog", "9"),
    ("payloads", "digest", f"'{'0f' * 32}'"),
    ("webhooks", "disabled_at, disabled_reason", "now(), 'gone'"),
    ("deliveries", "status", "'gathering'"),
    ("schedules", f"next_at, waiting, {TICKS}", f"now(), array_fill(now(), array[100]), {HOURLY}"),
    ("schedules", "cron, overlap, catch_up, source, paused_at", "'0 3 * * *', 'queue', 'all', 'left_file', now()"),
]


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True, options="-c search_path=holdfast") as opened:
        opened.execute(
            "insert into workflows (definition_hash, workflow_id, version, definition) values ('d','w','1','{}')"
        )
        yield opened


def insert(connection: psycopg.Connection, table: str, columns: str, values: str) -> None:
    connection.execute(GOOD[table].format(columns=columns, values=values).encode())


@pytest.mark.parametrize("name", REFUSED)
def test_a_constraint_refuses_what_its_sentence_says(connection: psycopg.Connection, name: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        insert(connection, *REFUSED[name])
    assert refusal.value.diag.constraint_name == name


@pytest.mark.parametrize(("table", "columns", "values"), ACCEPTED)
def test_the_constraints_accept_valid_rows(
    connection: psycopg.Connection, table: str, columns: str, values: str
) -> None:
    insert(connection, table, columns, values)


def test_every_check_constraint_has_a_case_here(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "select conname from pg_constraint c join pg_namespace n on n.oid = c.connamespace"
        " where n.nspname = 'holdfast' and c.contype = 'c'"
    ).fetchall()
    assert {name for (name,) in rows} == set(REFUSED)


def test_an_identity_has_one_job_per_run(connection: psycopg.Connection) -> None:
    insert(connection, "jobs", "run", "1")
    second = GOOD["jobs"].replace(JOB, JOB.replace("1", "2"))
    with pytest.raises(psycopg.errors.UniqueViolation) as refusal:
        connection.execute(second.format(columns="run", values="1").encode())
    assert refusal.value.diag.constraint_name == "jobs_have_one_row_per_identity_and_run"
    connection.execute(second.format(columns="run", values="2").encode())


def test_lanes_are_unique(connection: psycopg.Connection) -> None:
    insert(connection, "lanes", "tenant", "'default'")
    with pytest.raises(psycopg.errors.UniqueViolation) as refusal:
        insert(connection, "lanes", "tenant", "'default'")
    assert refusal.value.diag.constraint_name == "lanes_are_unique"
    insert(connection, "lanes", "tenant", "'another'")


def test_a_task_is_queued_once(connection: psycopg.Connection) -> None:
    insert(connection, "queue", "state", "'ready'")
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert(connection, "queue", "state, holder", "'leased', 1")
