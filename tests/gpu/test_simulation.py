"""Simulations from Python on a GPU: pieces are one run, values go in and out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from compiler.runtime.common.arrays import persistent_arrays
from tests.cpu.test_simulation import PLAIN, STDP, WARM, records, same
from tests.numeric.simulated import model_of, start

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("text", [PLAIN, WARM], ids=["from the start", "behind a warm-up"])
def test_pieces_are_one_run(text: str) -> None:
    m = netloom.load(text)
    whole, pieces = m.simulation(target="cuda"), m.simulation(target="cuda")
    whole.run("60 ms")
    for steps in (1, 1, 3, 10, 200, 85, 300):
        pieces.run(steps=steps)
    assert len(whole["a"].spikes[0]) > 20
    same(records(pieces), records(whole))


def test_values_are_read_and_written() -> None:
    s, other = (netloom.load(PLAIN).simulation(target=t) for t in ("cuda", "cpu"))
    for x in (s, other):
        x["a"].v[:3] = [-51, -52, -53]
        x.projections["ba"].weight = [-1, -2, -3]
    same([s["a"].v, s.projections["ba"].weight], [other["a"].v, other.projections["ba"].weight])
    s.run("20 ms")
    assert s.projections["ba"].weight.tolist() == [-1, -2, -3] and not np.array_equal(s["a"].v, other["a"].v)


def test_back_to_a_checkpoint() -> None:
    s, other = netloom.load(STDP).simulation(target="cuda"), netloom.load(STDP).simulation(target="cuda")
    s.run("20 ms")
    point = s.checkpoint()
    s.run("30 ms")
    s.restore(point)
    s.run("80 ms")
    other.run("100 ms")
    same([s.projections["p"].w, *s["output"].spikes], [other.projections["p"].w, *other["output"].spikes])


def test_arrays_read_together(tmp_path: Path) -> None:
    """Of several roles, in fewer transfers, with the contents of each."""
    simulated = start(model_of(STDP, tmp_path), tmp_path, "cuda")
    simulated.instance.run("step", 1, 50)
    names = [a.name for a in persistent_arrays(simulated.lowered.merged)]
    found = {name: values.copy() for name, values in simulated.instance.read_each(reversed(names))}
    assert set(found) == set(names) and len(names) > 5
    for name in names:
        np.testing.assert_array_equal(found[name], simulated.instance.read(name), err_msg=name)
