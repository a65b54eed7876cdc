"""One to three commands for each command of ours, as its help and the documentation show them.

An app gives its own: the `epilog` of a command, with a command on each line.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "holdfast run workflow.yaml",
        "holdfast run sales.yaml --input day=2026-11-16 --handlers handlers",
    ),
    "submit": (
        "holdfast submit sales.yaml --input day=2026-11-16 --wait",
        "holdfast submit sales --like 1a2b3c4d --input day=2026-11-17",
    ),
    "register": ("holdfast register sales.yaml",),
    "up": ("holdfast up", "holdfast up --handlers handlers --concurrency 4"),
    "api": ("holdfast api", "holdfast api --host 0.0.0.0 --port 80"),
    "webhooks": (
        "holdfast webhooks",
        "holdfast webhooks add portal https://portal.example/hooks --event failed --event node_failed",
        "holdfast webhooks rotate portal",
    ),
    "deliveries": (
        "holdfast deliveries --status dead",
        "holdfast deliveries redrive 1a2b3c4d",
        "holdfast deliveries redrive --webhook portal",
    ),
    "notify": (
        "holdfast notify test --email ann@example.org",
        "holdfast notify domains example.org",
        "holdfast notify rotate",
    ),
    "audit": (
        "holdfast audit --since 24h",
        "holdfast audit --action job --instance 01a1decb-088b-7737-a373-94ca4d3a26a4",
        "holdfast audit --tenant '*' --action limit",
    ),
    "keys": (
        "holdfast keys",
        "holdfast keys add ci --role submitter --expires 90d",
        "holdfast keys revoke hf_1a2b3c4d",
    ),
    "commands": (
        "holdfast commands",
        "holdfast commands run job.prune --input older_than_days=30 --input dry_run=true",
    ),
    "tenants": ("holdfast tenants", "holdfast tenants add acme --queue maps --queue reports"),
    "worker": ("holdfast worker --queue heavy --concurrency 2",),
    "orchestrator": ("holdfast orchestrator",),
    "status": (
        "holdfast status",
        "holdfast status 1a2b3c4d",
        "holdfast status --status failed --since 2h",
    ),
    "watch": ("holdfast watch", "holdfast watch 1a2b3c4d"),
    "events": ("holdfast events 1a2b3c4d --node read", "holdfast events --last --follow"),
    "why": ("holdfast why", "holdfast why 1a2b3c4d"),
    "logs": ("holdfast logs 1a2b3c4d -f", "holdfast logs 1a2b3c4d --node read --item 7 --tail 20"),
    "definition": ("holdfast definition 1a2b3c4d", "holdfast definition 1a2b3c4d --generation 2"),
    "output": ("holdfast output 1a2b3c4d read --item 7",),
    "params": ("holdfast params 1a2b3c4d read --item 7",),
    "results": ("holdfast results 1a2b3c4d read --format csv --to read.csv",),
    "tasks": ("holdfast tasks 1a2b3c4d read --status failed",),
    "artifacts": ("holdfast artifacts 1a2b3c4d", "holdfast artifacts 1a2b3c4d --get map.tif --to map.tif"),
    "checkpoints": ("holdfast checkpoints 1a2b3c4d read --item 7",),
    "workflows": ("holdfast workflows",),
    "queues": ("holdfast queues",),
    "stats": ("holdfast stats", "holdfast stats --json"),
    "plan": ("holdfast plan 1a2b3c4d", "holdfast plan 1a2b3c4d clear read --item 7"),
    "acknowledge": ("holdfast acknowledge --last --reason known",),
    "cancel": ("holdfast cancel 1a2b3c4d --reason 'wrong day'",),
    "resume": ("holdfast resume 1a2b3c4d --wait", "holdfast resume 1a2b3c4d --input limit=10 --stale rerun --plan"),
    "retry": ("holdfast retry 1a2b3c4d register",),
    "retry-stage": ("holdfast retry-stage 1a2b3c4d 3",),
    "clear": (
        "holdfast clear 1a2b3c4d read --item 7 --params new.json",
        "holdfast clear 1a2b3c4d read --code BAD_FILE --plan",
    ),
    "undo": ("holdfast undo 1a2b3c4d", "holdfast undo 1a2b3c4d --from charge --plan"),
    "rerun": ("holdfast rerun 1a2b3c4d --from read",),
    "skip": ("holdfast skip 1a2b3c4d notify --reason 'the service is gone'",),
    "set": ("holdfast set 1a2b3c4d read --output read.json",),
    "pause": ("holdfast pause 1a2b3c4d --reason maintenance", "holdfast pause --queue heavy"),
    "unpause": ("holdfast unpause 1a2b3c4d", "holdfast unpause --all"),
    "breakers": ("holdfast breakers", "holdfast breakers open crm --reason maintenance"),
    "limits": (
        "holdfast limits",
        "holdfast limits set queue:heavy --concurrency 2",
        "holdfast limits set tenant --backlog 100 --tenant acme",
    ),
    "schedules": (
        "holdfast schedules",
        "holdfast schedules add night sales --cron '0 2 * * *' --time-zone Africa/Kigali",
        "holdfast schedules trigger night",
    ),
    "init": ("holdfast init my-project",),
    "validate": ("holdfast validate workflow.yaml", "holdfast validate workflows/*.yaml --handlers handlers"),
    "graph": ("holdfast graph workflow.yaml", "holdfast graph workflow.yaml --format svg > workflow.svg"),
    "schema": ("holdfast schema > workflow.schema.json",),
    "doctor": ("holdfast doctor",),
    "adopt": ("holdfast adopt",),
    "janitor": ("holdfast janitor", "holdfast janitor --once"),
    "defaults": ("holdfast defaults", "holdfast defaults set retry.max_retries=5 --reason 'the gateway is flaky'"),
    "prune": ("holdfast prune --older-than 90d --dry-run", "holdfast prune --older-than 30d --status completed --yes"),
    "migrate": ("holdfast migrate", "holdfast migrate --ddl"),
    "bootstrap": ("holdfast bootstrap", "holdfast bootstrap tables"),
    "completion": ("source <(holdfast completion bash)",),
}


def examples_of(name: str, epilog: str | None) -> tuple[str, ...]:
    """The examples of a command, from the table or from the command of an app."""
    lines = (line.strip() for line in (epilog or "").splitlines())
    return EXAMPLES.get(name) or tuple(line for line in lines if line)
