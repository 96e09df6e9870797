"""Elementwise work moves before reshapes of products, and lines are convolved as images, with equal results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.expr.ast import Binary, Ref, refs
from compiler.ir.level0.model import Layer
from compiler.ir.level1.graph import Contract, Feed, Map, Reindex, Tensor, TensorGraph, readers_of, results
from compiler.ir.space import along
from compiler.passes.layouts.late_reshapes import joined_axes, late_reshapes
from compiler.passes.tensors.fuse_maps import fuse_maps
from compiler.verify.graph import graph_violations
from tests.evaluate_graph import evaluate_graph
from tests.numeric.test_gradients import flat, inputs_of, layer, training
from tests.numeric.test_layers import convolution

CHANNELS, LENGTH = 4, 12
APART = st.sampled_from((1, 2, 3, 4, 5, 6))


def line(name: str, source: str, apart: int, taps: int = 2, groups: int = 1, causal: bool = True) -> Layer:
    """A convolution of a line that keeps its length."""
    reach = apart * (taps - 1)
    sides = (reach, 0) if causal else (reach // 2, reach - reach // 2)
    own = {"filters": CHANNELS, "kernel": (taps,), "stride": (1,), "padding": sides, "dilation": (apart,)}
    return layer("conv1d", name, source, (CHANNELS, LENGTH), "tanh", **own, groups=groups, bias=True)


def network(draws: list[tuple[int, int, int, bool]]) -> tuple[Layer, ...]:
    """Blocks with two convolutions whose product is added to what comes in."""
    layers, before = list[Layer](), "image"
    for n, (apart, other, groups, causal) in enumerate(draws):
        a, b, c, d = (f"{x}{n}" for x in "abcd")
        layers += [line(a, before, apart, 3, groups, causal), line(b, before, other, 2)]
        layers.append(layer("multiply", c, (a, b), (CHANNELS, LENGTH)))
        layers.append(layer("add", d, (c, before), (CHANNELS, LENGTH), "sigmoid"))
        before = d
    return (*layers, flat(before, CHANNELS * LENGTH))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(APART, APART, st.sampled_from((1, 2, 4)), st.booleans()), min_size=1, max_size=3))
def test_values_and_gradients_stay(draws: list[tuple[int, int, int, bool]]) -> None:
    _, nodes, loss, gradients = training((CHANNELS, LENGTH), network(draws), "mean_squared_error")
    wanted = (loss, *gradients.values())
    fused, _ = fuse_maps(nodes, wanted)
    after = late_reshapes(fused, wanted)
    assert graph_violations(TensorGraph("train", after, wanted)) == []
    values = inputs_of(nodes, 1)
    first, second = evaluate_graph(fused, values), evaluate_graph(after, values)
    for name in wanted:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_what_follows_a_convolution_reads_its_sums() -> None:
    """All elementwise work of the way forward, and of the way back but for what stands behind other sums."""
    _, nodes, loss, gradients = training((CHANNELS, LENGTH), network([(4, 1, 2, True)]), "mean_squared_error")
    fused, _ = fuse_maps(nodes, (loss, *gradients.values()))
    after = late_reshapes(fused, (loss, *gradients.values()))
    joined = {n.out.name: n.source for n in after if isinstance(n, Reindex)}
    made = {out.name: n for n in after for out in results(n)}
    readers = readers_of(after)
    for n in after:
        if isinstance(n, Map) and n.out.batched and len(n.out.shape) == 3 and readers.get(n.out.name):
            behind = [joined[x] for x in n.ins if x in joined]
            assert not any(isinstance(made[x], Contract) and len(made[x].ins) == 2 for x in behind), n


@pytest.mark.parametrize("later", [True, False])
def test_it_is_the_epilogue_of_the_last_product(later: bool) -> None:
    """What a product of other axes makes later, times the result of one in groups, is computed with that product."""
    x, w = Tensor("x", (5, 2, 3, 4), batched=True), Tensor("w", (2, 3))
    dims = {"n": 5, "g": 2, "c": 3, "i": 4, "k": 6}

    def product(out: str, axes: str, x_axes: str, w_axes: str, names: tuple[str, str]) -> Contract:
        made = Tensor(out, tuple(dims[d] for d in axes), batched=True)
        maps = tuple(tuple(along(d) for d in a) for a in (x_axes, w_axes))
        used = tuple((d, dims[d]) for d in dict.fromkeys(axes + x_axes + w_axes))
        return Contract(made, used, tuple(along(d) for d in axes), names, maps, Binary("*", Ref("x0"), Ref("x1")))

    grouped = product("y", "ngci", "ngci", "gc", ("x", "w"))
    plain = product("z", "nki", "nki", "k", ("v", "u"))
    joined = Tensor("y.joined", (5, 6, 4), batched=True)
    both = Map(Tensor("m", (5, 6, 4), batched=True), ("y.joined", "z"), ((0, 1, 2), (0, 1, 2)), Ref("x0") * Ref("x1"))
    given = (x, w, Tensor("v", (5, 6, 4), batched=True), Tensor("u", (6,)))
    products = (grouped, Reindex(joined, "y"), plain) if later else (plain, grouped, Reindex(joined, "y"))
    end = Map(replace(joined, name="end"), ("m",), ((0, 1, 2),), Ref("x0"))
    nodes = (*(Feed(t, t.name, 1.0) for t in given), *products, both, end)
    after = late_reshapes(nodes, ("end",))
    shapes = [n.out.shape for n in after if isinstance(n, Map) and "x1" in refs(n.body)]
    assert shapes == [(5, 6, 4) if later else (5, 2, 3, 4)]


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_a_line_is_convolved_as_defined(apart: int, groups: int, causal: bool) -> None:
    one = line("c", "image", apart, 3, groups, causal)
    _, nodes, _, _ = training((CHANNELS, LENGTH), (one, flat("c", CHANNELS * LENGTH)), "mean_squared_error")
    values = inputs_of(nodes, 2)
    found: npt.NDArray[np.float64] = evaluate_graph(nodes, values)["flat.y"]
    image = layer("conv2d", "c", "image", (CHANNELS, 1, LENGTH), padding=(0, 0, *one.attr("padding")), groups=groups,
                  stride=(1, 1), dilation=(1, apart))  # fmt: skip
    x, w = values["image"][:, :, None, :], values["c.weight"][:, :, None, :]
    wanted = np.tanh(convolution(x, w, values["c.bias"], image))
    np.testing.assert_allclose(found, wanted.reshape(len(found), -1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("source", "shape", "runs"),
    [
        ((3, 2, 2, 5), (3, 4, 5), ((0,), (1, 2), (3,))),
        ((3, 4, 1, 5), (3, 4, 5), ((0,), (1,), (2, 3))),
        ((3, 4, 5, 1), (3, 4, 5), ((0,), (1,), (2, 3))),
        ((3, 4, 5), (3, 2, 10), None),
        ((3, 4), (3, 2, 2), None),
        ((3, 4), (3, 4), None),
    ],
)
def test_joined_axes(source: tuple[int, ...], shape: tuple[int, ...], runs: object) -> None:
    assert joined_axes(source, shape) == runs
