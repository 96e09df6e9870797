"""Storage of relations: results of a network are bitwise equal for every storage format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import convolve2d

from backends.registry import backend
from compiler.connect import rule_of
from compiler.connect.storage import OF_RULES, Asked, refused
from compiler.expr.ast import Binary, Call, Expr, Num, Ref
from compiler.ir.level0.model import (
    Const,
    Distribution,
    Listed,
    Model,
    Planes,
    Send,
    Set,
    StateDecl,
    SynapseDef,
    Value,
)
from compiler.ir.level2.program import Csr, Dense, OneToOne, Procedural, Propagate, Toeplitz
from compiler.passes.pipeline.lower import lower
from compiler.verify.violations import InternalError
from tests.cpu.programs import expr
from tests.cpu.relation_models import STEPS, Array, delivered, expected, instance, lowered, model, population, stored_as
from tests.grids import diagonal, slow

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

ORDERS = ("reproducible", "bitwise")
DRAWN = Distribution("normal", (("mean", 1.0), ("std", 0.4)))
LATE = Distribution("uniform", (("low", 0.0), ("high", 9.0)))
NUMERICS = [
    ("float32", "reproducible"),
    ("float64", "bitwise"),
    *slow(("float32", "bitwise"), ("float64", "reproducible")),
]
"""Direct sums of float32, integer sums of float64, and two for slow tests."""


def numerics(*more: tuple[str, list[Any]], leading: int = 1) -> pytest.MarkDecorator:
    """Each combination of the first of `more`, by turns with the values of the others and with NUMERICS."""
    names, values = zip(*more, strict=True)
    return pytest.mark.parametrize((*names, "numbers"), diagonal(*values, NUMERICS, leading=leading))


Numbers = tuple[str, str]
WEIGHTS: tuple[str, list[Any]] = ("weight", [Const(0.3), DRAWN])


def relations(m: Model) -> list[object]:
    """The relations traversed by a model's propagations."""
    return [t.body.relation for t in lowered(m).merged.templates if isinstance(t.body, Propagate)]


def agree(models: list[Model], folder: Path, target: str) -> tuple[Array, Array]:
    """The deliveries of all of them, checked to be equal."""
    first: tuple[Array, Array] | None = None
    for k, m in enumerate(models):
        found = delivered(m, folder / str(k), target)
        if first is None:
            first = found
        np.testing.assert_array_equal(found[0], first[0], err_msg=str(k))
        np.testing.assert_array_equal(found[1], first[1], err_msg=str(k))
    assert first is not None
    return first


def cpu_is_reference(models: list[Model], folder: Path, order: str) -> tuple[Array, Array]:
    """All storages agree on each target, and under `bitwise` the targets agree."""
    here, there = agree(models, folder, "cpu"), agree(models, folder, "reference")
    if order == "bitwise":
        np.testing.assert_array_equal(here[0], there[0])
    np.testing.assert_array_equal(here[1], there[1])
    return here


# ------------------------------------------------------------------------------------ every pair, one to one


@numerics(WEIGHTS, ("late", [False, True]), leading=2)
def test_dense_is_sparse(tmp_path: Path, numbers: Numbers, weight: Value, late: bool) -> None:
    precision, order = numbers
    a, b = population("a", 19), population("b", 11)
    more = {"delays": LATE, "delay": 9} if late else {}
    m = model(a, b, "all_to_all", weight, precision=precision, order=order, **more)
    assert relations(m) == [Dense("n_pre", "n_post")]
    assert isinstance(relations(stored_as(m, "sparse"))[0], Csr)
    found, spikes = cpu_is_reference([m, stored_as(m, "dense"), stored_as(m, "sparse")], tmp_path, order)
    assert found.any()
    if isinstance(weight, Const) and not late:
        np.testing.assert_allclose(found, expected(np.full((19, 11), 0.3), spikes, 2), rtol=1e-5)


@numerics(WEIGHTS)
def test_dense_without_itself(tmp_path: Path, numbers: Numbers, weight: Value) -> None:
    precision, order = numbers
    a = population("a", 23)
    m = model(a, a, "all_to_all", weight, args=(("autapses", 0),), precision=precision, order=order)
    assert relations(m) == [Dense("n_pre", "n_post", hole=True)]
    found, spikes = cpu_is_reference([m, stored_as(m, "sparse")], tmp_path, order)
    if isinstance(weight, Const):
        np.testing.assert_allclose(found, expected(0.3 * (1 - np.eye(23)), spikes, 2), rtol=1e-5)


@numerics(WEIGHTS)
def test_one_to_one(tmp_path: Path, numbers: Numbers, weight: Value) -> None:
    precision, order = numbers
    a, b = population("a", 33), population("b", 33)
    m = model(a, b, "one_to_one", weight, precision=precision, order=order)
    assert relations(m) == [OneToOne()]
    cpu_is_reference([m, stored_as(m, "sparse")], tmp_path, order)


def test_every_pair_stores_nothing() -> None:
    """Neither row pointers nor targets, and nothing to connect: ten thousand by ten thousand is no memory."""
    for size in (7, 10_000):
        m = model(population("a", size), population("b", size), "all_to_all", Const(0.5))
        merged = lowered(m).merged
        assert not {p.name for p in merged.phases} & {"count", "scan", "fill"}
        assert not [a for a in merged.arrays if a.name.startswith("p[")]


# ---------------------------------------------------------------------------------------- convolutions


def weights_of(planes: Planes, in_c: int, out_c: int) -> Array:
    """Kernel elements in the order of Planes: (out, in, ky, kx); depthwise (channel, ky, kx); shared (ky, kx)."""
    kh, kw = planes.kernel
    shape = (kh, kw) if planes.shared else (in_c, kh, kw) if planes.depthwise else (out_c, in_c, kh, kw)
    return np.random.default_rng(4).integers(-9, 10, shape).astype(float) / 8


def matrix(planes: Planes, shape: tuple[int, int, int], out: tuple[int, int, int], w: Array) -> Array:
    """(sources, targets), column by column from scipy's two-dimensional convolution: what a convolutional layer gives
    for a plane that is 1 at one source and 0 elsewhere, by cross-correlation with padding and stride."""
    (in_c, h, v), (out_c, oh, ow) = shape, out
    (ph, pw), (sh, sw) = planes.padding, planes.stride
    found = np.zeros((in_c * h * v, out_c, oh, ow))
    for source in range(in_c * h * v):
        plane = np.zeros((in_c, h * v))
        plane.reshape(-1)[source] = 1
        padded = np.pad(plane.reshape(in_c, h, v), ((0, 0), (ph, ph), (pw, pw)))
        for o in range(out_c):
            for c in range(in_c):
                if planes.depthwise or planes.shared:
                    if o != c:
                        continue
                    kernel = w if planes.shared else w[c]
                else:
                    kernel = w[o, c]
                full = convolve2d(padded[c], kernel[::-1, ::-1], "valid")
                found[source, o] += full[::sh, ::sw][:oh, :ow]
    return found.reshape(in_c * h * v, -1)


CASES = {
    "plain": (Planes((3, 3), (1, 1), (0, 0)), (2, 6, 6), 3),
    "padding": (Planes((3, 3), (1, 1), (1, 1)), (3, 5, 7), 2),
    "stride": (Planes((3, 3), (2, 2), (1, 1)), (2, 9, 8), 4),
    "not square": (Planes((2, 5), (1, 3), (0, 2)), (2, 6, 11), 3),
    "stride past the kernel": (Planes((2, 2), (3, 3), (0, 0)), (2, 8, 8), 2),
    "one by one": (Planes((1, 1), (1, 1), (0, 0)), (4, 3, 3), 5),
    "depthwise": (Planes((3, 3), (1, 1), (1, 1), depthwise=True), (3, 6, 5), 3),
    "depthwise, stride": (Planes((3, 2), (2, 1), (1, 0), depthwise=True), (3, 7, 5), 3),
    "shared": (Planes((2, 2), (2, 2), (0, 0), depthwise=True, shared=True), (3, 6, 8), 3),
    "many channels": (Planes((3, 3), (1, 1), (1, 1)), (2, 7, 7), 37),
}


def conv_model(case: str, precision: str, order: str, **more: object) -> tuple[Model, Array]:
    planes, shape, out_c = CASES[case]
    (h, v), (kh, kw), (sh, sw), (ph, pw) = shape[1:], planes.kernel, planes.stride, planes.padding
    out = (out_c, (h + 2 * ph - kh) // sh + 1, (v + 2 * pw - kw) // sw + 1)
    w = weights_of(planes, shape[0], out_c)
    a = population("a", int(np.prod(shape)), 0.2, shape)
    b = population("b", int(np.prod(out)), 0.2, out)
    m = model(
        a,
        b,
        "conv2d",
        Listed(tuple(w.reshape(-1).tolist())),
        precision=precision,
        order=order,
        planes=planes,
        **more,  # type: ignore[arg-type]
    )
    return m, matrix(planes, shape, out, w)


@pytest.mark.parametrize(("case", "target"), diagonal(list(CASES), ["cpu", "reference"]))
def test_toeplitz_is_the_dense_matrix(tmp_path: Path, case: str, target: str) -> None:
    """Weights are small multiples of 1/8: every sum is exact."""
    m, dense = conv_model(case, "float32", "reproducible")
    assert isinstance(relations(m)[0], Toeplitz)
    found, spikes = agree([m, stored_as(m, "sparse")], tmp_path, target)
    np.testing.assert_array_equal(found, expected(dense, spikes, 2))
    assert np.count_nonzero(found) > found.size // 4


@numerics(("case", ["padding", "stride", "depthwise", "many channels"]))
def test_toeplitz_is_sparse_bit_for_bit(tmp_path: Path, case: str, numbers: Numbers) -> None:
    """With weights whose sums are inexact."""
    precision, order = numbers
    m, _ = conv_model(case, precision, order)
    p = m.projections[0]
    member = p.members[0]
    assert isinstance(member.weight, Listed)
    drawn = np.random.default_rng(8).normal(size=len(member.weight.values))
    rounded = replace(p, members=(replace(member, weight=Listed(tuple(drawn.tolist()))),))
    m = replace(m, projections=(rounded,))
    cpu_is_reference([m, stored_as(m, "sparse")], tmp_path, order)


def test_sparse_convolution_copies_weights_where_synapses_have_delays(tmp_path: Path) -> None:
    """Per-synapse delays: each synapse has its own index, and a copy of its weight."""
    m, _ = conv_model("padding", "float64", "bitwise", delays=LATE, delay=9)
    found, spikes = cpu_is_reference([m], tmp_path, "bitwise")
    run = instance(m, tmp_path / "again")
    row, col = run.read("p[a->b]'row").astype(int), run.read("p[a->b]'col").astype(int)
    late, weight = run.read("p[a->b]'delay").astype(int), run.read("p[a->b].weight")
    assert len(weight) == len(col) == row[-1]
    assert len(np.unique(late)) == 10
    out = np.zeros_like(found)
    for step, i in spikes:
        for k in range(row[i], row[i + 1]):
            if step + late[k] <= STEPS:
                out[step + late[k] - 1, col[k]] += weight[k]
    np.testing.assert_array_equal(found, out)


def test_toeplitz_with_delays_per_synapse_is_refused() -> None:
    m, _ = conv_model("padding", "float32", "reproducible", delays=LATE, delay=9, storage="toeplitz")
    with pytest.raises(InternalError, match="stored as `toeplitz`"):
        lowered(m)


def test_average_pooling_needs_one_number(tmp_path: Path) -> None:
    planes = Planes((2, 2), (2, 2), (0, 0), depthwise=True, shared=True)
    a, b = population("a", 2 * 4 * 6, 0.2, (2, 4, 6)), population("b", 2 * 2 * 3, 0.2, (2, 2, 3))
    m = model(a, b, "avg_pool2d", Const(0.25), planes=planes)
    found, spikes = agree([m, stored_as(m, "sparse")], tmp_path, "cpu")
    dense = matrix(planes, (2, 4, 6), (2, 2, 3), np.full((2, 2), 0.25))
    np.testing.assert_array_equal(found, expected(dense, spikes, 2))
    assert not [x for x in lowered(m).merged.arrays if x.name.startswith("p[")]


@pytest.mark.parametrize("late", [False, True])
def test_more_events_than_are_looked_up_at_once(tmp_path: Path, late: bool) -> None:
    """Two projections have about 100 and 200 events in each step, of which 64 are collected before the first one is
    delivered."""
    more: dict[str, Any] = {"delays": LATE, "delay": 9} if late else {}
    a, b = population("a", 410, 0.5), population("b", 50)
    m = model(a, b, "fixed_probability", DRAWN, args=(("p", 0.2),), order="bitwise", storage="sparse", **more)
    fewer = population("c", 210, 0.5)
    second = replace(m.projections[0], name="q", members=(replace(m.projections[0].members[0], source="c"),))
    m = replace(m, populations=(a, fewer, b), projections=(*m.projections, second))
    found, spikes = cpu_is_reference([m], tmp_path, "bitwise")
    assert found.any() and np.bincount(spikes[:, 0]).max() > 128


def test_a_ring_has_no_slots_for_delays_that_are_not_drawn() -> None:
    """A normal number of 32 bits is within 6.6 standard deviations: mean 20, deviation 5 stays below 54 steps."""
    delays = Distribution("normal", (("mean", 20.0), ("std", 5.0), ("min", 1.0), ("max", 70.0)))
    for precision, slots in (("float32", 55), ("float64", 65), ("cut", 31)):
        most = 30 if precision == "cut" else 70
        m = model(
            population("a", 30),
            population("b", 30),
            "all_to_all",
            DRAWN,
            delays=delays,
            delay=most,
            precision=precision.replace("cut", "float32"),
        )
        shapes = {x.name: x.shape for x in lowered(m).merged.arrays}
        assert shapes["b.g'delivered"] == (slots, 30)


# ----------------------------------------------------------------------------------- bitmask, procedural


def near() -> Expr:
    """1 / (1 + (i - j)^2): an expression of both ends, which is drawn."""
    apart = Binary("-", Ref("i"), Ref("j"))
    return Binary("/", Num(1.0), Binary("+", Num(1.0), Binary("*", apart, apart)))


def banded() -> Expr:
    """|i - j| < width: a Boolean."""
    return Binary("<", Call("abs", (Binary("-", Ref("i"), Ref("j")),)), Ref("width"))


RULES = {
    "all_to_all": (),
    "one_to_one": (),
    "fixed_probability": (("p", 0.15),),
    "fixed_probability, rare": (("p", 0.002),),
    "expression": (),
    "expression, true or not": (("width", 4),),
}
SIZES = {"one_to_one": (61, 61), "fixed_probability, rare": (61, 700)}


def drawn_model(rule: str, weight: Value, same: bool = False, **more: object) -> Model:
    n_pre, n_post = SIZES.get(rule, (61, 77))
    a = population("a", n_pre)
    b = a if same else population("b", n_post)
    args = RULES[rule] + ((("autapses", 0),) if same else ())
    m = model(a, b, rule.split(",")[0], weight, args=args, **more)  # type: ignore[arg-type]
    if rule.startswith("expression"):
        chance = near() if rule == "expression" else banded()
        m = replace(m, projections=(replace(m.projections[0], probability=chance),))
    return m


def storages(m: Model) -> tuple[str, ...]:
    """What can hold the connections; where nothing is drawn, nothing is drawn again."""
    drawn = refused("procedural", Asked(rule_of(m.projections[0])), OF_RULES) is None
    return ("sparse", "bitmask", "procedural") if drawn else ("sparse", "bitmask")


@numerics(("rule", list(RULES)))
def test_bits_and_rows_drawn_again_are_sparse(tmp_path: Path, rule: str, numbers: Numbers) -> None:
    precision, order = numbers
    m = drawn_model(rule, Const(0.3), precision=precision, order=order)
    found, _ = cpu_is_reference([stored_as(m, s) for s in storages(m)], tmp_path, order)
    assert found.any()


@pytest.mark.parametrize("rule", ["all_to_all", "fixed_probability", "expression", "expression, true or not"])
def test_none_of_them_reaches_itself(tmp_path: Path, rule: str) -> None:
    m = drawn_model(rule, Const(0.3), same=True, order="bitwise")
    cpu_is_reference([stored_as(m, s) for s in storages(m)], tmp_path, "bitwise")


@pytest.mark.parametrize(
    ("rule", "weight"),
    [
        ("expression", DRAWN),
        ("fixed_probability", DRAWN),
        ("fixed_probability", Distribution("uniform", (("low", -1.0), ("high", 2.0)))),
        ("fixed_probability", Distribution("normal", (("mean", 0.5), ("std", 0.5), ("keep_sign", 1.0), ("max", 1.2)))),
        ("fixed_probability", Distribution("exponential", (("mean", 0.5),))),
        ("fixed_probability", Distribution("lognormal", (("mean", 0.1), ("std", 0.5)))),
    ],
)
def test_weights_that_are_drawn_again(tmp_path: Path, rule: str, weight: Value) -> None:
    """The same values as with storage, without their memory."""
    m = drawn_model(rule, weight, order="bitwise")
    again = stored_as(m, "procedural")
    cpu_is_reference([m, again], tmp_path, "bitwise")
    assert isinstance(relations(again)[0], Procedural)
    assert [a.name for a in lowered(again).merged.arrays if a.name.startswith("p[")] == ["p[a->b]'row"]


def outdegree(multapses: int, storage: str, order: str) -> Model:
    args = (("number", 9), ("multapses", multapses))
    a, b = population("a", 40), population("b", 31)
    return model(a, b, "fixed_outdegree", Const(0.3), args=args, order=order, storage=storage)


@pytest.mark.parametrize(("multapses", "order"), diagonal([0, 1], ORDERS))
def test_fixed_outdegree_drawn_again(tmp_path: Path, multapses: int, order: str) -> None:
    models = [outdegree(multapses, storage, order) for storage in ("sparse", "procedural")]
    found, spikes = cpu_is_reference(models, tmp_path, order)
    total = 0.3 * 9 * np.count_nonzero(spikes[:, 0] <= STEPS - 2)
    np.testing.assert_allclose(found.sum(), total, rtol=1e-5)


def test_pairs_as_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    pairs = tuple({(int(i), int(j)) for i, j in zip(rng.integers(0, 40, 300), rng.integers(0, 70, 300), strict=True)})
    m = model(population("a", 40), population("b", 70), "pairs", Const(0.25), pairs=pairs)
    found, spikes = agree([m, stored_as(m, "bitmask")], tmp_path, "cpu")
    dense = np.zeros((40, 70))
    dense[tuple(np.array(pairs).T)] = 0.25
    np.testing.assert_array_equal(found, expected(dense, spikes, 2))


def test_memory_of_bits() -> None:
    m = stored_as(drawn_model("fixed_probability", Const(0.3)), "bitmask")
    (words,) = [a for a in lowered(m).merged.arrays if a.name.startswith("p[")]
    assert words.shape == (61, 3)


def test_memory_of_stored_rows() -> None:
    """4 bytes per synapse with a uniform weight; 9 with per-synapse weights and delays of up to 255 steps."""
    for weight, late, most in ((Const(0.3), False, 4), (DRAWN, False, 8), (DRAWN, True, 9)):
        more = {"delays": LATE, "delay": 9} if late else {}
        m = drawn_model("fixed_probability", weight, **more)
        per_synapse = [a for a in lowered(m).merged.arrays if a.size_from == "p[a->b]'row"]
        assert sum(a.dtype.bytes for a in per_synapse) == most


REFUSED = {
    "bitmask of weights": lambda: stored_as(drawn_model("fixed_probability", DRAWN), "bitmask"),
    "bitmask of delays": lambda: stored_as(
        drawn_model("fixed_probability", Const(0.3), delays=LATE, delay=9), "bitmask"
    ),
    "bitmask of a pair twice": lambda: model(
        population("a", 3), population("b", 3), "pairs", Const(0.3), pairs=((0, 1), (0, 1)), storage="bitmask"
    ),
    "drawn again with delays": lambda: stored_as(
        drawn_model("fixed_probability", Const(0.3), delays=LATE, delay=9), "procedural"
    ),
    "drawn again by total": lambda: model(
        population("a", 3),
        population("b", 3),
        "fixed_total",
        Const(0.3),
        args=(("number", 5), ("multapses", 1)),
        storage="procedural",
    ),
    "weights without a number": lambda: model(
        population("a", 3),
        population("b", 3),
        "fixed_outdegree",
        DRAWN,
        args=(("number", 2), ("multapses", 1)),
        storage="procedural",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refused(case: str) -> None:
    """The verifier of level 0 holds what the frontend tells users (E0611)."""
    with pytest.raises(InternalError, match=r"stored as `(bitmask|procedural)`"):
        lowered(REFUSED[case]())


# ------------------------------------------------------------------------------- synapses with a state


def learning(m: Model, every: bool = False) -> Model:
    """The same connection with synapses that have a weight each: it grows where the target has spiked, shrinks where
    the source has, and (`every`) leaks in every step."""
    w = StateDecl("w", "1", Distribution("uniform", (("low", 0.5), ("high", 1.5))))
    synapse = SynapseDef(
        name="learns",
        params=(),
        state=(w,),
        update=(Set("w", expr("w * 0.99 + 0.001 * post.v")),) if every else (),
        on_pre=(Send(Ref("w")), Set("w", expr("w - 0.125 * w * w"))),
        on_post=(Set("w", expr("w + 0.25 * (2 - w)")), Send(expr("0.125 * w"), "pre", "g")),
    )
    p = m.projections[0]
    members = tuple(replace(x, init=(("w", w.init),), back_delay=1) for x in p.members)
    return replace(m, projections=(replace(p, synapse=synapse, members=members),))


@numerics(("rule", ["all_to_all", "one_to_one"]), ("same", [False, True]), leading=2)
def test_synapses_that_learn(tmp_path: Path, rule: str, same: bool, numbers: Numbers) -> None:
    """By source, by target and every step: all-to-all weights equal those of stored rows."""
    precision, order = numbers
    a = population("a", 13)
    b = a if same else population("b", 13 if rule == "one_to_one" else 9)
    args = (("autapses", 0),) if same and rule == "all_to_all" else ()
    plain = model(a, b, rule, Const(0.0), args=args, precision=precision, order=order)
    for k, every in enumerate((False, True)):
        m = learning(plain, every)
        kinds = [m, stored_as(m, "sparse")]
        wanted = OneToOne() if rule == "one_to_one" else Dense("n_pre", "n_post", bool(args))
        assert set(relations(m)) == {wanted}
        cpu_is_reference(kinds, tmp_path / str(k), order)
        name = f"p[a->{b.name}].w"
        runs = [instance(x, tmp_path / f"{k}{n}", "cpu") for n, x in enumerate(kinds)]
        for run in runs:
            run.run("step", 1, STEPS)
        np.testing.assert_array_equal(runs[0].read(name), runs[1].read(name))
        assert len(np.unique(runs[0].read(name))) > 9


def test_a_convolution_that_learns_has_a_weight_for_each_synapse(tmp_path: Path) -> None:
    plain, _ = conv_model("padding", "float64", "bitwise")
    m = learning(plain)
    assert {type(r) for r in relations(m)} == {Csr}
    cpu_is_reference([m], tmp_path, "bitwise")
    run = instance(m, tmp_path / "again")
    assert len(run.read("p[a->b].w")) == run.read("p[a->b]'row")[-1]


@pytest.mark.parametrize("storage", ["toeplitz", "bitmask", "procedural"])
def test_what_learns_needs_stored_rows(storage: str) -> None:
    if storage == "toeplitz":
        plain = conv_model("padding", "float32", "reproducible")[0]
    else:
        plain = drawn_model("fixed_probability", Const(0.0))
    with pytest.raises(InternalError, match=f"stored as `{storage}`"):
        lowered(stored_as(learning(plain), storage))


# ------------------------------------------------------------------------------------------------ texts


def models_by_relation() -> dict[str, Model]:
    """One model per text of a propagation."""
    a, b, square = population("a", 19), population("b", 11), population("b", 19)
    found = {}
    for order in ORDERS:
        for name, weight in (("one", Const(0.3)), ("drawn", DRAWN)):
            found[f"dense {name} {order}"] = model(a, b, "all_to_all", weight, order=order)
            found[f"one to one {name} {order}"] = model(a, square, "one_to_one", weight, order=order)
            hole = model(a, a, "all_to_all", weight, args=(("autapses", 0),), order=order)
            found[f"hole {name} {order}"] = hole
        for case in CASES:
            found[f"{case} {order}"] = conv_model(case, "float32", order)[0]
            found[f"{case} sparse {order}"] = stored_as(conv_model(case, "float32", order)[0], "sparse")
        late = model(a, b, "all_to_all", DRAWN, order=order, delays=LATE, delay=9)
        found[f"dense late {order}"] = late
        for rule in ("fixed_probability", "expression", "expression, true or not"):
            one = drawn_model(rule, Const(0.3), order=order)
            found[f"{rule} bits {order}"] = stored_as(one, "bitmask")
            found[f"{rule} again {order}"] = stored_as(one, "procedural")
            found[f"{rule} again drawn {order}"] = stored_as(drawn_model(rule, DRAWN, order=order), "procedural")
        found[f"fixed_outdegree again {order}"] = outdegree(0, "procedural", order)
        for name in ("dense drawn", "hole drawn", "one to one drawn"):
            found[f"{name} that learns {order}"] = learning(found[f"{name} {order}"], every=True)
    return found


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_text_is_independent_of_sizes(target: str) -> None:
    chosen = backend(target)

    def emit(size: int, channels: int) -> str:
        dense = model(population("a", size), population("b", size + 3), "all_to_all", DRAWN)
        planes = Planes((3, 3), (1, 1), (1, 1))
        shape = (channels, size, size + 2)
        n = channels * size * (size + 2)
        a, b = population("a", n, shape=shape), population("b", n, shape=shape)
        weight = Listed((0.5,) * (channels * channels * 9))
        conv = model(a, b, "conv2d", weight, planes=planes)
        return "".join(chosen.emit(lower(m, chosen.capabilities).merged) for m in (dense, conv))

    assert emit(5, 2) == emit(23, 40)
