"""Sums over the synapses of a neuron, in statements at events and in every step, against numpy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.emit.emit import emit as emit_c
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from backends.protocol import BackendError
from backends.registry import backend
from compiler.ir.level2.program import Bitmask, Csr, Dense, Merged, OneToOne, Propagate
from compiler.passes.pipeline.lower import lower
from compiler.verify.kernel import code_violations
from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

CONNECT = {
    "csr": "{fixed_probability: {p: 0.4}}",
    "dense": "{all_to_all: {}}",
    "no autapses": "{all_to_all: {autapses: false}}",
    "one to one": "{one_to_one: {}}",
    "twice": "{fixed_indegree: {number: 5}}",
}
BOTH = pytest.mark.parametrize("target", ["cpu", "reference"])


def text(synapse: str, connect: str = CONNECT["csr"], size: int = 12, order: str = "bitwise") -> str:
    return f"""\
language: 1
name: sums
neurons:
  cell:
    state: {{v: {{uniform: {{low: 0, high: 1}}}}, act: {{uniform: {{low: 0, high: 1}}}}}}
    inputs: {{g: {{}}}}
    update: [v = v + 0.15]
    spike: {{when: v >= 1, reset: [v = 0]}}
synapses:
  rule:
{synapse}
phases: {{day: {{every: 5 ms, events: {{start: 0 ms, end: 5 ms}}}}}}
populations:
  a: {{neuron: cell, size: {size}}}
  b: {{neuron: cell, size: {size}}}
simulate: {{dt: 1 ms, duration: 12 ms, seed: 3}}
record: [{{trace: {{from: b, variables: [v, g], members: all}}}}]
numerics: {{precision: float64, order: {order}}}
projections:
  p: {{from: a, to: PLACE, connect: {connect}, synapse: rule}}
""".replace("PLACE", "a" if "autapses" in connect else "b")


def ends(done: Simulated, connect: str, size: int = 12) -> tuple[Array, Array]:
    if "all_to_all" in connect:
        source, target = (x.reshape(-1) for x in np.indices((size, size)))
        keep = source != target if "autapses" in connect else np.ones(size * size, np.bool_)
        return source[keep], target[keep]
    if "one_to_one" in connect:
        return np.arange(size), np.arange(size)
    name = "p[a->b]"
    row = done.instance.read(f"{name}'row")
    return np.repeat(np.arange(size), np.diff(row)), done.instance.read(f"{name}'col")


def member(connect: str) -> str:
    return "p[a->a]" if "autapses" in connect else "p[a->b]"


def over(values: Array, by: Array, size: int = 12) -> Array:
    """Sums by neuron, for each synapse again."""
    total = np.zeros(size)
    np.add.at(total, by, values)
    found: Array = total[by]
    return found


RANDOM = "    state: {w: {uniform: {low: 0.1, high: 1}}, start: 0, low: 0, high: 0, mean: 0, count: 0}\n"
NORMALISE = (
    RANDOM
    + """\
    params: {total: 2.5}
    on:
      day.start: [start = w]
      day.end:
        - w = w * total / sum_post(w)
        - low = min_pre(w)
        - high = max_post(w * pre.act)
        - mean = mean_pre(w - post.act)
        - count = sum_post(1 if w > 0.2 else 0)
"""
)


@pytest.mark.parametrize(("connect", "target"), diagonal(CONNECT, ["cpu", "reference"]))
def test_incoming_weights_are_scaled(tmp_path: Path, target: str, connect: str) -> None:
    """Each statement with a sum sees the preceding statements of all synapses, for every storage."""
    done = simulate(text(NORMALISE, connect), tmp_path, target)
    read = {n: done.instance.read(f"{member(connect)}.{n}") for n in ("w", "start", "low", "high", "mean", "count")}
    i, j = ends(done, connect)
    pre, post = done.instance.read("a.act"), done.instance.read(f"{'a' if 'autapses' in connect else 'b'}.act")
    w = read["start"] * 2.5 / over(read["start"], j)  # the second trial has begun with the weights of the first
    assert np.allclose(read["w"], w, rtol=1e-12)
    assert np.allclose(over(w, j), 2.5, rtol=1e-12)
    assert np.allclose(read["low"], [w[i == x].min() for x in i], rtol=1e-12)
    assert np.allclose(read["high"], [(w * pre[i])[j == x].max() for x in j], rtol=1e-12)
    assert np.allclose(read["mean"], over(w - post[j], i) / over(np.ones(len(i)), i), rtol=1e-12)
    assert np.allclose(read["count"], over(w > 0.2, j))
    if "one_to_one" not in connect:
        assert np.ptp(w) > 0.05


SOFTMAX = """\
    state: {w: {normal: {mean: 0, std: 2}}, first: 0, soft: 0}
    on:
      day.start: [first = w]
      day.end:
        - soft = exp(w - max_post(w)) / sum_post(exp(w - max_post(w)))
        - w = exp(w - max_post(w))
        - w = w / sum_post(w)
"""


@BOTH
def test_softmax(tmp_path: Path, target: str) -> None:
    """Nested sums, and the same in two statements."""
    source = text(SOFTMAX).replace("duration: 12 ms", "duration: 5 ms")
    done = simulate(source, tmp_path, target)
    first, w, soft = (done.instance.read(f"p[a->b].{n}") for n in ("first", "w", "soft"))
    _, j = ends(done, CONNECT["csr"])
    expected = np.exp(first) / over(np.exp(first), j)
    assert np.allclose(w, expected, rtol=1e-12)
    assert np.allclose(soft, expected, rtol=1e-12)


EVERY_STEP = """\
    params: {tau: 4 ms}
    state: {w: {uniform: {low: 0, high: 1}}, u: 0.5}
    let: {big: w * 2}
    dynamics: {dw/dt: -w / tau}
    method: euler
    update: [u = 0.5 * u, change = 0.1 * (mean_post(big) - w), w = w + change + 0.01 * u, "deliver(sum_pre(w), post.g)"]
"""


@BOTH
def test_in_every_step(tmp_path: Path, target: str) -> None:
    """After the dynamics of the step; named expressions have the values of their statement."""
    start = simulate(text(EVERY_STEP).replace("duration: 12 ms", "duration: 1 ms"), tmp_path, target)
    done = simulate(text(EVERY_STEP).replace("duration: 12 ms", "duration: 6 ms"), tmp_path, target)
    i, j = ends(done, CONNECT["csr"])
    w, u = start.instance.read("p[a->b].w"), 0.25
    for _ in range(2, 7):
        w, u = w * 0.75, u / 2
        w = w + 0.1 * (over(2 * w, j) / over(np.ones(len(j)), j) - w) + 0.01 * u
    assert np.allclose(done.instance.read("p[a->b].w"), w, rtol=1e-12)
    delivered = np.zeros(12)
    np.add.at(delivered, j, over(w, i))
    assert np.allclose(done.traces["b", "g"][-1], delivered, rtol=1e-12, atol=1e-6)  # fixed point


@pytest.mark.parametrize("synapse", [NORMALISE, SOFTMAX, EVERY_STEP], ids=["normalise", "softmax", "every step"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_agree(tmp_path: Path, synapse: str, precision: str) -> None:
    runs = []
    for target in ("cpu", "reference"):
        (tmp_path / target).mkdir()
        runs.append(simulate(text(synapse).replace("float64", precision), tmp_path / target, target))
    kept = [a.name for a in runs[0].lowered.merged.arrays if a.role.value in ("state", "synapse")]
    assert any("p[a->b].w" in n for n in kept)
    for name in kept:
        assert np.array_equal(runs[0].instance.read(name), runs[1].instance.read(name)), name


def merged(source: str, folder: Path, target: str) -> Merged:
    return lower(model_of(source, folder), backend(target).capabilities, verify=True).merged


def test_one_text_for_any_number(tmp_path: Path) -> None:
    def many(count: int) -> str:
        more = "".join(f"  q{k}: {{from: a, to: b, connect: {CONNECT['csr']}, synapse: rule}}\n" for k in range(count))
        return text(NORMALISE) + more

    for target, emit in (("cpu", emit_c), ("cuda", emit_cuda)):
        few, lots = (merged(many(n), tmp_path, target) for n in (3, 40))
        assert emit(few).text == emit(lots).text  # type: ignore[operator]
        assert len(few.templates) == len(lots.templates)
        step = next(p for p in lots.phases if p.name == "step")
        assert len(step.launches) == len(next(p for p in few.phases if p.name == "step").launches)


@pytest.mark.nvrtc
def test_cuda_text_compiles(tmp_path: Path) -> None:
    others = enumerate(c for c in CONNECT.values() if "autapses" not in c)
    more = "".join(f"  q{k}: {{from: a, to: b, connect: {c}, synapse: rule}}\n" for k, c in others)
    for order in ("fast", "bitwise"):
        source = text(NORMALISE, CONNECT["no autapses"], order=order) + more
        program = lower(model_of(source, tmp_path), CudaBackend().capabilities, True).merged
        relations = {
            type(t.body.relation) for t in program.templates if isinstance(t.body, Propagate) and t.body.gather
        }
        assert relations == {Csr, Dense, OneToOne}
        compile_text(emit_cuda(program), "sums", order == "bitwise", "sm_90")


@BOTH
def test_synapses_of_a_convolution(tmp_path: Path, target: str) -> None:
    """Each synapse has a weight of its own; targets at the border have fewer."""
    source = text("    state: {w: 0.5, n: 0}\n    on: {day.end: [n = sum_post(1), w = w / sum_post(w)]}\n")
    source = source.replace("size: 12", "shape: [3, 4]")
    conv = "{conv2d: {kernel: 3, padding: 1}}"
    source = source.replace(CONNECT["csr"], conv)
    done = simulate(source, tmp_path, target)
    row, col, n, w = (done.instance.read(f"p[a->b]{x}") for x in ("'row", "'col", ".n", ".w"))
    expected = np.array([[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]]).reshape(-1)
    assert row[-1] == expected.sum()
    assert np.array_equal(n, expected[col])
    assert np.allclose(w, 1 / expected[col], rtol=1e-12)


def test_only_gathering_may_write_at_the_neuron(tmp_path: Path) -> None:
    """Without it, synapses of one neuron run side by side on CUDA: refused there; and events do not gather."""
    program = merged(text(NORMALISE), tmp_path, "cuda")
    (first, *_) = [t for t in program.templates if isinstance(t.body, Propagate) and t.body.gather]
    assert isinstance(first.body, Propagate) and not list(code_violations(first))
    by_mask = replace(first, body=replace(first.body, relation=Bitmask("words", "n_post")))
    assert any("gathers" in v for v in code_violations(by_mask))
    apart = replace(first, body=replace(first.body, gather=False))
    templates = tuple(apart if t is first else t for t in program.templates)
    with pytest.raises(BackendError, match="shared by synapses"):
        emit_cuda(replace(program, templates=templates))
