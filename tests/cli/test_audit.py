"""`holdfast audit`: who changed what, for people and as JSON."""

from __future__ import annotations

from tests.cli.conftest import Command


def test_changes_are_listed_newest_first_with_what_was_and_what_is(database: Command) -> None:
    assert "No change is known" in database("audit").out
    assert database("limits", "set", "node:flow.each", "--concurrency", "2").code == 5
    database("defaults", "set", "retry.max_retries=5", "--reason", "slow net")
    database("defaults", "set", "retry.max_retries=7")
    answer = database("audit").out
    lines = answer.splitlines()
    assert lines[0].split() == ["at", "who", "from", "what", "to", "change", "why"]
    assert "retry.max_retries 5 → 7" in answer
    assert "slow net" in lines[2]
    assert database("audit", "--action", "limit").out.startswith("No change")


def test_changes_are_filtered_paged_and_shown_as_json(database: Command) -> None:
    for queue in ("maps", "roads", "maps"):
        assert database("limits", "set", f"queue:{queue}", "--backlog", "1").code == 2
        database("limits", "set", f"queue:{queue}", "--concurrency", "1" if queue == "roads" else "3")
    database("limits", "drop", "queue:maps")
    assert database("audit", "--json").json == {"changes": []}, "a queue belongs to no tenant"
    everything = database("audit", "--tenant", "*", "--json").json
    assert [one["action"] for one in everything["changes"]] == ["limit.drop", "limit.set", "limit.set", "limit.set"]
    assert list(everything["changes"][0]) == [
        "id", "at", "tenant", "actor", "key", "address", "request_id", "action", "instance", "before", "after",
        "reason",
    ]  # fmt: skip
    assert {one["tenant"] for one in everything["changes"]} == {"*"}
    (roads,) = database("audit", "--tenant", "*", "--instance", "queue:roads", "--json").json["changes"]
    assert (roads["before"], roads["after"]["concurrency"], roads["address"]) == (None, 1, None)
    page = database("audit", "--tenant", "*", "--limit", "3", "--json").json
    rest = database("audit", "--tenant", "*", "--limit", "3", "--after", page["after"], "--json").json
    assert page["changes"] + rest["changes"] == everything["changes"]
    assert "after" not in rest
    assert database("audit", "--tenant", "*", "--since", "2h", "--json").json == everything
    assert database("audit", "--after", "never").code == 2
