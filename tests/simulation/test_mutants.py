"""`make mutants` runs the mutants; this test checks that they still fit the code."""

from __future__ import annotations

from tests.simulation.mutants import ROOT, read_table

LEAST = 240


def test_every_mutant_still_applies_to_the_code() -> None:
    mutants = read_table()
    assert len(mutants) >= LEAST
    texts = {file: (ROOT / file).read_text() for file in {mutant.file for mutant in mutants}}
    stale = [mutant.name for mutant in mutants if texts[mutant.file].count(mutant.old) != 1]
    assert not stale, f"the code has changed: adapt `old` and `new` of {stale} in tests/simulation/mutants.toml"
    assert all(mutant.old != mutant.new for mutant in mutants)
