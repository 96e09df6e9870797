"""Attention at once, without a GPU: its gradients, when it is taken, and its text up to the machine code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from backends.reference.evaluate import rounded
from backends.reference.load import instantiate
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.space import DType
from compiler.passes.layers.lower_loss import add_loss
from compiler.passes.layers.lower_network import lower_network
from compiler.passes.pipeline.lower import Lowered, lower
from compiler.passes.tensors.differentiate import differentiate
from compiler.strategies.choice import NotApplicable
from compiler.strategies.cuda.fused_attention import Attending, Extents, shared_bytes
from tests.evaluate_graph import evaluate_graph
from tests.gpu.attention_cases import RESULTS, SMALL, Case, program, sliced
from tests.numeric.test_gradients import inputs_of

TEXT = """
language: 1
name: attending
network:
  inputs:
    x: {{shape: [{steps}, {features}]}}
    seen: {{shape: [{steps}, {steps}]}}
    target: {{shape: [], dtype: int32}}
  layers:
    - attention: {{name: a, heads: 4, inputs: x, {keys}}}
    - flatten: {{}}
    - dense: {{name: y, units: 3}}
numerics: {{{numerics}}}
train:
  data: {{file: samples.npz, inputs: {{x: x, seen: seen, target: t}}}}
  loss: {{softmax_cross_entropy: {{logits: y, target: target}}}}
  optimizer: {{sgd: {{learning_rate: 0.1}}}}
  batch: {batch}
  epochs: 1
"""
SM_90 = CudaBackend(arch="sm_90").capabilities


def model(
    folder: Path, keys: str = "causal: true", numerics: str = "precision: float32", batch: int = 64, features: int = 64
) -> Model:
    steps, rng = (6 if batch < 8 else 64), np.random.default_rng(1)
    x = rng.standard_normal((2 * batch, steps, features)).astype(np.float32)
    seen, t = (rng.random((2 * batch, steps, steps)) > 0.3).astype(np.float32), np.zeros(2 * batch, np.int32)
    np.savez(folder / "samples.npz", x=x, seen=seen, t=t)
    path = folder / "model.yaml"
    path.write_text(TEXT.format(keys=keys, numerics=numerics, batch=batch, steps=steps, features=features))
    return load_model(path, {})


def kernels(lowered: Lowered) -> list[l2.Attention]:
    return [t.body for t in lowered.merged.templates if isinstance(t.body, l2.Attention)]


@pytest.mark.parametrize("keys", ["causal: true", "mask: seen", "offset: seen", "causal: true, mask: seen"])
def test_gradients_are_those_of_contractions(keys: str, tmp_path: Path) -> None:
    """In float64, of every weight."""
    small = model(tmp_path, keys, batch=3, features=16)
    assert small.network is not None and small.train is not None
    found = []
    for factors in (0, 3):
        context, named = lower_network(small.network, small.train, "train", lambda graph, name, node, n=factors: n)
        lost = add_loss(context.graph, small.train, named, context.mask, context.count)
        gradients = differentiate(context.graph, lost.loss, lost.constants)
        nodes = tuple(context.graph.nodes)
        assert any(isinstance(n, l1.Attention) for n in nodes) == (factors > 0)
        values = evaluate_graph(nodes, inputs_of(nodes, 3))
        found.append({w: values[t.name] for w, t in gradients.items()})
    assert found[0].keys() == found[1].keys() and len(found[0]) == 10
    for weight, gradient in found[0].items():
        np.testing.assert_allclose(found[1][weight], gradient, rtol=1e-9, atol=1e-12, err_msg=weight)


@pytest.mark.parametrize(
    ("numerics", "factors"),
    [
        ("precision: float32", 3),
        ("products: tf32", 2),
        ("products: tf32x3", 3),
        ("products: bf16", 1),
        ("precision: mixed", 1),
        ("products: exact", None),
        ("order: bitwise", None),
        ("precision: float64", None),
        ("precision: mixed, products: exact", None),
    ],
)
def test_it_is_as_exact_as_is_asked_for(numerics: str, factors: int | None, tmp_path: Path) -> None:
    lowered = lower(model(tmp_path, numerics=numerics), SM_90, True)
    found = kernels(lowered)
    assert {k.factors for k in found} == ({factors} if factors else set())
    told = [d.verdict for d in lowered.decisions if (d.pass_name, d.subject) == ("choose_strategies", "train: a")]
    assert told == (["at once"] if factors else [])


def test_results_share_kernels(tmp_path: Path) -> None:
    """Forward in training with the norms, elsewhere without; keys and values are one kernel."""
    found = {k.of for k in kernels(lower(model(tmp_path), SM_90, True))}
    assert found == {("context", "norms"), ("context",), ("query",), ("key", "value")}


def test_blocks_leave_room_for_others(tmp_path: Path) -> None:
    """A processor holds four, or three of float32."""
    for numerics, resident in (("precision: float32", 3), ("products: tf32", 4)):
        text = CudaBackend().emit(lower(model(tmp_path, numerics=numerics), SM_90, True).merged)
        assert len(re.findall(rf"__launch_bounds__\(128, {resident}\) k\d+_attention", text)) == 4


@pytest.mark.parametrize(
    ("keys", "features", "batch", "why"),
    [
        ("offset: a_trained", 64, 64, "its offset is trained"),
        ("causal: true", 1040, 64, "heads of 260 and 260 features have no tile"),
        ("causal: true", 36, 64, "heads of 9 and 9 features have no tile"),
    ],
)
def test_what_it_cannot_do_is_contracted(keys: str, features: int, batch: int, why: str, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    asked = model(tmp_path, keys.replace("a_trained", "seen"), batch=batch, features=features)
    if "a_trained" in keys:
        scaled = "    - dense: {name: a_trained, inputs: seen, units: 64}\n    - attention"
        path.write_text(
            path.read_text().replace("    - attention", scaled).replace("offset: seen", "offset: a_trained")
        )
        asked = load_model(path, {})
    lowered = lower(asked, SM_90, True)
    assert not kernels(lowered)
    assert ("by contractions", why) in [(d.verdict, d.reason) for d in lowered.decisions if d.subject == "train: a"]


@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_slices_are_read_where_they_lie(precision: str, tmp_path: Path) -> None:
    """q of 64 features, k of 64 and v of 32, side by side in a product: forward and backward."""
    lowered = lower(sliced(tmp_path, precision), SM_90, True)
    verdicts = {d.subject: d.verdict for d in lowered.decisions if d.pass_name == "place_parts"}
    assert {verdicts[f"train: {x}.y"] for x in "qkv"} == {"in place"}
    merged = lowered.merged
    arrays = {a.name: a for a in merged.arrays}
    attended = [t for t in merged.templates if isinstance(t.body, l2.Attention)]
    assert len(attended) == 4
    for t in attended:
        table = merged.tables[t.index]
        for name, first in (("query", 0), ("key", 64), ("value", 128)):
            assert [*table.scalars[f"{name}_by_step"]] == [160]
            (array,) = table.arrays[name]
            assert arrays[array].first == first and arrays[array].within.endswith("/all.biased")


@pytest.mark.parametrize(
    ("units", "why"), [(164, "need its elements side by side"), (176, "attention reads 8 elements")]
)
def test_slices_that_are_not_aligned_are_copied(units: int, why: str, tmp_path: Path) -> None:
    """From the fourth feature on; lines of 164 elements are not aligned, either."""
    lowered = lower(sliced(tmp_path, first=4, units=units), SM_90, True)
    told = [d for d in lowered.decisions if d.pass_name == "place_parts" and d.subject == "train: k.y"]
    assert [d.verdict for d in told] == ["copied"] and why in told[0].reason


def test_small_heads_are_contracted() -> None:
    """Tiles would be nearly empty; the time grows with the tiles, that of contractions with the scores."""
    attending = Attending.of(SM_90, DType.F32, l2.Order.REPRODUCIBLE, True)
    (large,), (small,) = (
        attending.fitting(Extents(*e)) for e in ((32, 8, 128, 128, 64, 64, True), (512, 16, 4, 4, 16, 16, False))
    )
    assert (large.pays, small.pays) == (True, False)
    little = replace(attending, device=replace(SM_90.device, shared_block=shared_bytes(64, 1, True) - 1))
    with pytest.raises(NotApplicable, match="shared memory"):
        little.fitting(Extents(32, 8, 128, 128, 64, 64, True))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_attention_compiles(arch: str) -> None:
    """Forward and backward, with all factors."""
    found = compile_text(emit(program(SMALL)), "attention", False, arch)
    assert any(b"mma" in b.with_suffix(".ptx").read_bytes() for b in found.beside)


UNIT = {1: 6e-3, 2: 1e-6, 3: 1e-6}
"""Relative error (Frobenius) by factors, of which the interpreter rounds those of bf16."""


@pytest.mark.parametrize("case", [*SMALL, Case((2, 2, 40, 24, 16, 8), 1, mask=3), Case((1, 2, 9, 9, 8, 8), 3, True)])
def test_the_interpreter_computes_it(case: Case) -> None:
    """As the definition does, forward and backward."""
    nodes, values = case.nodes(0), case.values(0)
    if case.kind == "bf16":
        values = {n: x if n.startswith("mask") else np.asarray(rounded(x)) for n, x in values.items()}
    exact = evaluate_graph(nodes, {n: x.astype(np.float64) for n, x in values.items()})
    instance = instantiate(program([case]))
    for name, x in values.items():
        instance.write(name, x)
    instance.run("case0", 1, 1)
    for of in RESULTS:
        wanted = exact[f"{of}.0"].ravel()
        error = np.linalg.norm(instance.read(f"case0/{of}.0") - wanted) / np.linalg.norm(wanted)
        assert error < 3 * UNIT[case.factors], (of, error)
