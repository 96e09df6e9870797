"""Attention at once: programs of its results, forward and backward, over lengths that fill no tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.cuda.run.backend import CudaBackend
from compiler.core.source import NOWHERE
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.level1.builder import GraphBuilder
from compiler.ir.space import DType, Role
from compiler.layout.assign_layouts import array_of
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.layers.load_data import DataSet
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.merge import merge

RESULTS = ("context", "norms", "query", "key", "value")


@dataclass(frozen=True)
class Case:
    """`sizes`: batch, heads, steps, keys, features of a query and of a value; `offset`, `mask`: whether they have axes
    of heads and steps (0: there is none; 1: keys alone, to 3: all); `kind` of the elements."""

    sizes: tuple[int, int, int, int, int, int]
    factors: int
    causal: bool = False
    offset: int = 0
    mask: int = 0
    kind: str = "real"

    def nodes(self, number: int) -> tuple[l1.Node, ...]:
        """Operands, which are variables, and every result; names end with the number of the case."""
        batch, heads, steps, keys, d, e = self.sizes
        g = GraphBuilder()

        def given(name: str, shape: tuple[int, ...], kind: str) -> l1.Tensor:
            return g.add(l1.Variable(l1.Tensor(f"{name}.{number}", shape, kind, True), 0.0))

        q, k = (given(n, (batch, s, heads, d), self.kind) for n, s in (("q", steps), ("k", keys)))
        v, dy = (given(n, (batch, s, heads, e), self.kind) for n, s in (("v", keys), ("dy", steps)))
        axes = (heads, steps, keys)
        beside = {n: given(n, (batch, *axes[3 - x :]), "real") for n, x in self._beside().items()}
        ins = (q.name, k.name, v.name, *(t.name for t in beside.values()))
        out = l1.Tensor(f"context.{number}", dy.shape, self.kind, True)
        node = l1.Attention(out, ins, "context", d**-0.5, self.factors, self.causal, tuple(beside))
        y = g.add(node)
        norms = g.add(replace(node, out=l1.Tensor(f"norms.{number}", (*y.shape[:3], 2), "real", True), of="norms"))
        for of, operand in (("query", q), ("key", k), ("value", v)):
            ins = (*node.ins, dy.name, norms.name, y.name)
            g.add(replace(node, out=replace(operand, name=f"{of}.{number}"), ins=ins, of=of))
        return tuple(g.nodes)

    def _beside(self) -> dict[str, int]:
        return {n: x for n, x in (("offset", self.offset), ("mask", self.mask)) if x}

    def values(self, number: int) -> dict[str, npt.NDArray[np.float32]]:
        """Normal operands; a quarter of the mask hides keys, and, where steps differ, a step sees none."""
        rng = np.random.default_rng(number)
        found = {}
        for node in self.nodes(number):
            if isinstance(node, l1.Variable):
                x = rng.standard_normal(node.out.shape).astype(np.float32)
                if node.out.name.startswith("mask"):
                    x = (x > -0.7).astype(np.float32)
                    if self.mask > 1:
                        x[..., x.shape[-2] // 2, :] = 0.0
                found[node.out.name] = x
        return found


def program(cases: Sequence[Case]) -> l2.Merged:
    """A phase for each case, `case0`, ..., with arrays `q.0`, `case0/context.0`, ..."""
    builder = ProgramBuilder("attention", DType.F32, l2.Order.REPRODUCIBLE)
    graphs = []
    for number, case in enumerate(cases):
        nodes = case.nodes(number)
        for node in nodes:
            if isinstance(node, l1.Variable):
                builder.array(array_of(node.out, node.out.name, DType.F32, 0, Role.STATE))
        graphs.append(l1.TensorGraph(f"case{number}", nodes, tuple(f"{of}.{number}" for of in RESULTS)))
    lower_tensors(builder, tuple(graphs), DataSet({}, {}, NOWHERE), CudaBackend(arch="sm_90").capabilities)
    return merge(builder.finish())


SLICED = """
language: 1
name: sliced
network:
  inputs:
    x: {{shape: [70, 24]}}
    target: {{shape: [], dtype: int32}}
  layers:
    - dense: {{name: all, inputs: x, units: {units}}}
    - slice: {{name: q, inputs: all, axis: 1, from: {first}, to: {key}}}
    - slice: {{name: k, inputs: all, axis: 1, from: {key}, to: {value}}}
    - slice: {{name: v, inputs: all, axis: 1, from: {value}, to: {end}}}
    - dot_attention: {{name: a, inputs: [q, k, v], heads: 4, causal: true}}
    - flatten: {{}}
    - dense: {{name: y, units: 3}}
numerics: {{precision: {precision}}}
train:
  data: {{file: samples.npz, inputs: {{x: x, target: t}}}}
  loss: {{softmax_cross_entropy: {{logits: y, target: target}}}}
  optimizer: {{sgd: {{learning_rate: 0.1}}}}
  batch: 32
  epochs: 1
"""
"""Queries, keys and values are slices of one product."""


def sliced(folder: Path, precision: str = "float32", first: int = 0, units: int = 160) -> Model:
    """Queries and keys of 64 features, values of 32, from feature `first` on."""
    rng = np.random.default_rng(2)
    x, t = rng.standard_normal((32, 70, 24)).astype(np.float32), rng.integers(0, 3, 32).astype(np.int32)
    np.savez(folder / "samples.npz", x=x, t=t)
    ends = {"key": first + 64, "value": first + 128, "end": first + 160}
    path = folder / "sliced.yaml"
    path.write_text(SLICED.format(first=first, **ends, units=units, precision=precision))
    return load_model(path, {})


SMALL = (
    Case((2, 2, 70, 70, 32, 32), 1, True, kind="bf16"),
    Case((2, 3, 33, 100, 24, 8), 2, False, 3, 1),
    Case((1, 2, 130, 65, 64, 48), 3, True, 1, 2),
)
"""Few enough for compute-sanitizer."""
GRID = (
    *SMALL,
    *(
        Case((3, 2, t, s, d, e), p, c)
        for p in (1, 2, 3)
        for c in (False, True)
        for t, s, d, e in ((64, 64, 64, 64), (5, 200, 8, 16), (200, 31, 40, 64), (129, 129, 128, 96))
    ),
    *(Case((2, 2, 96, 80, 64, 64), 1, c, o, m, "bf16") for c in (False, True) for o in (0, 2) for m in (0, 2, 3)),
    *(Case((2, 2, 40, 72, 32, 64), 3, True, o, m) for o in (0, 1, 2, 3) for m in (0, 1, 2, 3)),
)
