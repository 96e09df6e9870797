"""Learned weights shared by all instances of a network, and reductions over instances, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

CONNECT = {
    "csr": "{fixed_probability: {p: 0.4}}",
    "dense": "{all_to_all: {}}",
    "no autapses": "{all_to_all: {autapses: false}}",
    "one to one": "{one_to_one: {}}",
}
COPIES, SIZE = 5, 12

LEARNS = """\
    state: {w: {uniform: {low: 0.1, high: 1}}, dw: 0, n: 0, seen: 0}
    params: {rate: 0.5, gain: 1}
    shared: [w]
    pre: {state: {x: 0}, on_spike: [x = 0.5 * x + 1]}
    on_pre: [deliver(w * gain), dw = dw + pre.x * post.act, n = n + 1]
    on:
      day.end: [seen = w, w = w + rate * mean_instances(dw) * w, dw = 0]
"""


def text(synapse: str, connect: str, more: str = "", simulated: str = "", steps: int = 24) -> str:
    return f"""\
language: 1
name: batch
neurons:
  cell:
    state: {{v: {{uniform: {{low: 0, high: 1}}}}, act: {{uniform: {{low: -1, high: 1}}}}}}
    inputs: {{g: {{}}}}
    update: [v = v + 0.1 + 0.2 * random()]
    spike: {{when: v >= 1, reset: [v = 0]}}
synapses:
  rule:
{synapse}
phases: {{day: {{every: 8 ms, events: {{end: 8 ms}}}}}}
populations:
  a: {{neuron: cell, size: {SIZE}}}
  b: {{neuron: cell, size: {SIZE}}}
simulate: {{dt: 1 ms, duration: {steps} ms, seed: 3{simulated}}}
record: [{{spikes: {{from: all}}}}, {{trace: {{from: all, variables: [g], members: all}}}}]
numerics: {{precision: float32, order: bitwise}}
projections:
  p: {{from: a, to: PLACE, connect: {connect}, synapse: rule{more}}}
""".replace("PLACE", "a" if "autapses" in connect else "b")


SHARED = f", instances: {COPIES}, weights: shared"
INTO = ", deliver: {into: g}, params: {gain: {uniform: {low: 1, high: 2}}}"


def name(connect: str, copy: int) -> str:
    return f"p[a_{copy}->{'a' if 'autapses' in connect else 'b'}_{copy}]"


def ends(done: Simulated, connect: str) -> tuple[Array, Array]:
    if "all_to_all" in connect:
        source, target = (x.reshape(-1) for x in np.indices((SIZE, SIZE)))
        keep = source != target if "autapses" in connect else np.ones(SIZE * SIZE, np.bool_)
        return source[keep], target[keep]
    if "one_to_one" in connect:
        return np.arange(SIZE), np.arange(SIZE)
    row = done.instance.read(f"{name(connect, 0)}'row")
    return np.repeat(np.arange(SIZE), np.diff(row)), done.instance.read(f"{name(connect, 0)}'col")


@pytest.mark.parametrize(("connect", "target"), diagonal(CONNECT, ["cpu", "reference"]))
def test_instances_learn_one_array(tmp_path: Path, target: str, connect: str) -> None:
    """The changes of each instance come from its own spikes, their mean changes the weights that all deliver."""
    done = simulate(text(LEARNS, connect, INTO, SHARED), tmp_path, target)
    read, f = done.instance.read, np.float32
    arrays = {x.name for x in done.lowered.program.arrays}
    assert f"{name(connect, 0)}.w" in arrays
    assert not any(f"{name(connect, k)}{x}" in arrays for k in range(1, COPIES) for x in (".w", ".gain", "'row"))
    i, j = ends(done, connect)
    onto = "a" if "autapses" in connect else "b"
    act = [read(f"{onto}_{k}.act") for k in range(COPIES)]
    seen = read(f"{name(connect, 0)}.seen")  # the weights before the last trial's end, in every instance
    assert all(np.array_equal(read(f"{name(connect, k)}.seen"), seen) for k in range(COPIES))
    total = np.zeros(len(i), f)
    x = np.zeros((COPIES, SIZE), f)
    for k in range(COPIES):
        dw = np.zeros(len(i), f)
        for step in range(1, 25):
            if step == 17:
                dw[:] = 0
            spiked = [n for s, n in done.spikes[f"a_{k}"] if s == step]
            hit = np.isin(i, spiked)
            dw = np.where(hit, dw + x[k][i] * act[k][j], dw).astype(f)
            x[k][spiked] = f(0.5) * x[k][spiked] + f(1)
        total = total + dw
    assert np.array_equal(read(f"{name(connect, 0)}.w"), seen + f(0.5) * (total / f(COPIES)) * seen)
    assert np.ptp(seen) > 0.1
    assert not np.array_equal(read(f"{name(connect, 1)}.n"), read(f"{name(connect, 0)}.n"))
    gain, w = read(f"{name(connect, 0)}.gain"), seen
    for k in range(COPIES):  # in the last step it is still the old weight that is delivered
        spiked = [n for s, n in done.spikes[f"a_{k}"] if s == 24]
        g = np.zeros(SIZE)
        hit = np.isin(i, spiked)
        np.add.at(g, j[hit], (w * gain)[hit])
        assert np.allclose(done.traces[f"{onto}_{k}", "g"][-1], g, rtol=1e-4, atol=1e-4)


KINDS = """\
    state: {w: {uniform: {low: 0.1, high: 1}}, c: {uniform: {low: -1, high: 1}}, up: 0, most: 0, least: 0, all: 0, m: 0}
    shared: [w, up, most, least, all]
    on:
      day.end:
        - up = sum_instances(c * post.act)
        - most = max_instances(c)
        - least = min_instances(c) + random()
        - all = mean_instances(sum_post(c))
        - w = w / sum_post(w)
        - m = m + most - c
"""


@pytest.mark.parametrize(("connect", "target"), diagonal(CONNECT, ["cpu", "reference"]))
def test_every_kind_of_sum(tmp_path: Path, target: str, connect: str) -> None:
    """Sum, maximum, minimum and mean, of expressions and of sums over the synapses of a neuron; what is shared alone
    may be normalised without a sum over instances."""
    done = simulate(text(KINDS, connect, "", SHARED, steps=8), tmp_path, target)
    read, f = done.instance.read, np.float32
    i, j = ends(done, connect)
    onto = "a" if "autapses" in connect else "b"
    c = [read(f"{name(connect, k)}.c") for k in range(COPIES)]
    up, of_targets = np.zeros(len(i), f), np.zeros(len(i), f)
    for k in range(COPIES):
        up = up + c[k] * read(f"{onto}_{k}.act")[j]
        sums = np.zeros(SIZE, f)
        np.add.at(sums, j, c[k])
        of_targets = of_targets + sums[j]
    shared = name(connect, 0)
    assert np.array_equal(read(f"{shared}.up"), up)
    assert np.array_equal(read(f"{shared}.most"), np.max(c, 0))
    drawn = read(f"{shared}.least") - np.min(c, 0)
    assert np.all((drawn >= -1e-6) & (drawn < 1))
    assert np.ptp(drawn) > 0.3
    assert np.array_equal(read(f"{shared}.all"), of_targets / f(COPIES))
    sums = np.zeros(SIZE)
    np.add.at(sums, j, read(f"{shared}.w"))
    assert np.allclose(sums[j], 1, rtol=1e-5)
    for k in range(COPIES):
        assert np.array_equal(read(f"{name(connect, k)}.m"), np.max(c, 0) - c[k])


def test_one_instance(tmp_path: Path) -> None:
    """The mean over one instance is its own value, so a model does not change with `instances`."""
    alone = simulate(text(LEARNS, CONNECT["csr"], INTO), tmp_path)
    plain = LEARNS.replace("mean_instances(dw)", "dw").replace("    shared: [w]\n", "")
    other = simulate(text(plain, CONNECT["csr"], INTO), tmp_path)
    assert np.array_equal(alone.instance.read("p[a->b].w"), other.instance.read("p[a->b].w"))
    assert np.array_equal(alone.spikes["b"], other.spikes["b"])


def test_every_step(tmp_path: Path) -> None:
    """`update` applies the changes of one step at once."""
    rule = "    state: {w: 1, dw: 0}\n    shared: [w]\n    on_pre: [deliver(w), dw = dw + 1]\n"
    rule += "    update: [w = w + sum_instances(dw), dw = 0]\n"
    done = simulate(text(rule, CONNECT["dense"], ", deliver: {into: g}", SHARED), tmp_path)
    spikes = [s for k in range(COPIES) for s in done.spikes[f"a_{k}"]]
    counts = np.bincount([n for step, n in spikes if step < 24], minlength=SIZE)  # seen by `update` of the next step
    assert np.array_equal(done.instance.read("p[a_0->b_0].w"), np.repeat(1 + counts, SIZE))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_text_does_not_depend_on_how_many(tmp_path: Path, target: str) -> None:
    texts = []
    for count in (2, 3, 40):
        source = text(LEARNS, CONNECT["csr"], INTO, f", instances: {count}, weights: shared")
        chosen = backend(target)
        texts.append(chosen.emit(lower(model_of(source, tmp_path), chosen.capabilities, True).merged))
    assert texts[0] == texts[1] == texts[2]
