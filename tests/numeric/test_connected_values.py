"""What projections read of their ends (`from.x`), of their connections (`n_in`, `n_out`, `n_from`, `n_to`) and of other
projections (`sum_into(x)`), against numbers worked out apart."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import netloom
from tests.grids import diagonal
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: connected
neurons:
  clock: {params: {nominal: 0.1}, state: {x: 0}, update: [x = x + 1], spike: {when: x == 2}}
  cell: {params: {gain: 2}, inputs: {g: {}, h: {}}, state: {v: 0, u: 0}, update: [v = v + g, u = u + h]}
synapses:
  scaled:
    params: {rel: 1, share: rel / sum_into(rel)}
    state: {w: 1, of: n_from / n_to}
    let: {part: rel / sum_into(rel) / n_in}
    on_pre: [deliver(w * part + 0 * share)]
populations:
  a: {neuron: clock, size: 20}
  b: {neuron: clock, size: 30, params: {nominal: 0.25}}
  c: {neuron: cell, size: 10, params: {gain: 3}}
  d: {neuron: cell, size: 10}
projections:
PROJECTIONS
simulate: {dt: 1 ms, duration: 5 ms}
numerics: {precision: float64}
"""
STORAGES = (
    "all_to_all: {}",
    "all_to_all: {storage: bitmask}",
    "fixed_probability: {p: 0.4}",
    "fixed_probability: {p: 0.4, storage: bitmask}",
    "fixed_probability: {p: 0.4, storage: procedural}",
    "fixed_total: {number: 90}",
    "fixed_outdegree: {number: 4, storage: procedural}",
    "pairs: {list: [[3, 4], [0, 9], [7, 7], [3, 2], [3, 2]]}",
)


def simulation(projections: str, target: str = "cpu") -> netloom.Simulation:
    return netloom.load(TEXT.replace("PROJECTIONS", projections)).simulation(target=target)


def counts(connect: str) -> npt.NDArray[np.int64]:
    """How many synapses each pair has. Storage does not change the network."""
    stored = re.sub(r",? ?storage: \w+", "", connect)
    p = simulation(f"  p: {{from: a, to: c, connect: {{{stored}}}, deliver: {{into: g, weight: 1}}}}").projections["p"]
    found = np.zeros((20, 10), np.int64)
    np.add.at(found, (np.asarray(p.source), np.asarray(p.target)), 1)
    return found


@pytest.mark.parametrize(("connect", "target"), diagonal(STORAGES, ["cpu", "reference"]))
def test_weights_by_the_number_of_synapses(connect: str, target: str) -> None:
    many = counts(connect)
    into, out_of = many.sum(0), many.sum(1)
    weight = "from.nominal * to.gain / n_in + 1 / n_out"
    s = simulation(f"  p: {{from: a, to: c, connect: {{{connect}}}, deliver: {{into: g, weight: {weight}}}}}", target)
    s.run("5 ms")
    expected = (many * (0.1 * 3 / np.maximum(into, 1) + 1 / np.maximum(out_of, 1)[:, None])).sum(0)
    np.testing.assert_allclose(s["c"].v, expected, rtol=1e-13)


SUMS = """  p: {from: [a, b], to: [c, d], connect: {fixed_indegree: {number: 6}}, synapse: scaled, deliver: {into: g}}
  q: {from: b, to: c, connect: {fixed_probability: {p: 0.5}}, synapse: scaled, params: {rel: 3}, deliver: {into: g}}
  r:
    from: b
    to: c
    connect: {all_to_all: {}}
    values: {rel: {by_source: {b: 5}}}
    deliver: {into: g, weight: from.nominal * rel / sum_into(rel)}
  other: {from: b, to: d, connect: {all_to_all: {}}, synapse: scaled, params: {rel: 9}, deliver: {into: h}}
  plain: {from: b, to: d, connect: {fixed_total: {number: 3}}, deliver: {into: g, weight: 0}}"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_sums_over_projections(target: str) -> None:
    s = simulation(SUMS, target)
    s.run("5 ms")
    # into c: rel of p from a and b (1 each), q (3) and r (5)
    reached = np.zeros(10)
    reached[np.unique(np.asarray(s.projections["q"].target))] = 1
    np.testing.assert_allclose(s["c"].v, 1 / 10 + 1 / 10 + reached * 3 / 10 + 30 * 0.25 * 5 / 10, rtol=1e-13)
    np.testing.assert_allclose(s["d"].v, 1 / 2 + 1 / 2, rtol=1e-13)
    np.testing.assert_allclose(s["d"].u, 9 / 9, rtol=1e-13)
    assert np.unique(np.asarray(s.projections["q"].of)).tolist() == [30 / 10]


def test_defaults_read_sums(tmp_path: Path) -> None:
    model = model_of(TEXT.replace("PROJECTIONS", SUMS), tmp_path)
    shares = {p.name: [dict(m.params)["share"].value for m in p.members] for p in model.projections if p.synapse}
    assert shares == {"p": [0.1, 0.5, 0.1, 0.5], "q": [0.3], "other": [1.0]}


def test_own_names_keep_their_meaning() -> None:
    text = TEXT.replace("rel: 1, ", "rel: 1, n_in: 4, ").replace("PROJECTIONS", SUMS)
    s = netloom.load(text).simulation()
    s.run("5 ms")
    np.testing.assert_allclose(s["d"].v, (1 / 2 + 1 / 2) * 6 / 4, rtol=1e-13)


PLACED = """  p:
    from: a
    to: c
    connect: {fixed_probability: {p: 0.4, storage: STORAGE}}
    synapse: placed
    params: {w: 0.5 * i + 0.1 * j + 1 / n_in}
    deliver: {into: g}"""


@pytest.mark.parametrize(("storage", "target"), diagonal(["sparse", "bitmask", "procedural"], ["cpu", "reference"]))
def test_parameters_by_place_need_no_storage(storage: str, target: str) -> None:
    text = TEXT.replace("synapses:\n", "synapses:\n  placed: {params: {w: 1}, on_pre: [deliver(2 * w)]}\n")
    s = netloom.load(text.replace("PROJECTIONS", PLACED.replace("STORAGE", storage))).simulation(target=target)
    s.run("5 ms")
    many = counts(f"fixed_probability: {{p: 0.4, storage: {storage}}}")
    each = 0.5 * np.arange(20)[:, None] + 0.1 * np.arange(10) + 1 / np.maximum(many.sum(0), 1)
    np.testing.assert_allclose(s["c"].v, (2 * many * each).sum(0), rtol=1e-13)
