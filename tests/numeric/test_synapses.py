"""Synapses with equations and statements in every step, against closed forms and plain loops."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.grids import diagonal
from tests.numeric.simulated import Simulated, simulate
from tests.numeric.synapse_oracle import DT, TOLERANCE, everything, model_text, pairs_of, trains, weights

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
precisions = pytest.mark.parametrize("precision", ["float64", "float32"])


def arrays_of(simulated: Simulated) -> dict[str, np.ndarray]:
    """Everything that a run leaves behind, by name."""
    names = [a.name for a in simulated.lowered.program.arrays if str(a.role) in ("state", "synapse")]
    return {name: simulated.instance.read(name) for name in names}


# --------------------------------------------------------------------------------------- event-driven


@pytest.mark.parametrize(("target", "precision"), diagonal(["cpu", "reference"], ["float64", "float32"]))
def test_tsodyks_markram_follows_the_recursion(tmp_path: Path, target: str, precision: str) -> None:
    """u_{n+1} = U + u_n (1 - U) e^{-dt/tau_facil}, x_{n+1} = 1 + (x_n - u_n x_n - 1) e^{-dt/tau_rec} (Tsodyks,
    Pawelzik & Markram 1998; Maass & Markram 2002); each spike delivers w u_n x_n. U differs between the synapses."""
    pre = trains(7, 3, 2000, 0.01)
    us = [0.1, 0.5, 0.3, 0.9]
    pairs = [(2, 1), (0, 0), (1, 1), (0, 1)]  # in the user's order
    projections = f"""\
  plastic:
    from: s
    to: t
    connect: {{pairs: {{list: {[list(p) for p in pairs]}}}}}
    synapse: library/synapses/tsodyks_markram
    deliver: {{into: a}}
    delay: 0.5 ms
    params: {{w: 2 mV, U: {us}, tau_rec: 60 ms, tau_facil: 90 ms}}
"""
    text = model_text(pre, [], (3, 2), projections, "", 2000, f"{{precision: {precision}}}")
    text = text.replace("times: [], indices: []", "times: [300 ms], indices: [0]")
    result = simulate(text, tmp_path, target)
    expected = np.zeros((2000, 2))
    for (i, j), U in zip(pairs, us, strict=True):
        u, x, last = U, 1.0, 0
        for n, k in enumerate(k for k, source in pre if source == i):
            if n > 0:
                time = (k - last) * DT
                u, x = (
                    U + u * (1 - U) * math.exp(-time / 90),
                    1 + (x - u * x - 1) * math.exp(-time / 60),
                )
            last = k
            if k + 5 <= 2000:
                expected[k + 5 - 1, j] += 2 * u * x
    assert np.count_nonzero(expected) > 40
    np.testing.assert_allclose(result.traces["t", "a"], expected, atol=20 * TOLERANCE[precision])
    assert "plastic[s->t]'updated" in {a.name for a in result.lowered.program.arrays}
    assert result.instance.read("plastic[s->t]'updated").shape == (3,)  # one per source is enough


@pytest.mark.parametrize(("uses", "target"), diagonal(["pre", "post", "both"], ["cpu", "reference"]))
def test_event_driven_is_what_every_step_gives(tmp_path: Path, target: str, uses: str) -> None:
    """Linear equations of every form, applied at events or in every step: the same values at events."""
    pre, post = trains(8, 4, 500), trains(9, 3, 500)
    on_pre = "[deliver(w), s = s + y, z = z + s, y = y + 1, o = o + 1]" if uses != "post" else "[deliver(w)]"
    on_post = "[q = q + s + z, s = 0.5 * s, y = y + 2]" if uses != "pre" else "[w = w]"

    def text(driven: bool) -> str:
        synapse = f"""\
synapses:
  lazy:
    params: {{tau: 5 ms, tau_z: 20 ms, level: 0.25, rate: 0.01 / (1 ms)}}
    state: {{s: 1, z: 0.1, y: 0, q: 0, o: 0, w: 1 mV}}
    dynamics: {{ds/dt: -s / tau, dz/dt: (level - z) / tau_z, dy/dt: rate}}
    event_driven: {str(driven).lower()}
    on_pre: {on_pre}
    on_post: {on_post}
"""
        projections = """\
  plastic: {from: s, to: t, connect: {fixed_probability: {p: 0.6}}, synapse: lazy, deliver: {into: a}, delay: 0.2 ms}
"""
        return model_text(pre, post, (4, 3), projections, synapse, 500)

    lazy = simulate(text(True), tmp_path, target)
    eager = simulate(text(False), tmp_path, target)
    held = lazy.instance.read("plastic[s->t]'updated")
    pairs = pairs_of(lazy, "plastic[s->t]", (4, 3))
    assert len(held) == {"pre": 4, "post": 3, "both": len(pairs)}[uses]
    at = [{"pre": p[0], "post": p[1], "both": k}[uses] for k, p in enumerate(pairs)]
    time = (500 - held[at]) * DT
    s, z, y = (weights(lazy, variable=v) for v in "szy")
    np.testing.assert_allclose(s * np.exp(-time / 5), weights(eager, variable="s"), rtol=1e-9)
    np.testing.assert_allclose(0.25 + (z - 0.25) * np.exp(-time / 20), weights(eager, variable="z"), rtol=1e-9)
    np.testing.assert_allclose(y + 0.01 * time, weights(eager, variable="y"), rtol=1e-9)
    for name in "qo":
        np.testing.assert_allclose(weights(lazy, variable=name), weights(eager, variable=name), rtol=1e-9)
    assert np.ptp(weights(lazy, variable="o" if uses == "pre" else "q")) > 0 or uses == "post"


# ------------------------------------------------------------------------------------------ every step

PASSIVE = """\
  passive:
    params: {c: 20 pF}
    state: {v: -70 mV}
    inputs: {i: {unit: pA}, j: {unit: pA}}
    dynamics: {dv/dt: (i + j) / c}
"""
CELLS = """\
language: 1
name: coupled
neurons:
%s
%s
populations:
  x: {neuron: passive, size: 3, init: {v: [-70 mV, -60 mV, -40 mV]}}
  y: {neuron: passive, size: 2, init: {v: [-50 mV, -65 mV]}}
projections:
%s
simulate: {dt: 0.1 ms, duration: %s ms, seed: 1}
record: [trace: {from: [x, y], variables: [v, i], members: all}]
numerics: %s
"""


@pytest.mark.parametrize(("target", "order"), diagonal(["cpu", "reference"], ["reproducible", "bitwise"]))
def test_gap_junctions_bring_potentials_together(tmp_path: Path, target: str, order: str) -> None:
    """Two capacitors and a conductance: the difference decays as exp(-2 g t / C), the mean stays; exactly, each step
    multiplies the difference by 1 - 2 g dt / C, as the current of a step is from the potentials of the one before."""
    projections = """\
  there:
    {from: x, to: y, connect: {pairs: {list: [[0, 0]]}}, synapse: library/synapses/gap_junction, deliver: {into: i},
     params: {g: 0.5 nS}}
  back:
    {from: y, to: x, connect: {pairs: {list: [[0, 0]]}}, synapse: library/synapses/gap_junction, deliver: {into: i},
     params: {g: 0.5 nS}}
"""
    numerics = f"{{precision: float64, order: {order}}}"
    result = simulate(CELLS % (PASSIVE, "", projections, 60, numerics), tmp_path, target)
    a, b = result.traces["x", "v"][:, 0], result.traces["y", "v"][:, 0]
    np.testing.assert_allclose((a + b) / 2, -60, rtol=1e-9)
    k = np.arange(1, 601)
    factor = 1 - 2 * 0.5 * DT / 20
    # the current that is delivered in step 1 acts from step 2 on
    np.testing.assert_allclose(b - a, 20 * factor ** (k - 1), rtol=1e-8)
    np.testing.assert_allclose(b - a, 20 * np.exp(-2 * 0.5 * k * DT / 20), rtol=0.015)


@both
def test_graded_transmission(tmp_path: Path, target: str) -> None:
    projections = """\
  graded:
    {from: x, to: y, connect: {all_to_all: {}}, synapse: library/synapses/graded, deliver: {into: j},
     params: {w: 3 pA, v_half: -50 mV, slope: 4 mV}}
"""
    text = CELLS % (PASSIVE, "", projections, 2, "{precision: float64}")
    result = simulate(text, tmp_path, target)
    drive = sum(3 / (1 + math.exp(-(v + 50) / 4)) for v in (-70, -60, -40))
    expected = np.array([-50.0, -65.0]) + np.arange(20)[:, None] * drive * DT / 20
    np.testing.assert_allclose(result.traces["y", "v"], expected, rtol=1e-12)


@both
def test_nmda_is_integrated_as_written(tmp_path: Path, target: str) -> None:
    """x decays exactly, s by exponential Euler; the current reads the magnesium block of the target's potential."""
    pre = [(5, 0), (40, 0), (41, 0)]
    neurons = PASSIVE
    projections = """\
  plastic:
    {from: s, to: y, connect: {all_to_all: {}}, synapse: library/synapses/nmda, deliver: {into: j}, delay: 0.2 ms,
     params: {g: 0.7 nS}}
"""
    text = model_text(pre, [(90, 0)], (1, 1), projections, "", 100, "{precision: float64}", neurons)
    text = text.replace("simulate:", "  y: {neuron: passive, size: 1}\nsimulate:", 1)
    result = simulate(text, tmp_path, target)
    x = s = 0.0
    v, current = -70.0, 0.0
    for k in range(1, 101):
        v += current * DT / 20
        a, b = -1 / 100 - 0.5 * x, 0.5 * x
        s += (a * s + b) * DT * (math.expm1(a * DT) / (a * DT))
        x *= math.exp(-DT / 2)
        block = 1 / (1 + 1 / 3.57 * math.exp(-0.062 * v))
        current = 0.7 * s * block * (0 - v)
        if k - 2 in (5, 40, 41):
            x += 1
    np.testing.assert_allclose(weights(result, "plastic[s->y]", "x"), [x], rtol=1e-11)
    np.testing.assert_allclose(weights(result, "plastic[s->y]", "s"), [s], rtol=1e-11)
    np.testing.assert_allclose(result.instance.read("y.v"), [v], rtol=1e-11)
    assert s > 0.05


# ------------------------------------------------------------------------------------- all of it at once


@precisions
def test_targets_agree_bit_for_bit(tmp_path: Path, precision: str) -> None:
    text = everything(f"{{precision: {precision}, order: bitwise}}", 3)
    cpu = simulate(text, tmp_path, "cpu")
    reference = simulate(text, tmp_path, "reference")
    ours, theirs = arrays_of(cpu), arrays_of(reference)
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)
    assert np.ptp(ours["plastic_0[s->t].w"]) > 0
    assert np.all(np.isfinite(ours["plastic_1[s->t].r"]))
