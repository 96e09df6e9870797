"""Passes that compute the same in another way (packed windows, shifted variances, sums in tiles): graphs before and
after."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import compiler.ir.level1.graph as l1
from backends.registry import backend
from compiler.expr.ast import Ref
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine, along
from compiler.passes.fusion.sum_in_tiles import sum_in_tiles
from compiler.passes.layouts import pack_windows
from compiler.passes.tensors.shift_variances import shift_variances
from compiler.strategies.choice import Tiles
from tests.evaluate_graph import evaluate_graph

X0, X1 = Ref("x0"), Ref("x1")


def convolution(n: int, c: int, o: int, taps: int, step: int, size: int) -> tuple[l1.Node, ...]:
    """Of the image x by the weights w, padded by one; and the gradient of the weights, of the gradient g."""
    out = (size + 2 - taps) // step + 1
    x = l1.Tensor("x", (n, c, size, size), "bf16", True)
    g = l1.Tensor("g", (n, out, out, o), "bf16", True)
    w = l1.Tensor("w", (o, c, taps, taps), "bf16")
    extents = {"n": n, "i": out, "j": out, "o": o, "c": c, "r": taps, "s": taps}
    walked = (along("n"), along("c"), Affine((("i", step), ("r", 1)), -1), Affine((("j", step), ("s", 1)), -1))
    pixels, weights = tuple(map(along, "nijo")), tuple(map(along, "ocrs"))
    forward = l1.Tensor("y", g.shape, batched=True)
    gradient = l1.Tensor("dw", w.shape)

    def dims(order: str) -> tuple[tuple[str, int], ...]:
        return tuple((d, extents[d]) for d in order)

    return (
        l1.Feed(x, "x", 1.0),
        l1.Feed(g, "g", 1.0),
        l1.Weight(w, "zeros"),
        l1.Contract(forward, dims("nijocrs"), pixels, ("x", "w"), (walked, weights), X0 * X1),
        l1.Contract(gradient, dims("orscnij"), weights, ("g", "x"), (pixels, walked), X0 * X1),
    )


@pytest.mark.parametrize(
    ("channels", "taps", "step", "size"), [(3, 7, 2, 9), (4, 5, 2, 8), (2, 3, 3, 11), (5, 3, 1, 6)]
)
def test_packed_windows(monkeypatch: pytest.MonkeyPatch, channels: int, taps: int, step: int, size: int) -> None:
    monkeypatch.setattr(pack_windows, "MARGIN", 2.0**40)
    monkeypatch.setattr(pack_windows, "in_rows", lambda *_: SimpleNamespace(microseconds=1.0))
    nodes = convolution(2, channels, 3, taps, step, size)
    packed, (decision,) = pack_windows.pack_windows(nodes, backend("cuda").capabilities)
    assert decision.verdict == "packed" and len(packed) > len(nodes)
    random = np.random.default_rng(1)
    packed = tuple(replace(n, body=X0) if isinstance(n, l1.Map) else n for n in packed)  # bf16 holds these numbers
    given = {t.name: random.integers(-9, 9, t.shape) * 1.0 for n in nodes[:3] for t in l1.results(n)}
    before, after = evaluate_graph(nodes, given), evaluate_graph(packed, given)
    for name in ("y", "dw"):
        np.testing.assert_array_equal(after[name], before[name])


def test_shifted_variances() -> None:
    """The variance, and what else reads the sum of squares."""
    x, mask, count = (
        l1.Tensor("x", (6, 3, 4), batched=True),
        l1.Tensor("mask", (6,), batched=True),
        l1.Tensor("count", ()),
    )
    dims, whole, out = (("n", 6), ("c", 3), ("i", 4)), tuple(map(along, "nci")), (along("c"),)
    row, (total, mean, square, var, other) = (along("n"),), (l1.Tensor(n, (3,)) for n in ("t", "mean", "s", "v", "u"))
    off = X0 - Ref("x2")
    nodes: tuple[l1.Node, ...] = (
        l1.Feed(x, "x", 1.0),
        l1.BatchMask(mask),
        l1.Weight(count, "zeros"),
        l1.Contract(total, dims, out, ("x", "mask"), (whole, row), X0 * X1),
        l1.Map(mean, ("t", "count"), ((0,), ()), X0 / X1),
        l1.Contract(square, dims, out, ("x", "mask", "mean"), (whole, row, out), off * off * X1),
        l1.Map(var, ("s", "count"), ((0,), ()), X0 / X1),
        l1.Map(other, ("mean", "s"), ((0,), (0,)), X0 * X1 - X1),
    )
    changed, (decision,) = shift_variances(nodes, Target(bandwidth=1e-3))
    assert decision.verdict == "shifted"
    values = np.random.default_rng(1).standard_normal(x.shape) + 100
    given = {"x": values, "mask": np.array([1.0, 1, 1, 1, 0, 0]), "count": np.array(16.0)}
    before, after = evaluate_graph(nodes, given), evaluate_graph(changed, given)
    np.testing.assert_allclose(before["v"], values[:4].transpose(1, 0, 2).reshape(3, -1).var(1))
    for name in ("mean", "v", "u"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-10)


def normalised(kept: int) -> tuple[l1.Node, ...]:
    """A batch norm of x w, the product of rows of six samples of four and of three columns; then the sums that the
    gradient of its scale has, of the product of h and v, which is bf16, and `kept` sums of others."""
    x, h = (l1.Tensor(n, (6, 4, 2), "bf16", True) for n in "xh")
    w, v = (l1.Tensor(n, (3, 2), "bf16") for n in "wv")
    mask, count = l1.Tensor("mask", (6,), batched=True), l1.Tensor("count", ())
    rows, columns = ("n", 6), ("c", 3)
    dims, whole, out = (rows, ("i", 4), columns, ("k", 2)), tuple(map(along, "nic")), (along("c"),)
    sums, point, weights = (columns, rows, ("i", 4)), tuple(map(along, "nik")), tuple(map(along, "ck"))
    y, g = (l1.Tensor(n, (6, 4, 3), batched=True) for n in "yg")
    stored = replace(y, name="y.stored", dtype="bf16")
    total, mean, square, scale, plain, other = (l1.Tensor(n, (3,)) for n in ("t", "mean", "s", "scale", "plain", "o"))
    off, later = X0 - Ref("x2"), X0 * (X1 - Ref("x2"))
    return (
        *(l1.Feed(t, t.name, 1.0) for t in (x, h)),
        *(l1.Weight(t, "zeros") for t in (w, v, count)),
        l1.BatchMask(mask),
        l1.Contract(y, dims, whole, ("x", "w"), (point, weights), X0 * X1),
        l1.Map(stored, ("y",), ((0, 1, 2),), X0),
        l1.Contract(total, sums, out, ("y.stored", "mask"), (whole, (along("n"),)), X0 * X1),
        l1.Map(mean, ("t", "count"), ((0,), ()), X0 / X1),
        l1.Contract(square, sums, out, ("y.stored", "mask", "mean"), (whole, (along("n"),), out), off * off * X1),
        l1.Contract(g, dims, whole, ("h", "v"), (point, weights), X0 * X1),
        l1.Contract(plain, sums, out, ("g",), (whole,), X0),
        l1.Contract(scale, sums, out, ("g", "y.stored", "mean"), (whole, whole, out), later),
        *(l1.Contract(replace(other, name=f"o{k}"), sums, out, ("g",), (whole,), X0 * X0) for k in range(kept)),
    )


def test_sums_in_tiles() -> None:
    """A variance, and the sums of a gradient; one sample is not valid, and five tiles do not divide the rows."""
    nodes = normalised(1)
    changed, decisions = sum_in_tiles(nodes, (), lambda _: Tiles(1, 5, 5, 3))
    found = {d.subject: (d.verdict, d.reason) for d in decisions}
    assert [found[n][0] for n in ("t", "plain", "scale", "o0")] == ["summed", "summed", "summed", "not summed"]
    assert found["o0"][1].endswith("too many sums")
    assert sum(isinstance(n, l1.TileSum) for n in changed) == 5
    random = np.random.default_rng(1)
    given = {t.name: random.standard_normal(t.shape) for n in nodes[:4] for t in l1.results(n)}
    given |= {"mask": np.array([1.0, 1, 0, 1, 1, 1]), "count": np.array(20.0)}
    before, after = evaluate_graph(nodes, given), evaluate_graph(changed, given)
    for name in ("mean", "s", "plain", "scale", "o0"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-12, atol=1e-12)


def test_sums_stay_where_products_store_no_whole_tiles() -> None:
    nodes = normalised(0)
    changed, decisions = sum_in_tiles(nodes, (), lambda _: None)
    assert changed == nodes and {d.verdict for d in decisions} == {"not summed"}
