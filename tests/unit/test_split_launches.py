"""Rows of a launch that are ready, or needed, at different times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run import split_launches
from backends.cuda.run.split_launches import APART, FEW, MANY, split
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.ir.level2.dependence import touched
from compiler.passes.pipeline.lower import lower
from compiler.strategies.cost.devices import H200


@pytest.mark.parametrize(
    ("times", "work", "ends"),
    [
        ([(9, 1)] * 4, [1] * 4, [4]),
        ([(9, 1), (8, 1), (9 - APART, 1), (0, 1)], [1] * 4, [2, 3, 4]),
        ([(-1, 0), (-1, APART), (-1, APART)], [1] * 3, [1, 3]),
        ([(50 - 5 * k, 1) for k in range(FEW + 2)], [1, 1, 2, 9, 9], [3, 4, 5]),
        ([(90 - 5 * k, 1) for k in range(MANY + 1)], [1 << 20] * MANY + [1], [*range(1, MANY), MANY + 1]),
    ],
    ids=["all at once", "ready apart", "needed apart", "few of little work", "more of much work"],
)
def test_parts(times: list[tuple[int, int]], work: list[int], ends: list[int]) -> None:
    assert split_launches._ends(times, work, 1 << 20) == ends


@pytest.mark.parametrize("name", ["lenet5", "vgg", "resnet20"])
def test_parts_of_a_training_step_wait_for_less(root: Path, name: str) -> None:
    """All rows in order; the updates of the last layers wait for fewer launches than those of the first ones."""
    program = lower(load_model(root / "models" / f"{name}.yaml", {}), backend("cuda").capabilities).merged
    phase = next(p for p in program.phases if p.name == "train")
    parts = split(program, phase.launches, {}, H200)
    for x, own in zip(phase.launches, parts, strict=True):
        assert [(y.lo, y.hi) for y in own] == list(zip([x.lo, *(y.hi for y in own)], [y.hi for y in own], strict=False))
        assert own[-1].hi == x.hi and {y.template for y in own} == {x.template}
    before = [touched(program.templates, program.tables, [x], {}) for x in phase.launches[:-1]]
    waits = []
    for y in parts[-1]:
        own = touched(program.templates, program.tables, [y], {})
        waits.append(int(np.max([n for n, other in enumerate(before) if own.needs(other)])))
    assert len(waits) > 1 and waits[0] > waits[-1] + APART
