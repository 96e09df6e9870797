"""A deterministic network of 20 neurons with delays against NEST, spike for spike: steps, deliveries and refractory
periods have NEST's semantics. Needs NEST in benchmarks/.venv-nest (`benchmarks/setup.sh nest`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.numeric.simulated import simulate

PYTHON = Path(__file__).parents[2] / "benchmarks" / ".venv-nest" / "bin" / "python"
pytestmark = pytest.mark.slow

N, DURATION = 20, 500.0

SCRIPT = """
import json, sys
import nest
given = json.loads(sys.argv[1])
nest.set_verbosity("M_ERROR")
nest.resolution = 0.1
cells = nest.Create("iaf_psc_exp", given["n"], {
    "E_L": -65.0, "V_th": -50.0, "V_reset": -65.0, "C_m": 250.0, "tau_m": 10.0,
    "tau_syn_ex": 2.0, "tau_syn_in": 2.0, "t_ref": 2.0, "V_m": -65.0})
cells.V_m = given["v"]
cells.I_e = given["current"]
ids = cells.tolist()
for source, target, weight, delay in given["synapses"]:
    nest.Connect(cells[source], cells[target], "one_to_one", {"weight": weight, "delay": delay})
recorder = nest.Create("spike_recorder")
nest.Connect(cells, recorder)
nest.Simulate(given["duration"])
events = recorder.events
first = min(ids)
print("RESULT", json.dumps([[round(t * 10), int(s) - first] for t, s in zip(events["times"], events["senders"])]))
"""


def network(seed: int) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j and rng.random() < 0.3]
    synapses = [
        (i, j, float(np.round(rng.uniform(100, 300), 2)) * (-1 if i % 5 == 0 else 1), int(rng.integers(1, 60)) / 10)
        for i, j in pairs
    ]
    return {
        "n": N,
        "duration": DURATION,
        "v": [float(x) for x in np.round(rng.uniform(-65, -51, N), 3)],
        "current": [float(x) for x in np.round(rng.uniform(300, 480, N), 2)],
        "synapses": synapses,
    }


def model(given: dict[str, object]) -> str:
    """One population; a projection per delay, as a user would write explicit pairs."""
    synapses = given["synapses"]
    assert isinstance(synapses, list)
    blocks = []
    for delay in sorted({s[3] for s in synapses}):
        mine = [s for s in synapses if s[3] == delay]
        pairs = ", ".join(f"[{i}, {j}]" for i, j, _, _ in mine)
        weights = ", ".join(f"{w} pA" for _, _, w, _ in mine)
        blocks.append(
            f"  d{round(delay * 10)}: {{from: cells, to: cells, connect: {{pairs: {{list: [{pairs}]}}}},\n"
            f"    deliver: {{into: I_syn, weight: [{weights}]}}, delay: {delay} ms}}"
        )
    v, current = given["v"], given["current"]
    assert isinstance(v, list) and isinstance(current, list)
    return "\n".join(
        [
            "language: 1",
            "populations:",
            "  cells:",
            "    neuron: library/neurons/lif_psc_exp",
            f"    size: {N}",
            "    params: {E_L: -65 mV, V_th: -50 mV, V_reset: -65 mV, C_m: 250 pF, tau_m: 10 ms, tau_syn: 2 ms,",
            f"             t_ref: 2 ms, I_e: [{', '.join(f'{x} pA' for x in current)}]}}",
            f"    init: {{v: [{', '.join(f'{x} mV' for x in v)}]}}",
            "projections:",
            *blocks,
            f"simulate: {{dt: 0.1 ms, duration: {DURATION} ms}}",
            "record: [{spikes: {from: cells}}]",
            "numerics: {precision: float64}",
        ]
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_raster_is_that_of_nest(tmp_path: Path, seed: int) -> None:
    given = network(seed)
    done = subprocess.run([PYTHON, "-c", SCRIPT, json.dumps(given)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT "))
    theirs = sorted(tuple(x) for x in json.loads(line.removeprefix("RESULT ")))
    ours = sorted(tuple(x) for x in simulate(model(given), tmp_path).spikes["cells"].tolist())
    assert len(ours) > 300
    assert ours == theirs


FIRST = """
import json
import nest
nest.set_verbosity("M_ERROR")
found = []
for model, weight in (("iaf_psc_exp", 900.0), ("iaf_psc_alpha", 900.0), ("iaf_cond_exp", 9.0), ("iaf_psc_delta", 1.0)):
    for delay in (0.1, 0.2, 1.5):
        nest.ResetKernel()
        nest.resolution = 0.1
        source = nest.Create("spike_generator", params={"spike_times": [1.0]})
        relay, cell = nest.Create("parrot_neuron"), nest.Create(model)
        nest.Connect(source, relay, syn_spec={"delay": 0.1})
        nest.Connect(relay, cell, syn_spec={"weight": weight, "delay": delay})
        meter = nest.Create("multimeter", params={"record_from": ["V_m"], "interval": 0.1})
        nest.Connect(meter, cell)
        nest.Simulate(5.0)
        moved = abs(meter.events["V_m"] - meter.events["V_m"][0]) > 1e-9
        found.append([model, delay, round(10 * meter.events["times"][moved][0])])
print("RESULT", json.dumps(found))
"""
LIKE = {
    "iaf_psc_exp": ("lif_psc_exp_2", "I_ex, weight: 900 pA"),
    "iaf_psc_alpha": ("lif_psc_alpha", "rise, weight: 900 pA"),
    "iaf_cond_exp": ("lif_cond_exp", "g_ex, weight: 9 nS"),
    "iaf_psc_delta": ("lif", "jump, weight: 1 mV"),
}
ONE = """
language: 1
populations:
  s: {neuron: library/neurons/spike_times, size: 1, params: {times: [1.1 ms], indices: [0]}}
  n: {neuron: library/neurons/NEURON, size: 1}
projections: {p: {from: s, to: n, connect: {one_to_one: {}}, deliver: {into: INTO}, delay: DELAY ms}}
simulate: {dt: 0.1 ms, duration: 5 ms}
record: [{trace: {from: n, variables: [v], members: all, every: 0.1 ms}}]
numerics: {precision: float64}
"""


@pytest.mark.usefixtures("cc", "not_optimized", "without_plots")
def test_a_delay_is_that_of_nest() -> None:
    """The step in which the potential first moves: with the same delay, of `iaf_psc_delta` with one step less."""
    done = subprocess.run([PYTHON, "-c", FIRST], capture_output=True, text=True, check=True)
    line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT"))
    for model, delay, step in json.loads(line.removeprefix("RESULT")):
        neuron, into = LIKE[model]
        ours = delay - 0.1 if model == "iaf_psc_delta" else delay
        text = ONE.replace("NEURON", neuron).replace("INTO", into).replace("DELAY", f"{ours:.1f}")
        times, v = netloom.load(text).run().traces("n", "v")
        first = times[np.abs(v[:, 0] - v[0, 0]) > 1e-9][0]
        assert round(10 * first) == step, (model, delay)


LEARNS = """
import json, sys
import nest
given = json.loads(sys.argv[1])
nest.set_verbosity("M_ERROR")
nest.resolution = 0.1
sources = nest.Create("spike_generator", 2)
sources[0].spike_times, sources[1].spike_times = given["pre"], given["post"]
relay, weights = nest.Create("parrot_neuron"), nest.Create("weight_recorder")
cell = nest.Create("iaf_psc_delta", params={"V_th": 500.0, "t_ref": 0.1, "tau_minus": 20.0})
nest.CopyModel("stdp_synapse", "learns", {"Wmax": 1.0, "weight_recorder": weights})
nest.Connect(sources[0], relay, syn_spec={"delay": 0.1})
nest.Connect(sources[1], cell, syn_spec={"delay": 0.1, "weight": 1000.0})
nest.Connect(relay, cell, syn_spec={"synapse_model": "learns", "weight": 0.5, "delay": 1.5})
nest.Simulate(250.0)
print("RESULT", json.dumps(weights.events["weights"].tolist()))
"""
LEARNED = """
language: 1
neurons:
  relay:
    inputs: {go: {}, w: {}}
    state: {go_now: 0, w_now: 0}
    update: [go_now = go, w_now = w]
    spike: {when: go_now > 0.5, reset: []}
synapses:
  stdp:
    state: {w: 0.5}
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / (20 ms)}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / (20 ms)}, on_spike: [y = y + 1]}
    on_pre: ["w = max(w - 0.01 * w * post.y, 0)", deliver(w)]
    on_post: ["w = min(w + 0.01 * (1 - w) * pre.x, 1)"]
populations:
  pre: {neuron: library/neurons/spike_times, size: 1, params: {times: PRE, indices: ZEROS_PRE}}
  go: {neuron: library/neurons/spike_times, size: 1, params: {times: POST, indices: ZEROS_POST}}
  post: {neuron: relay, size: 1}
projections:
  go: {from: go, to: post, connect: {all_to_all: {}}, deliver: {into: go, weight: 1}}
  learns:
    {from: pre, to: post, connect: {all_to_all: {}}, synapse: stdp, deliver: {into: w}, delay: 1.5 ms, back_delay: 3 ms}
simulate: {dt: 0.1 ms, duration: 250 ms}
record: [{trace: {from: post, variables: [w_now], members: all, every: 0.1 ms}}]
numerics: {precision: float64}
"""


@pytest.mark.usefixtures("cc", "not_optimized", "without_plots")
def test_the_delay_of_plasticity_is_that_of_the_target() -> None:
    """The weight at every spike of the source. No two spikes meet in one step, where the order is another: those of
    the source come at even steps, as those of the target, and the delay is odd."""
    rng = np.random.default_rng(3)
    pre, post = (np.sort(rng.choice(np.arange(10, 2000, 2), 60, replace=False)) for _ in range(2))
    given = json.dumps({"pre": [k / 10 for k in pre.tolist()], "post": [k / 10 for k in post.tolist()]})
    done = subprocess.run([PYTHON, "-c", LEARNS, given], capture_output=True, text=True, check=True)
    line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT"))
    wanted = np.array(json.loads(line.removeprefix("RESULT")))
    text = LEARNED
    for name, steps in (("PRE", pre + 1), ("POST", post)):  # a relay spikes a step after what reaches it
        text = text.replace(f"ZEROS_{name}", str([0] * len(steps)))
        text = text.replace(name, "[" + ", ".join(f"{k / 10} ms" for k in steps.tolist()) + "]")
    _, w = netloom.load(text).run().traces("post", "w_now")
    found = w[:, 0][w[:, 0] > 0]
    assert len(found) == len(wanted) == 60
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


DRIVEN = """
import json
import nest
nest.set_verbosity("M_ERROR")
nest.resolution = 0.1
cell = nest.Create("iaf_psc_exp")
meter = nest.Create("multimeter", params={"record_from": ["V_m"], "interval": 0.1})
nest.Connect(nest.Create("dc_generator", params={"amplitude": 200.0, "start": 50.0}), cell)
nest.Connect(meter, cell)
nest.Simulate(60.0)
print("RESULT", json.dumps(meter.events["V_m"].tolist()))
"""
DRIVE = """
language: 1
populations:
  n: {neuron: library/neurons/lif_psc_exp_2, size: 1, params: {I_e: 200 pA if t > 50.95 ms else 0 pA}}
simulate: {dt: 0.1 ms, duration: 60 ms}
record: [{trace: {from: n, variables: [v], members: all, every: 0.1 ms}}]
numerics: {precision: float64}
"""


@pytest.mark.usefixtures("cc", "not_optimized", "without_plots")
def test_a_generator_has_a_delay() -> None:
    """Of 1 ms, where nothing is said: a current that starts at 50 ms flows from 51 ms on."""
    done = subprocess.run([PYTHON, "-c", DRIVEN], capture_output=True, text=True, check=True)
    line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT"))
    wanted = json.loads(line.removeprefix("RESULT"))
    _, v = netloom.load(DRIVE).run().traces("n", "v")
    np.testing.assert_allclose(v[: len(wanted), 0], wanted, rtol=1e-13)
