"""Activations whose channels come last: the same values, where convolutions are faster so, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Expr, rewrite
from compiler.expr.functions import ROUNDED
from compiler.frontend.load import load_model
from compiler.ir.level2.target import Capabilities
from compiler.passes.layouts import channels_last as pass_
from compiler.passes.pipeline.lower import lower
from compiler.strategies import every
from compiler.strategies.cost.devices import H200
from compiler.verify.verify import verify_graph
from tests.evaluate_graph import evaluate_graph

TARGET = Capabilities("cuda", 0, False, frozenset(s.name for s in every() if s.bf16), device=H200, bf16=True)
NETWORK = """\
language: 1
name: small
network:
  inputs:
    image: {shape: [3, 12, 12]}
    label: {shape: [], dtype: int32}
  layers:
    - conv2d: {inputs: image, filters: 8, kernel: 3, stride: 2, padding: 1, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - max_pool2d: {name: pool, size: 3, stride: 2, padding: 1}
    - conv2d: {filters: 8, kernel: 1}
    - activation: {function: relu}
    - conv2d: {filters: 16, kernel: 3, padding: 1, stride: 2, name: body}
    - conv2d: {inputs: pool, filters: 16, kernel: 1, stride: 2, bias: false, name: shortcut}
    - add: {inputs: [body, shortcut]}
    - activation: {function: relu}
    - conv2d: {filters: 24, kernel: 3, padding: 1}
    - global_avg_pool: {}
    - dense: {units: 5, name: logits}
train:
  data: {file: data.npz, inputs: {image: images, label: labels}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {momentum: {learning_rate: 0.1, momentum: 0.9}}
  batch: 4
  epochs: 1
numerics: {precision: mixed}
"""


def graph_of(folder: Path, text: str = NETWORK, samples: int = 4, pixels: int = 12) -> l1.TensorGraph:
    """The graph of a training step before the pass."""
    images, labels = np.zeros((samples, 3, pixels, pixels), np.float32), np.zeros(samples, np.int32)
    np.savez(folder / "data.npz", images=images, labels=labels)
    (folder / "small.yaml").write_text(text, encoding="utf-8")
    ran = []
    lower(load_model(folder / "small.yaml", {}), TARGET, observe=ran.append)
    graphs = next(r.ir.graphs for r in ran if r.name == "mixed_precision")
    return next(g.graph for g in graphs if g.phase == "train")


@pytest.fixture
def graph(tmp_path: Path) -> l1.TensorGraph:
    return graph_of(tmp_path)


def moved(graph: l1.TensorGraph, monkeypatch: pytest.MonkeyPatch, margin: float) -> l1.TensorGraph:
    monkeypatch.setattr(pass_, "MARGIN", margin)
    return replace(graph, nodes=pass_.channels_last(graph.nodes, graph.outputs, TARGET)[0])


def unrounded(node: l1.Node) -> l1.Node:
    """A node that does not round to bf16."""

    def bare(e: Expr) -> Expr:
        return e.args[0] if isinstance(e, Call) and e.func == ROUNDED else e

    return replace(node, body=rewrite(node.body, bare)) if isinstance(node, l1.Map | l1.Contract) else node


def values_of(graph: l1.TensorGraph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    given = {
        n.out.name: rng.integers(0, 5, n.out.shape) if n.out.dtype == "int" else rng.standard_normal(n.out.shape)
        for n in graph.nodes
        if isinstance(n, l1.Weight | l1.Variable | l1.Feed)
    }
    ones = {n.out.name: np.ones(n.out.shape) for n in graph.nodes if isinstance(n, l1.BatchMask)}
    return evaluate_graph(map(unrounded, graph.nodes), given | ones)


def _same_values(graph: l1.TensorGraph, after: l1.TensorGraph, least: int) -> None:
    """At least so many tensors have moved channels."""
    verify_graph(after, gather_only=True)
    before, found = values_of(graph), values_of(after)
    shapes = {t.name: t.shape for n in after.nodes for t in l1.results(n)}
    last = [t.name for n in graph.nodes for t in l1.results(n) if shapes[t.name] != t.shape]
    assert len(last) > least
    for node in graph.nodes:
        for t in l1.results(node):
            x = np.moveaxis(before[t.name], 1, -1) if shapes[t.name] != t.shape else before[t.name]
            np.testing.assert_allclose(found[t.name].reshape(x.shape), x, rtol=1e-9, atol=1e-12, err_msg=t.name)


def test_every_value_is_the_same(graph: l1.TensorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    _same_values(graph, moved(graph, monkeypatch, float("inf")), 30)


SLICED = """\
    - conv2d: {inputs: image, filters: 16, kernel: 3, name: wide}
    - pad: {before: [0, 1, 0], after: [0, 0, 2], value: 0.5}
    - conv2d: {filters: 16, kernel: 3, name: even}
    - slice: {axis: 0, from: 0, to: 8, name: some}
    - slice: {inputs: even, axis: 0, from: 8, to: 16, name: others}
    - concat: {inputs: [others, some], axis: 0}
    - conv2d: {filters: 8, kernel: 1}
    - global_avg_pool: {name: mean}
    - slice: {inputs: wide, axis: 0, from: 0, to: 7, name: seven}
    - global_avg_pool: {name: mean_of_seven}
    - concat: {inputs: [mean, mean_of_seven]}
    - dense: {units: 5, name: logits}
"""


def test_slices_and_concatenations_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the channels of all their tensors are moved; a slice of seven channels keeps its order, and its source."""
    head, rest = NETWORK.split("  layers:\n")
    graph = graph_of(tmp_path, f"{head}  layers:\n{SLICED}train:{rest.split('train:')[1]}")
    after = moved(graph, monkeypatch, float("inf"))
    shapes = {n.out.name: n.out.shape for n in after.nodes if isinstance(n, l1.Move)}
    assert shapes["some.y"] == (4, 9, 10, 8)
    assert shapes["seven.y"] == (4, 7, 10, 10)
    _same_values(graph, after, 8)


def test_windows_of_one_element_are_none(graph: l1.TensorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    after = moved(graph, monkeypatch, float("inf"))
    product = next(n for n in after.nodes if isinstance(n, l1.Contract) and n.out.name == "conv2d_2.sum")
    assert [d for d, _ in product.dims] == ["n", "oh", "ow", "k", "c"]
    assert all(len(a.terms) <= 1 for axes in product.in_maps for a in axes)


def test_what_is_no_faster_stays(graph: l1.TensorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert moved(graph, monkeypatch, 0.0).nodes == graph.nodes


def test_large_convolutions_are_moved_by_estimate(tmp_path: Path) -> None:
    """And the decision says why."""
    large = NETWORK.replace("12, 12]", "56, 56]").replace("batch: 4", "batch: 64")
    text = re.sub(r"filters: \d+", "filters: 64", large)
    graph = graph_of(tmp_path, text, 64, 56)
    nodes, (decision,) = pass_.channels_last(graph.nodes, graph.outputs, TARGET)
    assert decision.verdict == "moved" and "convolutions take about" in decision.reason
    shapes = {n.out.name: n.out.shape for n in nodes if isinstance(n, l1.Contract)}
    assert shapes["conv2d_2.sum"] == (64, 14, 14, 64)


TURNED = """\
    - conv2d: {inputs: image, filters: 16, kernel: 3, name: first}
    - conv2d: {filters: 16, kernel: 5, padding: 2, groups: 16}
    - permute: {axes: [1, 2, 0]}
    - layer_norm: {}
    - dense: {units: 24}
    - activation: {function: gelu}
    - dense: {units: 16}
    - permute: {axes: [2, 0, 1], name: back}
    - add: {inputs: [first, back]}
    - conv2d: {filters: 8, kernel: 2}
    - global_avg_pool: {}
    - dense: {units: 5, name: logits}
"""


def test_turned_tensors_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The channels of a block of ConvNeXt come last between its permutations already: those of the others follow, and
    nothing is turned any more."""
    head, rest = NETWORK.split("  layers:\n")
    graph = graph_of(tmp_path, f"{head}  layers:\n{TURNED}train:{rest.split('train:')[1]}")
    after = moved(graph, monkeypatch, float("inf"))
    shapes = {n.out.name: n.out.shape for n in after.nodes if isinstance(n, l1.Contract)}
    assert shapes["first.sum"] == (4, 10, 10, 16) and shapes["dense_1.sum"] == (4, 10, 10, 24)

    def turned(nodes: tuple[l1.Node, ...]) -> list[str]:
        return [n.out.name for n in nodes if isinstance(n, l1.Map) and n.out.batched and any(map(_turns, n.maps))]

    assert turned(graph.nodes) and not turned(after.nodes)
    _same_values(graph, after, 8)


def _turns(axes: tuple[int | None, ...]) -> bool:
    places = [a for a in axes if a is not None]
    return places != sorted(places)
