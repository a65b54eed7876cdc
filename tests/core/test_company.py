"""A wide job makes room for small ones: its batches are large while it is alone, and small while others wait."""

from __future__ import annotations

from holdfast.core.company import MEMORY_SECONDS, WIDE_FROM, Company


def test_a_wide_job_alone_does_not_make_room() -> None:
    company = Company()
    for moment in range(10):
        company.saw({"wide": WIDE_FROM * 10}, float(moment))
        assert company.wide_job(float(moment)) is None


def test_many_small_jobs_without_a_wide_one_do_not_make_room() -> None:
    company = Company()
    company.saw({f"small-{number}": 2 for number in range(500)}, 0.0)
    assert company.wide_job(0.0) is None


def test_a_wide_job_makes_room_once_another_is_seen_beside_it() -> None:
    company = Company()
    company.saw({"wide": WIDE_FROM}, 0.0)
    company.saw({"small": 1}, 0.5)
    assert company.wide_job(0.5) == "wide"


def test_a_wide_job_is_forgotten_when_no_other_job_follows() -> None:
    company = Company()
    company.saw({"wide": WIDE_FROM, "small": 1}, 0.0)
    company.saw({"wide": WIDE_FROM}, MEMORY_SECONDS)
    assert company.wide_job(MEMORY_SECONDS) is None


def test_a_wide_job_is_not_its_own_neighbour_while_it_is_young() -> None:
    company = Company()
    company.saw({"before": WIDE_FROM}, 0.0)
    company.saw({"next": 1}, 0.1)
    assert company.wide_job(0.1) == "before"
    company.saw({"next": WIDE_FROM}, 0.2)
    assert company.wide_job(0.2) is None


def test_a_cycle_without_signals_changes_nothing() -> None:
    company = Company()
    company.saw({}, 0.0)
    assert company.wide_job(0.0) is None
