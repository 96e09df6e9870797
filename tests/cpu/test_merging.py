"""Code size is constant, changes of data need no compilation; merged, unmerged and single-row programs agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.protocol import Backend
from backends.reference.load import ReferenceInstance
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged, Phase
from compiler.passes.pipeline.lower import Lowered, lower
from netloom import build
from tests.grids import one_in
from tests.numeric.simulated import Simulated, model_of, run, simulate, start
from tests.numeric.trained import load

RING = """\
language: 1
name: ring
params:
  n: {value: 10, type: int, min: 2}
  members: {value: 6, type: int, min: 1}
  drive: {value: 19 mV}
  strength: {value: 0.5 mV}
  lag: {value: 0.2 ms, min: 0 ms}
  p: {value: 0.3, min: 0, max: 1}
neurons:
  lif:
    params: {tau_m: 20 ms, tau_s: 5 ms, v_rest: -65 mV, v_thresh: -50 mV, v_reset: -65 mV, drive: 16 mV, t_ref: 2 ms}
    state: {v: v_rest}
    inputs: {s: {unit: mV, decay: tau_s}}
    dynamics: {dv/dt: (v_rest - v + drive + s) / tau_m}
    spike: {when: v > v_thresh, reset: [v = v_reset], refractory: t_ref}
populations:
  "p{i}":
    for: {i: 0..n - 1}
    neuron: lif
    size: members + i % 3
    params:
      tau_m: 20 ms + i / n * 5 ms
      tau_s: 5 ms + i / n * 1 ms
      v_rest: -65 mV + i / n * 1 mV
      v_thresh: -50 mV + i / n * 1 mV
      v_reset: -65 mV - i / n * 1 mV
      drive: drive + i / n * 2 mV
      t_ref: 2 ms + i % 10 * 0.1 ms
    init: {v: {uniform: {low: -65 mV - i / n * 1 mV, high: -50 mV}}}
projections:
  "ring{i}":
    for: {i: 0..n - 1}
    from: "p{i}"
    to: "p{(i + 1) % n}"
    connect: {fixed_probability: {p: p + i / n * 0.2}}
    deliver: {into: s, weight: strength + i / n * 0.1 mV}
    delay: lag + 0.1 ms * (i % 20)
  "far{i}":
    for: {i: 0..n - 1}
    from: "p{i}"
    to: "p{(i + 3) % n}"
    connect: {fixed_total: {number: 7 + i % 5}}
    deliver: {into: s, weight: {normal: {mean: -0.1 mV - i / n * 0.1 mV, std: 0.01 mV}}}
    delay: {uniform: {low: 0.1 ms, high: 0.5 ms + i % 4 * 0.1 ms, round: nearest}}
inputs:
  "rain{i}": {for: {i: 0..n - 1}, to: "p{i}", poisson: {rate: 1 kHz + i * 1 Hz, into: s, weight: 0.1 mV}}
simulate: {dt: 0.1 ms, duration: 30 ms, seed: 1}
record:
  - spikes: {from: all}
"""

FAN_IN = """\
language: 1
name: fan_in
params: {n: {value: 10, type: int, min: 2}}
neurons:
  cell:
    state: {v: 0 mV}
    inputs: {s: {unit: mV}}
    dynamics: {dv/dt: -v / (10 ms)}
    update: [v = v + s]
    spike: {when: v > 1 mV, reset: [v = 0 mV]}
populations:
  "p{i}": {for: {i: 0..n - 1}, neuron: cell, size: 20}
projections:
"""


def fan_in() -> str:
    """Explicit pairs with fan-in 1 to 20, in each of n populations."""
    blocks = [
        f'  "in{fan}_{{i}}": {{for: {{i: 0..n - 1}}, from: "p{{i}}", to: "p{{(i + {fan}) % n}}",\n'
        f"    connect: {{pairs: {{list: [{', '.join(f'[{k}, {fan - 1}]' for k in range(fan))}]}}}},\n"
        f"    deliver: {{into: s, weight: {fan * 0.1:.1f} mV}}, delay: {fan * 0.1:.1f} ms}}\n"
        for fan in range(1, 21)
    ]
    return FAN_IN + "".join(blocks) + "simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}\n"


DEEP = """\
language: 1
name: deep
params:
  n: {value: 4, type: int, min: 1}
  width: {value: 24, type: int, min: 1}
  rate: {value: 1e-3}
  drop: {value: 0.1}
  batch: {value: 32, type: int}
network:
  inputs: {image: {shape: [64]}, label: {shape: [], dtype: int32}}
  layers:
    - dense: {name: first, units: width, activation: tanh}
    - dropout: {rate: drop}
    - repeat:
        times: n
        layers:
          - dense: {name: hidden, units: width, activation: tanh}
    - dense: {name: logits, units: 10}
train:
  data:
    file: DIGITS
    inputs: {image: flat, label: labels}
    scale: {image: 1 / 16}
    split: {validation: 0.2}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {adam: {learning_rate: rate}}
  batch: batch
  epochs: 2
  seed: 1
"""


def deep(root: Path) -> str:
    return DEEP.replace("DIGITS", str(root / "models/data/digits.npz"))


IMAGE, ROWS = "{shape: [1, 8, 8]}", "- reshape: {inputs: image, shape: [8, 8]}\n    - dense: {units: 8}"
BLOCKS = {
    "residual": (
        "- conv2d: {inputs: image, filters: 8, kernel: 3, padding: 1}",
        ["activation: {name: start, function: relu}", "conv2d: {filters: 8, kernel: 3, padding: 1, bias: false}",
         "batch_norm: {name: inner}", "activation: {function: relu}",
         "conv2d: {filters: 8, kernel: 3, padding: 1, bias: false}", "batch_norm: {name: outer}",
         "add: {inputs: [outer, start]}"],
        "- global_avg_pool: {}",
    ),
    "attention": (
        ROWS,
        ["layer_norm: {name: first}", "attention: {name: seen, heads: 2}", "add: {name: mixed, inputs: [first, seen]}",
         "dense: {units: 16, activation: gelu}", "dense: {name: thought, units: 8}",
         "add: {inputs: [mixed, thought]}"],
        "- flatten: {}",
    ),
    "lstm": (ROWS, ["lstm: {units: 8, sequence: true}"], "- flatten: {}"),
    "gru": (ROWS, ["gru: {units: 4, sequence: true, bidirectional: true}"], "- flatten: {}"),
}  # fmt: skip
"""The text before, within and after equal blocks."""


def stacked(root: Path, kind: str, extra: str = "") -> str:
    """A network of n equal blocks."""
    before, block, after = BLOCKS[kind]
    layers = "\n".join(f"          - {layer}" for layer in block)
    return f"""\
language: 1
name: stacked
params: {{n: {{value: 2, type: int, min: 1}}}}
network:
  inputs: {{image: {IMAGE}, label: {{shape: [], dtype: int32}}}}
  layers:
    {before}
    - repeat:
        times: n
        layers:
{layers}
    {after}
    - dense: {{name: logits, units: 10}}
train:
  data: {{file: {root / "models/data/digits.npz"}, inputs: {{image: images, label: labels}}, scale: {{image: 1 / 16}}}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  optimizer: {{adam: {{learning_rate: 1e-3}}}}
  batch: 32
  epochs: 1
  seed: 1
{extra}"""


def lowered(text: str, folder: Path, target: Backend, settings: Mapping[str, str]) -> Lowered:
    return lower(model_of(text, folder, settings), target.capabilities)


@pytest.fixture(params=["cpu", "cuda"])
def target(request: pytest.FixtureRequest) -> Backend:
    """Both of them emit without a compiler and without a GPU."""
    if request.param == "cpu":
        return CpuBackend()
    from backends.cuda.run.backend import CudaBackend

    return CudaBackend()


# ------------------------------------------------------------------------------------------ constant code


@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_populations_and_projections(tmp_path: Path, target: Backend, order: str) -> None:
    """Every parameter, weight, delay and size differs from one to the next."""
    text = RING + f"numerics: {{order: {order}}}\n"
    few = lowered(text, tmp_path, target, {"n": "10"})
    number = 1000 if order == "reproducible" else 200
    many = lowered(text, tmp_path, target, {"n": str(number)})
    assert len(many.model.populations) == number
    assert len(many.model.projections) == 2 * number
    assert target.emit(few.merged) == target.emit(many.merged)
    assert [t.digest for t in few.merged.templates] == [t.digest for t in many.merged.templates]
    steps = {p.name: p for p in many.merged.phases}["step"].launches
    assert len(steps) == len({p.name: p for p in few.merged.phases}["step"].launches)
    update = next(t for t in many.merged.templates if "neuron update" in t.name)
    table = many.merged.tables[update.index]
    assert table.count == number
    assert all(len(set(np.asarray(v).tolist())) == number for k, v in table.scalars.items() if k.startswith("P_v_v"))


def test_fan_in(tmp_path: Path, target: Backend) -> None:
    """No unrolling over fan-in, and no kernels per delay."""
    few = lowered(fan_in(), tmp_path, target, {"n": "2"})
    many = lowered(fan_in(), tmp_path, target, {"n": "100"})
    assert target.emit(few.merged) == target.emit(many.merged)
    one = fan_in().split('  "in2_')[0] + "simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}\n"
    single = lowered(one, tmp_path, target, {"n": "2"})
    assert target.emit(single.merged) == target.emit(many.merged)
    assert sum("propagation" in t.name for t in many.merged.templates) == 1


def test_layers_and_their_optimizer(tmp_path: Path, root: Path, target: Backend) -> None:
    few = lowered(deep(root), tmp_path, target, {"n": "4"})
    many = lowered(deep(root), tmp_path, target, {"n": "60"})
    assert many.model.network is not None
    assert len(many.model.network.layers) == 63
    assert target.emit(few.merged) == target.emit(many.merged)
    updates = [t for t in many.merged.templates if "param" in {f.name for f in t.formals}]
    assert len(updates) == 1
    assert many.merged.tables[updates[0].index].count == 2 * 62


@pytest.mark.parametrize(
    "counts", [(3, 7), pytest.param((10, 100), marks=pytest.mark.slow)], ids=["3 and 7", "10 and 100"]
)
@pytest.mark.parametrize("kind", one_in(2, BLOCKS))
def test_equal_blocks(tmp_path: Path, root: Path, target: Backend, kind: str, counts: tuple[int, int]) -> None:
    few, many = (lowered(stacked(root, kind), tmp_path, target, {"n": str(n)}).merged for n in counts)
    assert target.emit(few) == target.emit(many)
    rows = [sum(t.count for t in merged.tables) for merged in (few, many)]
    assert rows[1] > rows[0] + 10 * (counts[1] - counts[0])


def test_code_does_not_depend_on_sizes(tmp_path: Path, root: Path) -> None:
    """Population, layer and batch sizes are data."""
    target = CpuBackend()
    text = [target.emit(lowered(RING, tmp_path, target, {"members": m}).merged) for m in ("3", "400")]
    assert text[0] == text[1]
    settings: list[dict[str, str]] = [
        {},
        {"width": "40"},
        {"width": "128", "batch": "64"},
        {"rate": "0.1", "drop": "0.5"},
    ]
    text = [target.emit(lowered(deep(root), tmp_path, target, s).merged) for s in settings]
    assert all(t == text[0] for t in text)


# ------------------------------------------------------------------------------------- nothing is compiled


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The names of the programs passed to the C compiler, with an initially empty cache."""
    from backends.cpu.emit import build as cpu_build

    done: list[str] = []
    original = cpu_build.compile_library

    def counted(emitted: object, name: str, *rest: object) -> float:
        done.append(name)
        return original(emitted, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(cpu_build, "compile_library", counted)
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))
    yield done


@pytest.mark.usefixtures("cc", "not_optimized")
@pytest.mark.parametrize(
    ("which", "changes"),
    [
        (
            "ring",
            [
                {"n": 11},
                {"members": 50},
                {"drive": "18.5 mV"},
                {"strength": "0.75 mV"},
                {"lag": "0.7 ms"},
                {"lag": "0 ms"},
                {"p": 0.05},
                {"n": 40, "members": 1, "drive": "3 mV", "strength": "-0.75 mV", "lag": "1.1 ms", "p": 0.0},
            ],
        ),
        (
            "deep",
            [{"rate": 0.1}, {"width": 33}, {"batch": 50}, {"n": 9}, {"n": 6, "width": 7, "rate": 0.5, "batch": 7}],
        ),
    ],
)
def test_changes_compile_nothing(
    tmp_path: Path, root: Path, compilations: list[str], which: str, changes: list[dict[str, int | float | str]]
) -> None:
    path = tmp_path / f"{which}.yaml"
    path.write_text(RING if which == "ring" else deep(root), encoding="utf-8")
    first = build(path, build_dir=tmp_path / "build")
    assert first.compiled
    assert compilations == [which]
    again = build(path, build_dir=tmp_path / "build")
    assert not again.compiled
    for change in changes:
        other = build(path, set=change, build_dir=tmp_path / "build")
        assert not other.compiled, change
        assert other.artifact == first.artifact
    elsewhere = build(path, build_dir=tmp_path / "elsewhere")
    assert not elsewhere.compiled
    assert compilations == [which]
    assert build(path, precision="float64", build_dir=tmp_path / "build").compiled  # this is other code


@pytest.mark.usefixtures("cc", "not_optimized")
def test_seed_and_run_compile_nothing(tmp_path: Path, compilations: list[str]) -> None:
    """Seeds, durations, dt, recorded members and values in the file are also data."""
    simulate(RING, tmp_path)
    other = RING.replace("seed: 1", "seed: 2").replace("dt: 0.1 ms", "dt: 0.05 ms").replace("30 ms", "10 ms")
    other = other.replace("20 ms + i / n * 5 ms", "17 ms + i / n * 3 ms").replace("std: 0.01 mV", "std: 0.02 mV")
    changed = simulate(other, tmp_path)
    assert not changed.artifact.compiled
    assert compilations == ["ring"]
    assert sum(len(s) for s in changed.spikes.values()) > 0


# ------------------------------------------------------------------------------------------- one program


def row_by_row(merged: Merged) -> Merged:
    """Every launch split into launches of single rows; loops have those of the launches that they had."""

    def split(phase: Phase) -> Phase:
        launches = tuple(replace(x, lo=i, hi=i + 1) for x in phase.launches for i in range(x.lo, x.hi))
        starts = [0, *accumulate(x.hi - x.lo for x in phase.launches)]
        loops = tuple(replace(loop, first=starts[loop.first], last=starts[loop.last]) for loop in phase.loops)
        return replace(phase, launches=launches, loops=loops)

    return replace(merged, phases=tuple(split(p) for p in merged.phases))


@pytest.mark.usefixtures("cc", "not_optimized")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_merged_unmerged_and_row_by_row(tmp_path: Path, precision: str) -> None:
    """Spikes and every state array: cpu merged, cpu row by row, reference merged, reference unmerged."""
    text = RING + f"numerics: {{precision: {precision}, order: bitwise}}\n"
    model = model_of(text, tmp_path, {"n": "4", "drive": "45 mV"})
    results = [run(start(model, tmp_path, target), 100) for target in ("cpu", "reference")]
    backend, whole = CpuBackend(), results[0]
    apart = row_by_row(whole.lowered.merged)
    assert sum(len(p.launches) for p in apart.phases) > sum(len(p.launches) for p in whole.lowered.merged.phases)
    artifact = backend.build(apart, tmp_path / "apart", {})
    assert artifact.text == whole.artifact.text
    single = Simulated(model, whole.lowered, artifact, backend.load(artifact, apart, 1))
    unmerged = Simulated(
        model, results[1].lowered, results[1].artifact, ReferenceInstance(results[1].lowered.program, 1)
    )
    results += [run(single, 100), run(unmerged, 100)]
    assert sum(len(s) for s in whole.spikes.values()) > 20
    for other in results[1:]:
        for name, spikes in whole.spikes.items():
            np.testing.assert_array_equal(spikes, other.spikes[name])
        for array in whole.lowered.merged.arrays:
            if "'spikes" not in array.name:
                assert whole.instance.read(array.name).tobytes() == other.instance.read(array.name).tobytes(), (
                    array.name
                )


@pytest.mark.usefixtures("cc", "not_optimized")
@pytest.mark.parametrize("kind", one_in(2, ["dense", *BLOCKS]))
def test_training_merged_unmerged_and_row_by_row(tmp_path: Path, root: Path, kind: str) -> None:
    """Weights and optimizer state after three batches, the last of them a short one, bit for bit."""
    order = "numerics: {order: bitwise}\n"
    text = deep(root) + order if kind == "dense" else stacked(root, kind, order)
    whole, reference = load(text, tmp_path), load(text, tmp_path, "reference")
    backend, apart = CpuBackend(), row_by_row(whole.program)
    artifact = backend.build(apart, tmp_path / "apart", {})
    single = replace(whole, instance=backend.load(artifact, apart, 1), program=apart)
    model = model_of(text, tmp_path)
    program = lower(model, backend.capabilities).program
    unmerged = replace(whole, instance=ReferenceInstance(program, 1))
    start = whole.weights()
    for step in range(1, 4):
        for one in (whole, reference, single, unmerged):
            one.step(step, range(40 * step, 40 * step + (32 if step < 3 else 13)))
    kept = [*whole.names, *whole.running, *(f"{n}.{s}" for n in whole.names for s in ("m", "v"))]
    for name in kept:
        wanted = whole.read(name)
        for other in (reference, single, unmerged):
            assert other.read(name).tobytes() == wanted.tobytes(), name
    assert all(not np.array_equal(whole.read(n), start[n]) for n in whole.names)


@pytest.mark.usefixtures("cc", "not_optimized")
def test_a_new_population_changes_no_draws(tmp_path: Path) -> None:
    """Streams are named by model path: connections, weights, delays, initial values and events of the others stay."""
    extra = """\
  aside: {neuron: lif, size: 9, init: {v: {uniform: {low: -65 mV, high: -50 mV}}}}
"""
    more = RING.replace("populations:\n", "populations:\n" + extra).replace(
        "projections:\n",
        "projections:\n  aside: {from: aside, to: aside, connect: {fixed_probability: {p: 0.5}},\n"
        "          deliver: {into: s, weight: {normal: {mean: 1 mV, std: 0.1 mV}}}}\n",
    )
    before, after = simulate(RING, tmp_path), simulate(more, tmp_path)
    assert len(after.model.populations) == len(before.model.populations) + 1
    assert sum(len(s) for s in before.spikes.values()) > 50
    for name, spikes in before.spikes.items():
        np.testing.assert_array_equal(spikes, after.spikes[name], err_msg=name)
    for array in before.lowered.merged.arrays:
        np.testing.assert_array_equal(before.instance.read(array.name), after.instance.read(array.name))


def test_the_example_models_have_few_templates(root: Path) -> None:
    """What a reader of the generated code sees: microcircuit's 8 populations and 64 projections are a few kernels."""
    model = load_model(root / "models" / "microcircuit.yaml")
    done = lower(model, CpuBackend().capabilities)
    assert len(model.populations) == 8
    names = [t.name for t in done.merged.templates]
    assert sum("neuron update" in n for n in names) == 1
    assert sum("propagation" in n for n in names) == 1
    assert len(names) <= 14, names
