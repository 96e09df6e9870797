"""The table of mutants is consistent: `make mutants` runs them."""

from __future__ import annotations

import pytest

from compiler.passes import passes_for
from compiler.strategies import GROUPS
from scripts import mutants
from scripts.mutants import MUTANTS, ROOT, Mutant, found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_what_is_switched_off_and_what_notices_are_there(mutant: Mutant) -> None:
    for owner, name in map(found, mutant.places):
        mutant.instead(getattr(owner, name))
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8") or not name


def test_every_optional_pass_and_every_strategy_has_a_mutant() -> None:
    names = {m.name for m in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert {p.name for p in passes_for() if p.optional} <= names
    assert {f"strategy {s.name}" for group in GROUPS for s in group} <= names


@pytest.mark.parametrize(("plain", "mutated", "status"), [(0, 1, 0), (0, 0, 1), (0, 4, 1), (1, 1, 1)])
def test_only_a_test_that_fails_notices(monkeypatch: pytest.MonkeyPatch, plain: int, mutated: int, status: int) -> None:
    monkeypatch.setattr(mutants, "tested", lambda tests, mutant=None: plain if mutant is None else mutated)
    assert mutants.main(["fuse_maps"]) == status


def test_without_an_optimization_its_test_fails() -> None:
    (mutant,) = (m for m in MUTANTS if m.name == "fuse_maps")
    assert mutants.verdict(mutant) == "noticed"
    assert mutants.tested(mutant.tests) == 0
