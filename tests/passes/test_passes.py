"""Every pass from a text to a text: where it acts, and where it must not (the form of a case: cases.py).

`make golden ARGS='-k NAME'` regenerates the outputs; review them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.passes import passes_for
from tests.passes.cases import CUT, Case, cases, result

ALWAYS = {
    "merge": "every program has a merged form; a case that it leaves says what is not joined",
    "split_cells": "every cell gets operations; a case that it leaves has one",
    "order_populations": "every population gets turns; a case that it leaves has them cell by cell",
}
"""Passes that change every input."""


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.path.stem)
def test_case(case: Case, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    acts, made = result(case, tmp_path)
    if case.acts or case.name not in ALWAYS:
        assert acts is case.acts, f"the pass makes\n{made}"
    assert made != case.input
    if request.config.getoption("--update-golden"):
        case.path.write_text(case.head + case.input + (CUT + made if made else "\n"), encoding="utf-8")
    else:
        assert made == case.expected


def test_every_pass_has_a_case_that_it_acts_on_and_one_that_it_leaves() -> None:
    found = {(c.name, c.acts) for c in cases()}
    assert {(p.name, acts) for p in passes_for() for acts in (True, False)} == found
