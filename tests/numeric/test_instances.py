"""Instances of a network side by side, and runs with frozen synapses."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from backends.registry import backend
from compiler.core.diagnostics import RunError
from compiler.ir.level0.model import Send, Set
from compiler.passes.model.freeze_learning import freeze_learning, frozen_synapse
from compiler.passes.pipeline.lower import lower
from netloom import run
from tests.grids import diagonal
from tests.numeric.simulated import Array, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")


def text(
    simulate_keys: str, rule: str = "{fixed_probability: {p: 0.2}}", weight: str = "{uniform: {low: 0, high: 1}}"
) -> str:
    return f"""\
language: 1
name: copies
neurons:
  cell:
    state: {{v: 0, drive: {{uniform: {{low: 0, high: 1}}}}}}
    inputs: {{g: {{decay: 5 ms}}}}
    update: [v = 0.9 * v + 0.1 * drive + 0.1 * g + 0.05 * random()]
    spike: {{when: v > 0.6, reset: [v = 0]}}
populations:
  a: {{neuron: cell, size: 30}}
  b: {{neuron: cell, size: 20}}
projections:
  p: {{from: [a, b], to: [a, b], connect: {rule}, deliver: {{into: g, weight: {weight}}}}}
inputs:
  noise: {{to: all, poisson: {{rate: 100 Hz, into: g, weight: 0.1}}}}
simulate: {{dt: 1 ms, duration: 60 ms, seed: 4{simulate_keys}}}
record:
  - spikes: {{from: [a, b]}}
  - trace: {{from: a, variables: [v, g], members: all}}
  - rate: {{from: a, every: 10 ms}}
expect: [{{rate: {{of: a, between: [0 Hz, 1 kHz]}}}}]
plots: [{{raster: {{from: [a, b]}}}}]
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_copies_are_independent(tmp_path: Path, target: str) -> None:
    """Every copy has its own initial values, connections and noise, and no projection crosses copies."""
    result = simulate(text(", instances: 3"), tmp_path, target)
    model = result.model
    assert [p.name for p in model.populations] == ["a_0", "a_1", "a_2", "b_0", "b_1", "b_2"]
    assert all(m.source[-2:] == m.target[-2:] for p in model.projections for m in p.members)
    assert [dict(e.args)["of"] for e in model.expect] == ["a_0", "a_1", "a_2"]
    assert dict(model.plots[0].args)["from"] == ("a_0", "a_1", "a_2", "b_0", "b_1", "b_2")
    rows = [result.instance.read(f"p[a_{k}->b_{k}]'row") for k in range(3)]
    values = [result.traces[f"a_{k}", "v"][:3] for k in range(3)]  # before the first reset
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(rows[one], rows[other])
        assert np.mean(values[one] == values[other]) < 0.05
    assert all(len(result.spikes[f"b_{k}"]) > 20 for k in range(3))


def test_a_copy_is_the_network_alone(tmp_path: Path) -> None:
    """Without random numbers, every copy does what the network does by itself, bit for bit."""
    plain = text("", "{one_to_one: {}}", "0.5").replace(" + 0.05 * random()", "").replace("rate: 100 Hz", "rate: 0 Hz")
    plain = plain.replace("{uniform: {low: 0, high: 1}}", "0.7").replace("from: [a, b], to: [a, b]", "from: a, to: a")
    alone = simulate(plain, tmp_path)
    several = simulate(plain.replace("seed: 4", "seed: 4, instances: 4"), tmp_path)
    for k in range(4):
        for variable in ("v", "g"):
            assert np.array_equal(several.traces[f"a_{k}", variable], alone.traces["a", variable])
    assert len(alone.spikes["a"]) > 0


@pytest.mark.parametrize(
    ("rule", "target"), diagonal(["{fixed_probability: {p: 0.2}}", "{all_to_all: {}}"], ["cpu", "reference"])
)
def test_shared_weights(tmp_path: Path, target: str, rule: str) -> None:
    """The same synapses, stored once; states and noise still differ."""
    result = simulate(text(", instances: 3, weights: shared", rule), tmp_path, target)
    arrays = {x.name for x in result.lowered.program.arrays}
    assert "p[a_0->b_0].weight" in arrays
    assert not any(name.startswith("p[a_1->") or name.startswith("p[a_2->") for name in arrays)
    assert not np.array_equal(result.traces["a_0", "v"], result.traces["a_1", "v"])
    assert result.traces["a_1", "g"].max() > 0.5
    # copy 1 gets what the first copy's synapses give for the spikes of copy 1
    again = simulate(text(", instances: 3, weights: shared", rule), tmp_path, target)
    assert np.array_equal(again.traces["a_2", "g"], result.traces["a_2", "g"])


def test_shared_synapses_deliver_alike(tmp_path: Path) -> None:
    """Copies that start alike and draw nothing do the same through shared synapses that were drawn."""
    model = text(", instances: 2, weights: shared").replace(" + 0.05 * random()", "").replace("100 Hz", "0 Hz")
    model = model.replace("drive: {uniform: {low: 0, high: 1}}", "drive: 0.7")
    result = simulate(model, tmp_path)
    assert np.array_equal(result.traces["a_0", "g"], result.traces["a_1", "g"])
    assert np.ptp(result.traces["a_0", "g"][-1]) > 0


def test_the_text_does_not_depend_on_how_many(tmp_path: Path) -> None:
    chosen = backend("cpu")
    texts = []
    for count in (2, 30):
        merged = lower(model_of(text(f", instances: {count}"), tmp_path), chosen.capabilities, True).merged
        texts.append(chosen.emit(merged))
    assert texts[0] == texts[1]


PLASTIC = """\
language: 1
name: frozen
neurons:
  cell:
    state: {v: 0}
    inputs: {g: {}}
    update: [v = 0.8 * v + g + 0.3 * random()]
    spike: {when: v > 1, reset: [v = 0]}
synapses:
  stdp:
    params: {tau: 20 ms}
    state: {w: 0.1}
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 1]}
    on_pre: [change = 0.01 * post.y, deliver(w - change), w = w - change]
    on_post: [w = w + 0.01 * pre.x]
populations: {a: {neuron: cell, size: 20}}
projections:
  p: {from: a, to: a, connect: {fixed_probability: {p: 0.3}}, synapse: stdp, deliver: {into: g}}
  q: {from: a, to: a, connect: {fixed_probability: {p: 0.3}}, synapse: stdp, deliver: {into: g}}
simulate: {dt: 1 ms, duration: 100 ms, seed: 4FREEZE}
record: [{spikes: {from: a}}]
"""


def test_frozen_synapses_keep_their_values(tmp_path: Path) -> None:
    """Weights and traces are frozen, spikes are delivered; other projections learn."""
    learning = simulate(PLASTIC.replace("FREEZE", ""), tmp_path)
    frozen = simulate(PLASTIC.replace("FREEZE", ", freeze: learning"), tmp_path)
    half = simulate(PLASTIC.replace("FREEZE", ", freeze: [p]"), tmp_path)
    start = np.float32(0.1)
    assert np.ptp(learning.instance.read("p[a->a].w")) > 0.01
    assert np.all(frozen.instance.read("p[a->a].w") == start)
    assert np.all(half.instance.read("p[a->a].w") == start)
    assert np.ptp(half.instance.read("q[a->a].w")) > 0.01
    assert len(frozen.spikes["a"]) > 20
    assert not np.array_equal(frozen.spikes["a"], learning.spikes["a"])


def test_what_is_frozen(tmp_path: Path) -> None:
    """Assignments to states are removed, locals and deliveries are kept; statements without deliveries are empty."""
    model = model_of(PLASTIC.replace("FREEZE", ", freeze: learning"), tmp_path)
    assert model.simulate is not None
    assert model.simulate.freeze == ("p", "q")
    synapse = model.projections[0].synapse
    assert synapse is not None
    still = frozen_synapse(synapse)
    assert [type(a) for a in still.on_pre] == [Set, Send]
    assert still.on_post == ()
    assert still.pre is not None
    assert still.pre.on_spike == ()
    assert still.pre.dynamics == ()
    done = freeze_learning(model)
    assert done.projections[0].synapse is done.projections[1].synapse
    assert done.projections[0].synapse == still


def test_freeze_from_outside(tmp_path: Path) -> None:
    """A run that has learned goes on without learning, whatever the file says; names are checked."""
    path = tmp_path / "model.yaml"
    model = PLASTIC.replace("    on_post", "    update: [w = w - 0.01 * (w - mean_post(w))]\n    on_post")
    path.write_text(model.replace("FREEZE", "").replace("[{spikes: {from: a}}]", RECORDED), encoding="utf-8")
    folders = {"build_dir": tmp_path / "build"}
    first = run(path, out=tmp_path / "first", **folders)
    test = run(path, out=tmp_path / "test", resume=first.folder, duration="200 ms", freeze="learning", **folders)
    half = run(path, out=tmp_path / "half", resume=first.folder, duration="200 ms", freeze=["p"], **folders)
    more = run(path, out=tmp_path / "more", resume=test.folder, duration="300 ms", freeze="learning", **folders)
    assert np.array_equal(weights(more.folder, "p")[-1], weights(first.folder, "p")[-1])
    w = {(r, p): weights(f, p) for r, f in (("test", test.folder), ("half", half.folder)) for p in "pq"}
    for key, values in w.items():
        changed = not np.array_equal(values[-1], values[1])
        assert changed == (key == ("half", "q")), key
        assert np.ptp(values[1]) > 0.01
    with pytest.raises(RunError, match="freeze r") as error:
        run(path, out=tmp_path / "none", freeze=["r"], **folders)
    assert error.value.exit_code == 2


RECORDED = "[{spikes: {from: a}}, {synapses: {from: p, variables: [w], every: 100 ms}}, "
RECORDED += "{synapses: {from: q, variables: [w], every: 100 ms}}]"


def weights(folder: str | Path, projection: str) -> Array:
    with h5py.File(Path(folder) / "synapses.h5") as file:
        found: Array = file[f"{projection}/a->a/w"][:]
    return found
