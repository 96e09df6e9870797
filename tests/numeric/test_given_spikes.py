"""Prescribed spikes: all are counted, with any number per neuron or population in one step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.cuda.emit.emit import emit as emit_cuda
from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

SIZE, STEPS = 4, 8

MODEL = """\
language: 1
name: given
neurons: {cell: {state: {v: 0}, inputs: {g: {}, h: {}}, update: [v = g + 100 * h]}}
populations:
  s: {neuron: library/neurons/spike_times, size: 4, params: {times: [TIMES], indices: [INDICES]}}
  b: {neuron: cell, size: 4}
  plane: {neuron: cell, shape: [1, 2, 2]}
projections:
  one: {from: s, to: b, connect: {one_to_one: {}}, deliver: {into: g, weight: 1}, delay: 1 ms}
  late: {from: s, to: b, connect: {all_to_all: {}}, deliver: {into: h, weight: 1}, delay: 2 ms}
  fixed: {from: s, to: plane, connect: {all_to_all: {}}, synapse: library/synapses/static, deliver: {into: g}}
simulate: {dt: 1 ms, duration: 8 ms, seed: 1}
record:
  - spikes: {from: s}
  - rate: {from: s, every: 1 ms}
  - trace: {from: [b, plane], variables: [v], members: all}
"""


def text_of(spikes: list[tuple[int, int]]) -> str:
    times = ", ".join(f"{step} ms" for step, _ in spikes)
    return MODEL.replace("TIMES", times).replace("INDICES", ", ".join(str(i) for _, i in spikes))


def expected(spikes: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """`v` of b and of the plane after each step: what a spike of step k delivers acts in step k + delay + 1."""
    counts = np.zeros((STEPS + 4, SIZE))
    for step, neuron in spikes:
        counts[step, neuron] += 1
    all_of = counts.sum(axis=1, keepdims=True)
    b = np.array([counts[max(k - 2, 0)] + 100 * all_of[max(k - 3, 0)] for k in range(1, STEPS + 1)])
    return b, np.array([all_of[k - 1] + np.zeros(SIZE) for k in range(1, STEPS + 1)])


SPIKES = st.lists(st.tuples(st.integers(1, STEPS), st.integers(0, SIZE - 1)), min_size=1, max_size=60)


@settings(max_examples=12, deadline=None)
@given(spikes=SPIKES, target=st.sampled_from(["cpu", "reference"]))
def test_every_spike_counts(
    tmp_path_factory: pytest.TempPathFactory, spikes: list[tuple[int, int]], target: str
) -> None:
    folder = tmp_path_factory.mktemp("given")
    result = simulate(text_of(spikes), folder, target)
    found = [(int(step), int(neuron)) for step, neuron in result.spikes["s"]]
    assert Counter(found) == Counter(spikes)
    b, plane = expected(spikes)
    assert np.array_equal(result.traces["b", "v"], b)
    assert np.array_equal(result.traces["plane", "v"], plane)


def test_cuda_has_room_for_all(tmp_path: Path) -> None:
    """The text is the same; how far apart two lists lie is data, for whoever writes and whoever reads them."""
    texts = []
    for spikes, room in (([(1, 0), (2, 1)], SIZE), ([(1, 0)] * 9 + [(2, 3)], 9)):
        merged = lower(model_of(text_of(spikes), tmp_path), backend("cuda").capabilities, verify=True).merged
        (ring,) = (a for a in merged.arrays if a.name == "s'spikes")
        assert ring.shape[1] == room
        for rows in merged.tables:
            for k, path in enumerate(rows.paths):
                readers = [f for f, names in rows.arrays.items() if names[k] == "s'spikes"]
                if readers:
                    column = "room" if "room" in rows.scalars else "n"
                    assert int(rows.scalars[column][k]) == room, path
        texts.append(emit_cuda(merged).text)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_times_off_the_grid_are_rounded_where_that_is_asked_for(target: str, tmp_path: Path) -> None:
    times = [0.6, 2.4, 2.6, 7.49999, 1.0]
    given = MODEL.replace("TIMES", ", ".join(f"{t} ms" for t in times)).replace("[INDICES]", "[0, 1, 2, 3, 1]")
    run = simulate(given.replace("indices: ", "round: nearest, indices: "), tmp_path, target)
    assert sorted(map(tuple, run.spikes["s"].tolist())) == [(1, 0), (1, 1), (2, 1), (3, 2), (7, 3)]
