"""Pools: reductions over neurons and equations on them, against numpy simulations of the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal
from tests.numeric.simulated import Array, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
SIZE, STEPS = 24, 30


def text(cell: str, populations: str, variables: str, names: str, numerics: str = "{precision: float64}") -> str:
    return f"""\
language: 1
name: pools
neurons:
  cell:
{cell}
populations:
{populations}
simulate: {{dt: 1 ms, duration: {STEPS} ms, seed: 2}}
record: [{{trace: {{from: [{names}], variables: [{variables}], members: all}}}}]
numerics: {numerics}
"""


def start(size: int = SIZE) -> list[float]:
    return [round(float(x), 3) for x in np.random.default_rng(5).uniform(0.1, 1.0, size)]


EVERYTHING = """\
    params: {gain: 0.3}
    state: {x: 0, y: 0, s_sum: 0, s_mean: 0, s_low: 0, s_high: 0, s_who: 0, whole: 0}
    pool:
      reduce:
        total: sum(drive)
        mean_x: mean(x)
        low: min(x - y)
        high: max(drive * drive)
        who: argmax(drive)
      state: {g: gain}
      update: [target = total - high, g = g + gain * (target - g) + 0 * population.m]
    population:
      reduce: {m: mean(x)}
    update:
      - drive = x + 0.1 * sin(t / 1 ms)
      - big = drive > 0.5
      - x = x + 0.01
      - y = y + pool.g * 0.1 - 0.1 * y + (1 if big else 0)
      - x = 0.9 * x + 0.05 * drive
      - s_sum = pool.total
      - s_mean = pool.mean_x
      - s_low = pool.low
      - s_high = pool.high
      - s_who = pool.who
      - whole = population.m
"""


def everything(x0: Array, pools: int) -> dict[str, list[Array]]:
    """The same in numpy, written out."""
    x, y, g = x0.copy(), np.zeros(SIZE), np.full(pools, 0.3)
    out: dict[str, list[Array]] = {}
    for k in range(1, STEPS + 1):
        drive = x + 0.1 * np.sin(k)
        big = drive > 0.5
        x = x + 0.01

        def per(values: Array) -> Array:
            return values.reshape(pools, -1)

        total, mean_x, low = per(drive).sum(1), per(x).mean(1), per(x - y).min(1)
        high, who, m = per(drive * drive).max(1), per(drive).argmax(1), x.mean()
        g = g + 0.3 * ((total - high) - g)

        def each(values: Array) -> Array:
            return np.repeat(values, SIZE // pools)

        y = y + each(g) * 0.1 - 0.1 * y + big
        x = 0.9 * x + 0.05 * drive
        found = {"x": x, "y": y, "s_sum": each(total), "s_mean": each(mean_x), "s_low": each(low)}
        found |= {"s_high": each(high), "s_who": each(who), "whole": np.full(SIZE, m)}
        for name, values in found.items():
            out.setdefault(name, []).append(values)
    return out


@pytest.mark.parametrize(("target", "pools"), diagonal(["cpu", "reference"], [1, 4]))
def test_every_reduction_within_the_step(tmp_path: Path, target: str, pools: int) -> None:
    """Pools read what was computed before the first statement that reads them, and are read in the same step."""
    x0 = start()
    populations = f"  a: {{neuron: cell, size: {SIZE}, pools: {pools}, init: {{x: {x0}}}}}"
    variables = "x, y, s_sum, s_mean, s_low, s_high, s_who, whole"
    result = simulate(text(EVERYTHING, populations, variables, "a"), tmp_path, target)
    for name, expected in everything(np.array(x0), pools).items():
        assert np.allclose(result.traces["a", name], np.array(expected), rtol=1e-12, atol=1e-13), name


@both
def test_dynamics_read_the_pools_of_the_step_before(tmp_path: Path, target: str) -> None:
    """dv/dt = mean(v) - v by Euler, with the mean of the step before; linear, so that `exact` takes it as still."""
    cell = """\
    state: {v: 0}
    pool: {reduce: {m: mean(v)}}
    dynamics: {dv/dt: (pool.m - v) / (10 ms)}
    method: METHOD
"""
    x0 = np.array(start())
    for method in ("euler", "auto"):
        populations = f"  a: {{neuron: cell, size: {SIZE}, init: {{v: {x0.tolist()}}}}}"
        result = simulate(text(cell.replace("METHOD", method), populations, "v", "a"), tmp_path, target)
        v, m, expected = x0.copy(), 0.0, []
        for _ in range(STEPS):
            v = v + 0.1 * (m - v) if method == "euler" else m + (v - m) * np.exp(-0.1)
            m = v.mean()
            expected.append(v)
        assert np.allclose(result.traces["a", "v"], expected, rtol=1e-12)


@both
def test_softmax_over_a_population(tmp_path: Path, target: str) -> None:
    """Reductions in a chain: the largest value, then the sum of exponentials."""
    cell = """\
    state: {x: 0, p: 0}
    pool: {reduce: {top: max(x), z: sum(exp(x - pool.top))}}
    update: [x = 1.1 * x, p = exp(x - pool.top) / pool.z]
"""
    x0 = np.array(start())
    populations = f"  a: {{neuron: cell, size: {SIZE}, pools: 3, init: {{x: {x0.tolist()}}}}}"
    result = simulate(text(cell, populations, "p", "a"), tmp_path, target)
    for k in range(1, STEPS + 1):
        x = (x0 * 1.1**k).reshape(3, -1)
        expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
        assert np.allclose(result.traces["a", "p"][k - 1], expected.ravel(), rtol=1e-10)


@both
def test_spikes_after_pools(tmp_path: Path, target: str) -> None:
    """Winner takes all: the spike condition reads the pool; refractory neurons are held on both sides of it."""
    cell = """\
    state: {v: 0, n: 0}
    pool: {reduce: {top: max(v)}}
    update: [v = v + 0.05]
    spike: {when: v >= pool.top, reset: [v = 0, n = n + 1], refractory: {time: 3 ms, hold: [v]}}
"""
    x0 = np.array(start())
    populations = f"  a: {{neuron: cell, size: {SIZE}, pools: 2, init: {{v: {x0.tolist()}}}}}"
    result = simulate(text(cell, populations, "v, n", "a"), tmp_path, target)
    v, n, left = x0.copy(), np.zeros(SIZE), np.zeros(SIZE, int)
    for k in range(STEPS):
        held = left > 0
        v = np.where(held, v, v + 0.05)
        top = np.repeat(v.reshape(2, -1).max(1), SIZE // 2)
        fired = ~held & (v >= top)
        v, n = np.where(fired, 0.0, v), n + fired
        left = np.where(fired, 3, np.maximum(left - 1, 0))
        assert np.allclose(result.traces["a", "v"][k], v, rtol=1e-13)
        assert np.array_equal(result.traces["a", "n"][k], n)
    assert n.sum() > STEPS


RANDOM = """\
    params: {gain: 0.5}
    state: {x: 1, y: 0}
    inputs: {ge: {decay: 5 ms}, now: {}}
    let: {both: x + y}
    pool:
      reduce: {total: sum(drive), low: min(both), events: sum(now), who: argmax(drive)}
      state: {g: 0}
      update: [g = 0.9 * g + 0.1 * gain * total / 20 + 0.01 * random()]
    update:
      - drive = x + 0.1 * random() + ge
      - big = drive > 1.1
      - y = y + (1 if big else 0) - 0.01 * pool.g + 0.001 * pool.low + pool.events + 0.001 * pool.who
      - x = 0.9 * x + 0.1 * drive * random() - 0.05 * pool.g
    spike: {when: x > 1, reset: [x = 0.5 * x]}
"""
TWO = """\
  a: {neuron: cell, size: 40, pools: 4, init: {x: {uniform: {low: 0, high: 2}}}}
  b: {neuron: cell, size: 500, init: {x: {uniform: {low: 0, high: 2}}}}
projections:
  p: {from: all, to: all, connect: {fixed_probability: {p: 0.1}}, deliver: {into: ge, weight: 0.05}}
  q: {from: a, to: b, connect: {fixed_probability: {p: 0.1}}, deliver: {into: now, weight: 0.05}}
"""


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_agree(tmp_path: Path, precision: str) -> None:
    """cpu and reference under `order: bitwise`: sums, crossing locals, draws, deliveries in fixed point."""
    numerics = f"{{precision: {precision}, order: bitwise}}"
    runs = [
        simulate(text(RANDOM, TWO, "x, y, ge", "a, b", numerics), tmp_path / target, target)
        for target in ("cpu", "reference")
        if not (tmp_path / target).mkdir()
    ]
    for key, values in runs[0].traces.items():
        assert np.array_equal(values, runs[1].traces[key]), key
        assert np.ptp(values) > 0


def cuda(merged_text: str, folder: Path, arch: str, order: str) -> None:
    model = model_of(merged_text, folder)
    merged = lower(model, CudaBackend().capabilities, True).merged
    compile_text(emit_cuda(merged), "pools", order == "bitwise", arch)


@pytest.mark.nvrtc
@pytest.mark.parametrize("order", ["fast", "reproducible", "bitwise"])
def test_cuda_text_compiles(tmp_path: Path, order: str) -> None:
    cuda(text(RANDOM, TWO, "x, y", "a, b", f"{{order: {order}}}"), tmp_path, "sm_90", order)
    cuda(text(EVERYTHING, "  a: {neuron: cell, size: 24, pools: 4}", "x", "a"), tmp_path, "sm_90", order)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_text_does_not_depend_on_how_many_there_are(tmp_path: Path, target: str) -> None:
    """The numbers of populations, pools and neurons are data."""
    few = ", ".join(f"p{i}: {{neuron: cell, size: {8 * (i + 1)}, pools: 2}}" for i in range(2))
    many = ", ".join(f"p{i}: {{neuron: cell, size: {24 * (i + 1)}, pools: {4 + 4 * (i % 2)}}}" for i in range(40))
    chosen = backend(target)
    texts = []
    for populations in (few, many):  # on one line: comments name lines of the file
        model = model_of(text(EVERYTHING, f"  {{{populations}}}", "x", "p0, p1"), tmp_path)
        merged = lower(model, chosen.capabilities).merged
        texts.append(CpuBackend().emit(merged) if target == "cpu" else emit_cuda(merged).text)
    assert texts[0] == texts[1]


def test_locals_that_can_be_computed_again_are_not_kept(tmp_path: Path) -> None:
    """Only values that cannot be recomputed are stored between the two kernels of a split step."""
    cell = """\
    state: {x: 1, y: 0}
    pool: {reduce: {total: sum(a)}}
    update:
      - a = 2 * y
      - b = a + 1
      - c = x + random()
      - x = x + 1
      - y = pool.total + b + c
"""
    model = model_of(text(cell, "  a: {neuron: cell, size: 4}", "x", "a"), tmp_path)
    arrays = {x.name for x in lower(model, backend("cpu").capabilities, True).program.arrays}
    assert "a.c'kept" in arrays
    assert not {"a.a'kept", "a.b'kept"} & arrays


@both
def test_names_that_the_compiler_uses_too(tmp_path: Path, target: str) -> None:
    """A neuron's own `pool_m`, `k`, `members` and a named expression that reads a pool; pools with names of states."""
    cell = """\
    state: {pool_m: 2, k: 3, members: 0, out: 0}
    let: {twice: 2 * pool.m}
    pool: {reduce: {m: mean(k), largest: max(k)}, state: {k: 1}, update: [acc = k + 1, k = acc]}
    update: [k = k + 1, members = pool.m + twice, out = pool.k + pool.largest, pool_m = pool_m + pool.m]
"""
    result = simulate(
        text(cell, "  a: {neuron: cell, size: 4, pools: 2}", "pool_m, k, members, out", "a"), tmp_path, target
    )
    m, own = 3.0, 2.0  # named expressions are evaluated where `update` begins, and so are the pools then
    for step in range(1, STEPS + 1):
        m = 3.0 + step - 1
        own += m
        assert result.trace("a", "k")[step - 1] == 3 + step
        assert result.trace("a", "members")[step - 1] == 3 * m
        assert result.trace("a", "out")[step - 1] == 1 + step + m
        assert result.trace("a", "pool_m")[step - 1] == own


def test_pools_are_recorded(tmp_path: Path) -> None:
    """A trace of `pool.x` has one member per pool, one of `population.x` has one."""
    x0 = start()
    populations = f"  a: {{neuron: cell, size: {SIZE}, pools: 4, init: {{x: {x0}}}}}"
    result = simulate(text(EVERYTHING, populations, "x, pool.total, population.m, pool.g", "a"), tmp_path)
    expected = everything(np.array(x0), 4)
    assert result.traces["a", "pool.total"].shape == (STEPS, 4)
    assert np.allclose(result.traces["a", "pool.total"], np.array(expected["s_sum"])[:, :: SIZE // 4], rtol=1e-12)
    assert np.allclose(result.traces["a", "population.m"][:, 0], np.array(expected["whole"])[:, 0], rtol=1e-12)
    assert [r.group for r in result.model.traces] == ["a", "a.population", "a.pool"]


def test_pooled_inhibition_is_sparse(tmp_path: Path, root: Path) -> None:
    """The FFFB model: each pool's inhibition is what its equations say, and without it the layer fires much more."""
    model = (root / "models" / "pooled_inhibition.yaml").read_text()
    result = simulate(model, tmp_path, settings={"layer_size": "200"})
    pools = {n: result.traces["layer", f"pool.{n}"].astype(float) for n in ("ge_mean", "act_mean", "ffi", "g_inh")}
    assert np.allclose(pools["ffi"], np.maximum(pools["ge_mean"] - 0.1, 0), atol=1e-6)
    feedback = np.zeros(4)
    for k in range(len(pools["ffi"])):
        feedback += (pools["act_mean"][k] - feedback) / 1.4
        assert np.allclose(pools["g_inh"][k], 1.8 * (pools["ffi"][k] + feedback), rtol=1e-4, atol=1e-5)
    free = simulate(model, tmp_path, settings={"layer_size": "200", "gi": "0"})
    assert len(free.spikes["layer"]) > 4 * len(result.spikes["layer"]) > 400


@both
def test_pools_without_reductions(tmp_path: Path, target: str) -> None:
    cell = """\
    params: {g: 2}
    state: {v: 0}
    pool: {state: {k: 1, n: 0}, update: [n = n + k], on: {trial.start: [k = k + g]}}
    update: [v = v + pool.n]
"""
    phases = "phases: {trial: {every: 2 ms, events: {start: 0 ms}}}\n"
    found = simulate(phases + text(cell, "  a: {neuron: cell, size: 4, pools: 2}", "v", "a"), tmp_path, target)
    k = 3 + 2 * (np.arange(STEPS) // 2)
    np.testing.assert_allclose(found.traces["a", "v"], np.cumsum(np.cumsum(k))[:, None] + np.zeros(4))
