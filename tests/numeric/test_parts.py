"""Projections between parts of populations: `exc[0..9]`, `exc[0, 3]`, `exc[x < w / 2]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import netloom
from compiler.core.diagnostics import ModelError
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: parts
params: {limit: {value: 2}}
neurons:
  clock: {inputs: {g: {}}, state: {x: 0, got: 0}, update: [x = x + 1, got = got + g], spike: {when: x == 2}}
synapses:
  counted: {state: {w: 1, n: 0}, on_pre: [deliver(w)], on_post: [n = n + 1]}
populations:
  a: {neuron: clock, shape: [4, 5]}
  b: {neuron: clock, size: 13}
projections:
  p: {from: "FROM", to: "TO", connect: {CONNECT}, VALUES}
simulate: {dt: 1 ms, duration: 20 ms}
record: [{spikes: {from: a}}]
numerics: {precision: float64}
"""
STATIC = "deliver: {into: g, weight: 1 + i + 100 * j}"
PLASTIC = "synapse: counted, deliver: {into: g}"
EVEN = [0, 2, 4, 6, 7, 8]


def text_of(source: str, target: str, connect: str, values: str = STATIC) -> str:
    return TEXT.replace("FROM", source).replace("TO", target).replace("CONNECT", connect).replace("VALUES", values)


def pairs_of(p: Any) -> list[tuple[int, int]]:
    return list(zip(np.asarray(p.source).tolist(), np.asarray(p.target).tolist(), strict=True))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("part", "sources"),
    [
        ("a[0..4]", range(5)),
        ("a[3, 17..18, 0]", [0, 3, 17, 18]),
        ("a[x < limit and y != 1]", [0, 1, 10, 11, 15, 16]),
        ("a[i >= n - 2 or x == w - 1]", [4, 9, 14, 18, 19]),
    ],
)
def test_every_pair_of_parts(part: str, sources: Any, target: str) -> None:
    s = netloom.load(text_of(part, "b[0, 2, 4, 6..8]", "all_to_all: {}")).simulation(target=target)
    expected = [(i, j) for i in sources for j in EVEN]
    assert pairs_of(s.projections["p"]) == expected
    s.run("20 ms")
    weights = np.zeros((20, 13))
    for i, j in expected:
        weights[i, j] = 1 + i + 100 * j
    assert s["b"].got.tolist() == weights.sum(0).tolist()


@pytest.mark.parametrize(
    "connect",
    [
        "fixed_probability: {p: 0.5}",
        "fixed_indegree: {number: 4}",
        "fixed_indegree: {number: 3, multapses: false}",
        "fixed_outdegree: {number: 2}",
        "fixed_total: {number: 17}",
    ],
)
def test_drawn_pairs(connect: str) -> None:
    """The same on both targets, and the relation that populations of the parts' sizes would have."""
    found = {}
    for target in ("cpu", "reference"):
        s = netloom.load(text_of("a[5..14]", "b[0, 2, 4, 6..8]", connect, PLASTIC)).simulation(target=target)
        found[target] = pairs_of(s.projections["p"])
        s.run("20 ms")
        assert s["b"].got.tolist() == np.bincount([j for _, j in found[target]], minlength=13).tolist()
        assert set(np.asarray(s.projections["p"].n)) == {1}  # found by target, too
    assert found["cpu"] == found["reference"] == sorted(found["cpu"])
    assert {i for i, _ in found["cpu"]} <= set(range(5, 15))
    targets = [j for _, j in found["cpu"]]
    assert set(targets) <= set(EVEN)
    if "indegree" in connect:
        number = int(connect.split("number: ")[1][0])
        assert np.bincount(targets, minlength=13)[EVEN].tolist() == [number] * 6


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_rules_over_real_places(target: str) -> None:
    """An expression reads indices and columns of the whole population; sizes are those of the parts."""
    text = text_of("a[5..14]", "b[3..6]", "rule: {when: (x_i + j) % 2 == 0 and n_from == 10 and n_to == 4}")
    expected = [(i, j) for i in range(5, 15) for j in range(3, 7) if (i % 5 + j) % 2 == 0]
    assert pairs_of(netloom.load(text).simulation(target=target).projections["p"]) == expected
    text = text_of(
        "a[5..14]", "b", "rule: {probability: 1.0 if j == 2 else 0}", "deliver: {into: g, weight: n_from + n_to}"
    )
    s = netloom.load(text).simulation(target=target)
    assert pairs_of(s.projections["p"]) == [(i, 2) for i in range(5, 15)]
    assert set(np.asarray(s.projections["p"].weight)) == {23}


def test_within_one_population(tmp_path: Path) -> None:
    def pairs(source: str, target: str, connect: str) -> list[tuple[int, int]]:
        return pairs_of(netloom.load(text_of(source, target, connect, PLASTIC)).simulation().projections["p"])

    three = [2, 3, 4]
    assert pairs("b[2..4]", "b[2..4]", "all_to_all: {autapses: false}") == [
        (i, j) for i in three for j in three if i != j
    ]
    assert pairs("b[2..4]", "b[5..7]", "all_to_all: {autapses: false}") == [(i, j) for i in three for j in (5, 6, 7)]
    assert pairs("b[2..4]", "b[5..7]", "one_to_one: {}") == [(2, 5), (3, 6), (4, 7)]
    assert pairs("b[2..4]", "b[3..5]", "all_to_all: {}") == [(i, j) for i in three for j in (3, 4, 5)]
    assert pairs("b[3]", "b", "all_to_all: {}") == [(3, j) for j in range(13)]
    with pytest.raises(ModelError, match="have neurons in common"):
        model_of(text_of("b[2..4]", "b[3..5]", "fixed_indegree: {number: 2, autapses: false}", PLASTIC), tmp_path)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_parts_with_common_neurons_without_autapses(tmp_path: Path, target: str) -> None:
    def pairs(source: str, target_part: str, connect: str) -> list[tuple[int, int]]:
        text = text_of(source, target_part, connect)
        return pairs_of(netloom.load(text).simulation(target=target).projections["p"])

    every = "all_to_all: {autapses: false}"
    assert pairs("b[2..4]", "b", every) == [(i, j) for i in (2, 3, 4) for j in range(13) if i != j]
    assert pairs("b", "b[2, 4]", every) == [(i, j) for i in range(13) for j in (2, 4) if i != j]
    nearly = "fixed_probability: {p: 0.999999, autapses: false}"
    assert pairs("b[0..2, 5]", "b[1, 2, 5, 6]", nearly) == [
        (i, j) for i in (0, 1, 2, 5) for j in (1, 2, 5, 6) if i != j
    ]
    chain = "one_to_one: {autapses: false}"
    assert pairs("b[0..11]", "b[1..12]", chain) == [(i, i + 1) for i in range(12)]
    with pytest.raises(ModelError, match="neuron 3 of `b` has the same place in both parts"):
        model_of(text_of("b[0, 3, 5]", "b[1, 3, 6]", chain), tmp_path)
    drawn = pairs("a", "a[5..19]", "fixed_probability: {p: 0.5, autapses: false}")
    assert all(i != j and j >= 5 for i, j in drawn) and 110 < len(drawn) < 175 and len(set(drawn)) == len(drawn)


def test_a_condition_is_not_for_a_part_of_one_of_several_populations(tmp_path: Path) -> None:
    """The other population has other neurons than the part."""
    text = text_of("a[0..2]", "b", "rule: {when: i == j}").replace('from: "a[0..2]"', 'from: ["a[0..2]", b]')
    with pytest.raises(ModelError, match="one of several populations has a part"):
        model_of(text, tmp_path)


def matrix(shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    return np.random.default_rng(2).normal(size=shape)


def test_values(tmp_path: Path) -> None:
    """Matrices have the shape of the parts; numbers that cannot be are those of the parts' pairs."""
    np.save(tmp_path / "w.npy", matrix((3, 3)))
    text = text_of("b[2..4]", "b[2..4]", "all_to_all: {autapses: false}", "deliver: {into: g, weight: {file: w.npy}}")
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    s = netloom.load(tmp_path / "m.yaml").simulation()
    expected = matrix((3, 3))[~np.eye(3, dtype=bool)]
    np.testing.assert_array_equal(s.projections["p"].weight, expected)
    text = text_of("b[2..4]", "b[5..9]", "all_to_all: {}", "deliver: {into: g, weight: 1 / (j - i)}")
    (member,) = model_of(text, tmp_path).projections[0].members
    assert (member.weight.low, member.weight.high) == (1 / 7, 1)
