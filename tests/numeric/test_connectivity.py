"""Connectivity rules: exact counts where the rule fixes them, chi-square tests for random rules, explicit relations.

Every relation is drawn twice, by the emitted C and by the reference, and must be the same. Seeds are fixed, so tests
are deterministic; the bounds leave 1e-4 on both sides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, chi2, kstest

from backends.reference.philox import shuffled
from tests.grids import diagonal
from tests.numeric.simulated import model_of, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")
Ints = npt.NDArray[np.int64]
TARGETS = ["cpu", "reference"]

MODEL = """
language: 1
params: {{sigma: {{value: 2.5}}, reach: {{value: 2}}, mirror: {{type: bool, value: true}}, j_ex: {{value: 0.25}}}}
neurons:
  cell:
    state: {{v: 0}}
    inputs: {{g: {{}}}}
    update: [v = v + g]
    spike: {{when: v > 1, reset: [v = 0]}}
populations:
  a: {{neuron: cell, {a}}}
  b: {{neuron: cell, {b}}}
projections:
  p: {{from: a, to: {to}, connect: {connect}, deliver: {{into: g, weight: {weight}}}}}
simulate: {{dt: 1 ms, duration: 10 ms, seed: {seed}}}
numerics: {{precision: {precision}, order: bitwise}}
"""


def drawn(
    folder: Path,
    connect: str,
    a: str = "size: 40",
    b: str = "size: 30",
    to: str = "b",
    seed: int = 1,
    precision: str = "float32",
    weight: str = "1",
) -> tuple[Ints, Ints]:
    """(sources, targets) of one projection, the same from C and from the reference, in storage order."""
    text = MODEL.format(a=a, b=b, to=to, connect=connect, seed=seed, precision=precision, weight=weight)
    found = []
    for target in TARGETS:
        instance = start(model_of(text, folder), folder, target).instance
        row, col = instance.read(f"p[a->{to}]'row"), instance.read(f"p[a->{to}]'col")
        found.append((np.repeat(np.arange(len(row) - 1), np.diff(row)), col.astype(np.int64)))
        instance.close()
    (source, target_), other = found
    assert np.array_equal(source, other[0]) and np.array_equal(target_, other[1])
    assert (np.diff(target_)[np.diff(source) == 0] >= 0).all()  # rows ascend
    return source, target_


def plausible(counts: Any, expected: Any = None) -> None:
    """Chi-square: counts are neither too far from their expectation nor too close to it."""
    counts = np.asarray(counts, np.float64).ravel()
    expected = np.full(len(counts), counts.mean()) if expected is None else np.asarray(expected, np.float64).ravel()
    assert expected.min() > 4
    p = chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)
    assert 1e-4 < p < 1 - 1e-4, p


def plausible_draws(counts: Any, trials: int, number: int) -> None:
    """Chi-square for draws without repetition: every row of `counts` says how often each of its places was among the
    `number` that are taken in each of `trials` independent draws. Var = trials p (1 - p), Cov = -Var / (places - 1)."""
    counts = np.atleast_2d(np.asarray(counts, np.float64))
    rows, pool = counts.shape
    p = number / pool
    assert (counts.sum(axis=1) == trials * number).all()
    statistic = ((counts - trials * p) ** 2).sum() / (trials * p * (1 - p)) * (pool - 1) / pool
    found = chi2.sf(statistic, rows * (pool - 1))
    assert 1e-4 < found < 1 - 1e-4, found


# ---------------------------------------------------------------------------------------- permutations


@pytest.mark.parametrize("n", range(1, 11))
def test_permutations_of_few_are_uniform(n: int) -> None:
    """Every place of many keyed permutations, and every pair of places."""
    keys = 12_000
    x = shuffled(99, np.repeat(np.arange(keys), n), n, np.tile(np.arange(n), keys)).reshape(keys, n)
    assert (np.sort(x, axis=1) == np.arange(n)).all()
    if n == 1:
        return
    for place in range(n):
        plausible(np.bincount(x[:, place], minlength=n))
    if n > 2:
        for first, second in ((0, 1), (n - 1, 0), (n // 2, n - 1)):
            both = np.bincount(x[:, first] * n + x[:, second], minlength=n * n).reshape(n, n)
            plausible(both[~np.eye(n, dtype=bool)])
    if n in (3, 4, 5):
        whole = np.unique((x * n ** np.arange(n)).sum(axis=1), return_counts=True)[1]
        assert len(whole) == {3: 6, 4: 24, 5: 120}[n]
        plausible(whole)


def test_large_permutations() -> None:
    """No power of two, beyond 32 bits: distinct, in range, and as uniform as real numbers."""
    n = 3 * (1 << 40) + 7
    x = shuffled(5, 0, n, np.arange(50_000))
    assert len(np.unique(x)) == 50_000 and x.min() >= 0 and x.max() < n
    assert kstest(x / n, "uniform").pvalue > 1e-3
    steps = np.diff(x) % n
    assert kstest(steps / n, "uniform").pvalue > 1e-3
    whole = shuffled(6, 3, 5000, np.arange(5000))
    assert (np.sort(whole) == np.arange(5000)).all()


# ------------------------------------------------------------------------------------- fixed numbers


@pytest.mark.parametrize("multapses", ["true", "false"])
def test_fixed_indegree(tmp_path: Path, multapses: str) -> None:
    rule = f"{{fixed_indegree: {{number: 25, multapses: {multapses}}}}}"
    source, target = drawn(tmp_path, rule, "size: 60", "size: 2000")
    assert (np.bincount(target, minlength=2000) == 25).all()
    repeated = len(source) - len(np.unique(source * 2000 + target))
    assert (repeated > 0) == (multapses == "true")
    counts = np.bincount(source, minlength=60)
    if multapses == "false":
        plausible_draws(counts, 2000, 25)
    else:
        plausible(counts)
        # how often a pair occurs is binomial(25, 1 / 60)
        times = np.bincount(np.bincount(source * 2000 + target, minlength=120_000), minlength=4)
        expected = 120_000 * binom.pmf(np.arange(3), 25, 1 / 60)
        plausible([*times[:3], times[3:].sum()], [*expected, 120_000 - expected.sum()])


@pytest.mark.parametrize("multapses", ["true", "false"])
def test_fixed_outdegree(tmp_path: Path, multapses: str) -> None:
    rule = f"{{fixed_outdegree: {{number: 12, multapses: {multapses}}}}}"
    source, target = drawn(tmp_path, rule, "size: 3000", "size: 50")
    assert (np.bincount(source, minlength=3000) == 12).all()
    assert (len(source) > len(np.unique(source * 50 + target))) == (multapses == "true")
    if multapses == "true":
        plausible(np.bincount(target, minlength=50))
    else:
        plausible_draws(np.bincount(target, minlength=50), 3000, 12)


@pytest.mark.parametrize(
    ("rule", "multapses"), diagonal(["fixed_indegree", "fixed_outdegree", "fixed_total"], ["true", "false"])
)
def test_without_autapses(tmp_path: Path, rule: str, multapses: str) -> None:
    """No autapses, and all other pairs are equally frequent."""
    number = 40 * 7 if rule == "fixed_total" else 7
    connect = f"{{{rule}: {{number: {number}, multapses: {multapses}, autapses: false}}}}"
    counts = np.zeros((40, 40))
    for seed in range(40):
        source, target = drawn(tmp_path, connect, to="a", seed=seed)
        assert len(source) == 40 * 7 and (source != target).all()
        np.add.at(counts, (source, target), 1)
    others = counts[~np.eye(40, dtype=bool)].reshape(40, 39)
    if multapses == "true":
        plausible(others)
    elif rule == "fixed_total":
        plausible_draws(others.ravel(), 40, number)
    elif rule == "fixed_outdegree":
        plausible_draws(others, 40, number)
    else:
        plausible_draws(counts.T[~np.eye(40, dtype=bool)].reshape(40, 39), 40, number)


def test_all_of_the_pool(tmp_path: Path) -> None:
    """Sampling the whole pool without repetition: every element once."""
    everything = [(i, j) for i in range(6) for j in range(6) if i != j]
    for rule, number in (("fixed_indegree", 5), ("fixed_outdegree", 5), ("fixed_total", 30)):
        connect = f"{{{rule}: {{number: {number}, multapses: false, autapses: false}}}}"
        source, target = drawn(tmp_path, connect, "size: 6", to="a")
        assert list(zip(source.tolist(), target.tolist(), strict=True)) == everything


def test_fixed_total_without_repetition(tmp_path: Path) -> None:
    counts = np.zeros(40 * 30)
    for seed in range(30):
        source, target = drawn(tmp_path, "{fixed_total: {number: 300, multapses: false}}", seed=seed)
        assert len(np.unique(source * 30 + target)) == 300
        np.add.at(counts, source * 30 + target, 1)
    plausible_draws(counts, 30, 300)


def test_number_zero_is_no_projection(tmp_path: Path) -> None:
    text = MODEL.format(
        a="size: 4",
        b="size: 4",
        to="b",
        connect="{fixed_indegree: {number: 0}}",
        seed=1,
        precision="float32",
        weight="1",
    )
    assert model_of(text, tmp_path).projections[0].members == ()


# ------------------------------------------------------------------------------------------ expressions


def places(shape: tuple[int, int, int]) -> tuple[Ints, Ints, Ints]:
    """Channel, row and column of each neuron."""
    c, y, x = np.unravel_index(np.arange(np.prod(shape)), shape)
    return c, y, x


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_conditions_over_places(tmp_path: Path, precision: str) -> None:
    """Every name that a condition may use, against numpy's own division into places."""
    (c, _, x), (d, v, u) = places((2, 5, 7)), places((3, 4, 6))
    i, j = np.arange(70)[:, None], np.arange(72)[None, :]
    cases = {
        "abs(i - j) < reach": abs(i - j) < 2,
        "c_i == c_j and x_i == x_j": (c[:, None] == d) & (x[:, None] == u),
        "y_i * w_to + x_j > n_to / 2 and not mirror or i == 3": np.broadcast_to(i == 3, (70, 72)),
        "mirror and x_i + x_j == w_from - 1": x[:, None] + u == 6,
        "(i + j) % 5 == 0 and y_j == h_to - 1": ((i + j) % 5 == 0) & (v == 3),
        "i < n_from / 3 and i * n_to + j > 1000": (i < 70 / 3) & (i * 72 + j > 1000),
    }
    for condition, expected in cases.items():
        source, target = drawn(
            tmp_path, f'{{rule: {{when: "{condition}"}}}}', "shape: [2, 5, 7]", "shape: [3, 4, 6]", precision=precision
        )
        got = np.zeros((70, 72), bool)
        got[source, target] = True
        assert np.array_equal(got, expected), condition


@pytest.mark.parametrize("periodic", [False, True])
def test_distance(tmp_path: Path, periodic: bool) -> None:
    """Euclidean, in units of the spacing, on a plane or on a torus."""
    _, y, x = places((1, 9, 12))
    across, down = abs(x[:, None] - x), abs(y[:, None] - y)
    if periodic:
        across, down = np.minimum(across, 12 - across), np.minimum(down, 9 - down)
    expected = 20 * np.hypot(across, down) < 50
    rule = f"{{rule: {{when: distance < 50 um, spacing: 20 um, periodic: {str(periodic).lower()}}}}}"
    source, target = drawn(tmp_path, rule, "shape: [9, 12]", to="a")
    got = np.zeros((108, 108), bool)
    got[source, target] = True
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_probability_of_distance(tmp_path: Path, precision: str) -> None:
    """How many pairs of each distance are connected: binomial with the probability that was asked for."""
    connect = "{rule: {probability: 0.8 * exp(-distance / sigma), autapses: false}}"
    _, y, x = places((1, 20, 30))
    across, down = abs(x[:, None] - x), abs(y[:, None] - y)
    squared = across**2 + down**2
    hits = np.zeros((600, 600), bool)
    source, target = drawn(tmp_path, connect, "shape: [20, 30]", to="a", precision=precision)
    assert (source != target).all() and len(np.unique(source * 600 + target)) == len(source)
    hits[source, target] = True
    statistic, freedom = 0.0, 0
    for d in np.unique(squared):
        pairs = squared == d
        p, n = 0.8 * np.exp(-np.sqrt(d) / 2.5), int(pairs.sum())
        if d > 0 and n * p * (1 - p) > 10:
            statistic += (hits[pairs].sum() - n * p) ** 2 / (n * p * (1 - p))
            freedom += 1
    assert freedom > 30 and 1e-4 < chi2.sf(statistic, freedom) < 1 - 1e-4


def test_probabilities_beyond_the_unit_interval(tmp_path: Path) -> None:
    source, _ = drawn(tmp_path, '{rule: {probability: "2.0 if i == 1 else -1.0 if i < 20 else 0.5"}}')
    counts = np.bincount(source, minlength=40)
    assert counts[1] == 30 and counts[0] == 0 and (counts[2:20] == 0).all()
    assert 200 < counts[20:].sum() < 400


def test_pairs_are_drawn_independently(tmp_path: Path) -> None:
    """Rows and columns of a constant probability: binomial, as those of fixed_probability."""
    source, target = drawn(tmp_path, "{rule: {probability: j_ex}}", "size: 500", "size: 400")
    for ends, n, other in ((source, 500, 400), (target, 400, 500)):
        counts = np.bincount(ends, minlength=n)
        statistic = ((counts - other / 4) ** 2 / (other * 3 / 16)).sum()
        assert 1e-4 < chi2.sf(statistic, n) < 1 - 1e-4
    hits = np.zeros((500, 400))
    hits[source, target] = 1
    for axis in (0, 1):
        neighbours = (np.diff(hits, axis=axis) == 0).mean()
        assert abs(neighbours - (1 / 16 + 9 / 16)) < 4 * np.sqrt(0.234 / 200_000)


def test_values_of_a_family_are_columns(tmp_path: Path) -> None:
    """Members differ only in numbers: one text for any number of members and any values."""
    texts = []
    for n in (2, 5):
        cells = ", ".join(f"c{k}: {{neuron: cell, size: {10 + k}}}" for k in range(n))
        names = ", ".join(f"c{k}" for k in range(n))
        values = ", ".join(str(k + 1) for k in range(n))
        base = MODEL.format(a="size: 4", b="size: 4", to="b", connect="", seed=1, precision="float32", weight="1")
        text = f"""{base[: base.index("populations:")]}
populations: {{{cells}}}
projections:
  p:
    from: [{names}]
    to: [{names}]
    values: {{wide: {{by_target: [{values}]}}}}
    connect: {{rule: {{when: abs(i - j) < wide, probability: "reach / (reach + j - j)"}}}}
    deliver: {{into: g, weight: 1}}
simulate: {{dt: 1 ms, duration: 10 ms}}
"""
        begun = start(model_of(text, tmp_path), tmp_path / str(n))
        texts.append(begun.artifact.text)
        row, col = begun.instance.read("p[c0->c1]'row"), begun.instance.read("p[c0->c1]'col")
        source = np.repeat(np.arange(10), np.diff(row))
        assert [(i, j) for i in range(10) for j in range(11) if abs(i - j) < 2] == [
            *zip(source.tolist(), col.tolist(), strict=True)
        ]
        begun.instance.close()
    assert texts[0] == texts[1]


NAMES = """
k first many hit xs ys cs x y c t word probability source bits words target skip key row col n_pre same number
multapses at pool draw table slots self last rows lo hi real ctx"""


def test_parameters_may_have_any_name(tmp_path: Path) -> None:
    """Names that the emitted text gives to its own variables, and those of formals, are free for users."""
    names = NAMES.split()
    params = ", ".join(f"{n}: {{value: {k}.5}}" for k, n in enumerate(names))
    total = sum(k + 0.5 for k in range(len(names)))
    text = MODEL.format(a="size: 30", b="size: 30", to="b", connect="CONNECT", seed=1, precision="float64", weight="1")
    text = text.replace("j_ex:", f"{params}, j_ex:")
    for rule in (f"when: {' + '.join(names)} == {total} and i == j", f"when: {' - '.join(names)} > 0"):
        found = []
        for target in TARGETS:
            begun = start(model_of(text.replace("CONNECT", f"{{rule: {{{rule}}}}}"), tmp_path), tmp_path, target)
            found.append(begun.instance.read("p[a->b]'col"))
            begun.instance.close()
        assert np.array_equal(found[0], found[1])
        assert found[0].tolist() == (list(range(30)) if "==" in rule else [])
