"""A wide job makes room for small ones: its batches are large while it is alone, and small while others wait."""

from __future__ import annotations

from holdfast.pacing import MEMORY_SECONDS, WIDE_FROM, CrowdingMonitor


def test_a_wide_job_alone_does_not_make_room() -> None:
    crowding = CrowdingMonitor()
    for moment in range(10):
        crowding.observe({"wide": WIDE_FROM * 10}, float(moment))
        assert crowding.job_to_throttle(float(moment)) is None


def test_many_small_jobs_without_a_wide_one_do_not_make_room() -> None:
    crowding = CrowdingMonitor()
    crowding.observe({f"small-{number}": 2 for number in range(500)}, 0.0)
    assert crowding.job_to_throttle(0.0) is None


def test_a_wide_job_makes_room_once_another_is_seen_beside_it() -> None:
    crowding = CrowdingMonitor()
    crowding.observe({"wide": WIDE_FROM}, 0.0)
    crowding.observe({"small": 1}, 0.5)
    assert crowding.job_to_throttle(0.5) == "wide"


def test_a_wide_job_is_forgotten_when_no_other_job_follows() -> None:
    crowding = CrowdingMonitor()
    crowding.observe({"wide": WIDE_FROM, "small": 1}, 0.0)
    crowding.observe({"wide": WIDE_FROM}, MEMORY_SECONDS)
    assert crowding.job_to_throttle(MEMORY_SECONDS) is None


def test_a_wide_job_is_not_its_own_neighbour_while_it_is_young() -> None:
    crowding = CrowdingMonitor()
    crowding.observe({"before": WIDE_FROM}, 0.0)
    crowding.observe({"next": 1}, 0.1)
    assert crowding.job_to_throttle(0.1) == "before"
    crowding.observe({"next": WIDE_FROM}, 0.2)
    assert crowding.job_to_throttle(0.2) is None


def test_a_cycle_without_signals_changes_nothing() -> None:
    crowding = CrowdingMonitor()
    crowding.observe({}, 0.0)
    assert crowding.job_to_throttle(0.0) is None
