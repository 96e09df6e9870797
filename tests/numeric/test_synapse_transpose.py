"""`w = transpose(forward.w)`: weights of one projection as the transpose of another's, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal, together
from tests.numeric.simulated import Array, Simulated, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

BOTH = pytest.mark.parametrize("target", ["cpu", "reference"])
PAIRS = [[3, 2], [0, 6], [6, 0], [3, 3], [0, 1], [3, 2], [6, 5]]
BACK = [[2, 3], [5, 6], [6, 0], [0, 6], [2, 3], [1, 0], [3, 3]]


def text(forward: str, back: str, ends: str = "ab", more: str = "", at: str = "end", rule: str = "") -> str:
    a, b = ends
    return f"""\
language: 1
name: symmetric
neurons:
  cell:
    state: {{v: {{uniform: {{low: 0, high: 1}}}}}}
    inputs: {{g: {{}}}}
    update: [v = v + 0.15]
    spike: {{when: v >= 1, reset: [v = 0]}}
synapses:
  back:
    state: {{w: 0, mark: 0}}
    on_pre: [deliver(w)]
    on: {{day.{at}: [mark = w, w = transpose(forward.u), "{rule or "mark = mark + w"}"]}}
  learns:
    state: {{u: {{uniform: {{low: 0, high: 1}}}}, n: 0}}
    on_pre: [deliver(u), n = n + 1]
    on: {{day.{at}: [u = u + 0.1 * n]}}
phases: {{day: {{every: 5 ms, events: {{start: 0 ms, end: 5 ms}}}}}}
populations:
  a: {{neuron: cell, size: 9}}
  b: {{neuron: cell, size: 7}}
projections:
  back: {{from: {b}, to: {a}, connect: {back}, synapse: back, deliver: {{into: g}}}}
  forward: {{from: {a}, to: {b}, connect: {forward}, synapse: learns, deliver: {{into: g}}}}
simulate: {{dt: 1 ms, duration: 13 ms, seed: 3{more}}}
record: [{{trace: {{from: a, variables: [v], members: all}}}}]
"""


def matrix(done: Simulated, projection: str, ends: str, variable: str, hole: bool) -> Array:
    """By source and target; nan where there is no synapse."""
    size = {"a": 9, "b": 7}
    n, m = (size[x] for x in ends)
    values = done.instance.read(f"{projection}[{ends[0]}->{ends[1]}].{variable}")
    found = np.full((n, m), np.nan)
    found[~np.eye(n, m, dtype=np.bool_) if hole else np.ones((n, m), np.bool_)] = values
    return found


@pytest.mark.parametrize(
    ("ends", "hole", "target", "storage"),
    diagonal(together([("ab", False), ("aa", False), ("aa", True)]), ["cpu", "reference"], ["", "storage: sparse"]),
)
def test_all_to_all(tmp_path: Path, target: str, storage: str, ends: str, hole: bool) -> None:
    """The forward weights as they are after all that happens at the event, whichever projection stands first."""
    settings = ", ".join(x for x in ("autapses: false" if hole else "", storage) if x)
    back = "{all_to_all: {autapses: false}}" if hole else "{all_to_all: {}}"
    done = simulate(text(f"{{all_to_all: {{{settings}}}}}", back, ends), tmp_path, target)
    u, n = (matrix(done, "forward", ends, x, hole) for x in ("u", "n"))
    w, mark = (matrix(done, "back", ends[::-1], x, hole) for x in ("w", "mark"))
    assert np.array_equal(w, u.T, equal_nan=True)
    assert np.nanmax(n) > 0
    assert np.nanmin(mark - w) > 0  # the weight of the trial before, and the new one
    assert np.nanstd(w) > 0.1


@BOTH
def test_pairs_that_are_given(tmp_path: Path, target: str) -> None:
    """Pairs in any order; those that are given twice correspond in the order of the user."""
    source = text(f"{{pairs: {{list: {PAIRS}}}}}", f"{{pairs: {{list: {BACK}}}}}")
    done = simulate(source, tmp_path, target)
    u, w = done.instance.read("forward[a->b].u"), done.instance.read("back[b->a].w")
    forward, back = (np.array(x)[np.lexsort(np.array(x).T[::-1])] for x in (PAIRS, BACK))
    used = []
    for (j, i), value in zip(back, w, strict=True):
        at = next(k for k, pair in enumerate(forward) if tuple(pair) == (i, j) and k not in used)
        used.append(at)
        assert value == u[at]
    assert sorted(used) == list(range(len(PAIRS)))


@BOTH
@pytest.mark.parametrize("at", ["start", "end"])
def test_one_to_one(tmp_path: Path, target: str, at: str) -> None:
    done = simulate(text("{one_to_one: {}}", "{one_to_one: {}}", "aa", at=at), tmp_path, target)
    u, w, n = (done.instance.read(x) for x in ("forward[a->a].u", "back[a->a].w", "forward[a->a].n"))
    assert np.array_equal(u, w)
    assert np.ptp(n) > 0


def test_copies_and_families(tmp_path: Path) -> None:
    """Every copy of the network has its own; a family takes each member from its counterpart."""
    source = text("{all_to_all: {}}", "{all_to_all: {}}", more=", instances: 3")
    source = source.replace("from: a, to: b", "from: [a, b], to: b").replace("from: b, to: a", "from: b, to: [b, a]")
    done = simulate(source, tmp_path)
    for k in range(3):
        for other, size in (("a", 9), ("b", 7)):
            u = done.instance.read(f"forward[{other}_{k}->b_{k}].u").reshape(size, 7)
            w = done.instance.read(f"back[b_{k}->{other}_{k}].w").reshape(7, size)
            assert np.array_equal(w, u.T)
    assert not np.array_equal(done.instance.read("back[b_0->a_0].w"), done.instance.read("back[b_1->a_1].w"))


def test_shared_weights(tmp_path: Path) -> None:
    """What instances share is transposed once."""
    source = text("{all_to_all: {}}", "{all_to_all: {}}", more=", instances: 3, weights: shared", rule="mark = w")
    source = source.replace("mark: 0}", "mark: 0}\n    shared: [w]").replace("n: 0}", "n: 0}\n    shared: [u]")
    done = simulate(source.replace("0.1 * n", "0.1 * sum_instances(n)"), tmp_path)
    u = done.instance.read("forward[a_0->b_0].u").reshape(9, 7)
    assert np.array_equal(done.instance.read("back[b_0->a_0].w").reshape(7, 9), u.T)
    assert np.array_equal(done.instance.read("back[b_2->a_2].mark").reshape(7, 9), u.T)
    copied = [k for k in done.lowered.program.kernels if "from the transpose of" in k.name]
    assert [k.rows.count for k in copied] == [1]


def test_frozen_synapses_are_not_transposed(tmp_path: Path) -> None:
    done = simulate(text("{all_to_all: {}}", "{all_to_all: {}}", more=", freeze: [back]"), tmp_path)
    assert np.all(done.instance.read("back[b->a].w") == 0)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_text_does_not_depend_on_sizes(tmp_path: Path, target: str) -> None:
    texts = []
    for size in ("9", "90"):
        chosen = backend(target)
        source = text("{all_to_all: {}}", "{all_to_all: {}}").replace("size: 9", f"size: {size}")
        texts.append(chosen.emit(lower(model_of(source, tmp_path), chosen.capabilities, True).merged))
    assert texts[0] == texts[1]
