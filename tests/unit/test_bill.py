"""The resource estimate of a model equals the memory and disk use of a run; excessive ones are rejected before
allocation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import compiler.runtime.resources.bill as bill
from backends.reference.load import ReferenceInstance
from backends.registry import backend
from compiler.cli import app as cli_app
from compiler.connect import rule_of
from compiler.connect.convolution import overlaps
from compiler.core.diagnostics import ModelError
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.level2.synapse_values import own_name
from compiler.passes.pipeline.lower import lower
from compiler.passes.relations.expected_sizes import expected_sizes, least_bytes, synapse_counts
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.resources.recorded import SPIKE_RATE, written_by
from compiler.runtime.resources.room import Room, disk_room, memory_room
from netloom import run
from tests.construct_runs import construct
from tests.constructs import CONSTRUCTS
from tests.grids import one_in
from tests.numeric.simulated import model_of
from tests.work import at_most

# ------------------------------------------------------------------------------------------ random models

RULES = (
    "all_to_all: {{}}",
    "all_to_all: {{autapses: false}}",
    "all_to_all: {{storage: sparse}}",
    "fixed_probability: {{p: {p}}}",
    "fixed_probability: {{p: {p}, autapses: false}}",
    "fixed_probability: {{p: {p}, storage: bitmask}}",
    "fixed_probability: {{p: {p}, storage: procedural}}",
    "fixed_total: {{number: {n}}}",
    "fixed_indegree: {{number: {n}}}",
    "fixed_outdegree: {{number: {n}}}",
    "rule: {{probability: 'exp(-abs(i - j) / 8)'}}",
)


@st.composite
def models(draw: st.DrawFn) -> str:
    """Texts of models with records of every kind over parts of populations, windows, intervals and copies."""
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=3))
    names = [f"p{k}" for k in range(len(sizes))]
    steps, warmup = draw(st.integers(1, 40)), draw(st.integers(0, 5))
    populations = ", ".join(f"{n}: {{neuron: cell, size: {size}}}" for n, size in zip(names, sizes, strict=True))
    rule = draw(st.sampled_from(RULES)).format(p=draw(st.sampled_from([0.05, 0.3, 1])), n=draw(st.integers(1, 4)))
    weight = draw(st.sampled_from(["0.01", "{uniform: {low: 0, high: 0.01}}"])) if "storage: b" not in rule else "0.01"
    delay = draw(st.sampled_from(["1 ms", "{uniform: {low: 0 ms, high: 4 ms, round: nearest}}"]))
    delay = "1 ms" if "bitmask" in rule or "procedural" in rule else delay
    end = draw(st.integers(1, steps))
    window = draw(st.sampled_from(["", f", between: [0 ms, {end} ms]"]))
    every = draw(st.integers(1, 5))
    members = draw(st.sampled_from(["all", "[0]"]))
    records = [
        f"{{trace: {{from: {draw(st.sampled_from(names))}, variables: [v, g], every: {every} ms, "
        f"members: {members}{window}}}}}",
        f"{{rate: {{from: {draw(st.sampled_from(names))}, every: {every} ms}}}}",
        f"{{spikes: {{from: {draw(st.sampled_from(names))}, members: {members}{window}}}}}",
    ]
    if "bitmask" not in rule and "procedural" not in rule:
        records.append(f"{{synapses: {{from: w, variables: [weight], every: {every} ms}}}}")
        histogram = "variable: weight, range: [0, 1], bins: 7"
        records.append(f"{{histogram: {{from: w, {histogram}, every: {every} ms}}}}")
    chosen = draw(st.lists(st.sampled_from(records), min_size=1, max_size=5, unique=True))
    copies = draw(st.sampled_from(["", ", instances: 3"]))
    return (
        "language: 1\nname: m\n"
        "neurons: {cell: {state: {v: 0}, inputs: {g: {}}, update: [v = 0.9 * v + g + 0.3 * random()], "
        "spike: {when: v > 1, reset: [v = 0]}}}\n"
        f"populations: {{{populations}}}\n"
        f"projections: {{w: {{from: all, to: all, connect: {{{rule}}}, deliver: {{into: g, weight: {weight}}}, "
        f"delay: {delay}}}}}\n"
        f"simulate: {{dt: 1 ms, duration: {steps} ms, warmup: {warmup} ms, seed: 3{copies}}}\n"
        f"numerics: {{precision: {draw(st.sampled_from(['float32', 'float64']))}}}\n"
        f"record: [{', '.join(chosen)}]\n"
    )


def spread(model: Model) -> float:
    """Five standard deviations of all numbers of synapses together."""
    counts = synapse_counts(model)
    drawn = sum(counts[own_name(f, m)] for f in model.projections for m in f.members if rule_of(f).random)
    return 5 * math.sqrt(drawn)


def check_arrays(model: Model) -> None:
    """The bytes of every array are those of an instance; those that are drawn, nearly so."""
    merged = lower(model, backend("reference").capabilities).merged
    needs = bill.needs_of(model, merged, backend("reference"), Options(target="reference"))
    sizes = expected_sizes(model, merged)
    parts = {a.name: bill.bytes_of(a, sizes) for a in merged.arrays}
    assert all(parts.get(p.what, p.bytes) == p.bytes for p in needs[0].parts)
    instance = ReferenceInstance(merged, 1)
    most = spread(model)
    for a in merged.arrays:
        real = instance.read(a.name).nbytes
        if a.size_from is None:
            assert parts[a.name] == real, a.name
        else:
            assert abs(parts[a.name] - real) <= most * a.dtype.bytes + 16, a.name
    for least in least_bytes(model):
        assert least.bytes <= needs[0].bytes, least.what


def stored(folder: Path) -> dict[str, int]:
    """Bytes of the numbers in the files of a run."""
    found: dict[str, int] = {}
    for path in folder.glob("*.h5"):
        with h5py.File(path) as file:
            sizes: list[int] = []
            file.visititems(lambda _, x, s=sizes: s.append(x.size * x.dtype.itemsize) if hasattr(x, "dtype") else None)
        found[path.name] = sum(sizes)
    return found


@settings(max_examples=8, deadline=None)
@given(text=models())
def test_random_models(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("m")
    model = model_of(text, folder)
    check_arrays(model)
    merged = lower(model, backend("reference").capabilities).merged
    told: dict[str, int] = {}
    sure: dict[str, bool] = {}
    for w in written_by(model, (merged, expected_sizes(model, merged))):
        told[w.file] = told.get(w.file, 0) + w.bytes
        sure[w.file] = sure.get(w.file, True) and w.sure
    result = run(folder / "model.yaml", "reference", out=folder / "out", build_dir=folder / "build")
    real = stored(folder / "out")
    assert real.keys() <= told.keys()
    per_synapse = 64 * (model.simulate.steps + 2 if model.simulate else 1)
    for name, size in real.items():
        if name == "spikes.h5":
            assert size == 16 * sum(result.counts.values()) and not sure[name]
        elif name == "synapses.h5":
            assert abs(told[name] - size) <= spread(model) * per_synapse, name
        else:
            assert told[name] == size, name
    (checkpoint,) = (folder / "out" / "checkpoints").iterdir()
    assert 0 <= checkpoint.stat().st_size - told["checkpoints/"] <= 4096 + 200 * len(merged.arrays)


def test_members_without_synapses_have_no_weights(tmp_path: Path) -> None:
    """Populations of one neuron each, none of which is connected to itself: the weight is one number for all."""
    text = (
        "language: 1\nname: m\nneurons: {c: {state: {x: 0}, inputs: {g: {}}, update: [x = g], "
        "spike: {when: x > 1, reset: [x = 0]}}}\npopulations: {a: {neuron: c, size: 1}, b: {neuron: c, size: 1}}\n"
        "projections: {w: {from: all, to: all, connect: {all_to_all: {autapses: false}}, "
        "deliver: {into: g, weight: 0.01}, delay: 1 ms}}\n"
        "simulate: {dt: 1 ms, duration: 1 ms}\nrecord: [{synapses: {from: w, variables: [weight], every: 1 ms}}]\n"
    )
    model = model_of(text, tmp_path)
    run(tmp_path / "model.yaml", "reference", out=tmp_path / "out", build_dir=tmp_path / "build")
    with h5py.File(tmp_path / "out" / "synapses.h5") as file:
        shapes = {name: group["weight"].shape for name, group in file["w"].items()}
    assert shapes == {"a->a": (2, 0), "a->b": (2, 1), "b->a": (2, 1), "b->b": (2, 0)}
    assert stored(tmp_path / "out")["synapses.h5"] == sum(w.bytes for w in written_by(model) if w.file == "synapses.h5")


def test_spikes_of_a_known_rate(tmp_path: Path) -> None:
    """A neuron that fires at SPIKE_RATE writes what the bill says."""
    every = round(1000 / SPIKE_RATE)
    text = (
        "language: 1\nname: m\nneurons: {c: {state: {x: 0}, update: [x = x + 1], "
        f"spike: {{when: x > {every} - 0.5, reset: [x = 0]}}}}}}\n"
        "populations: {a: {neuron: c, size: 20}}\nsimulate: {dt: 1 ms, duration: 2 s, seed: 1}\n"
        "record: [{spikes: {from: a, members: 0..4, between: [1 s, 2 s]}}]\n"
    )
    model = model_of(text, tmp_path)
    run(tmp_path / "model.yaml", "reference", out=tmp_path / "out", build_dir=tmp_path / "build")
    (spikes,) = written_by(model)
    assert spikes.bytes == stored(tmp_path / "out")["spikes.h5"] == 5 * 10 * 16
    assert spikes.note == "5 neurons, 1 s, if each fires at 10 Hz"


@pytest.mark.parametrize("name", one_in(3, CONSTRUCTS))
def test_every_construct(name: str, tmp_path: Path) -> None:
    """Every rule and every storage, convolutions among them."""
    check_arrays(construct(name, tmp_path, "float32"))


@given(st.integers(1, 9), st.integers(1, 16), st.integers(1, 9), st.integers(1, 4), st.integers(0, 12))
def test_overlaps(before: int, behind: int, kernel: int, stride: int, padding: int) -> None:
    starts = [place * stride - padding for place in range(behind)]
    plain = sum(max(min(at + kernel, before) - max(at, 0), 0) for at in starts)
    assert overlaps(before, behind, kernel, stride, padding) == plain


# ------------------------------------------------------------------------------------------ room

HUGE = """\
language: 1
name: huge
neurons: {n: {state: {v: 0}, inputs: {g: {}}, update: [v = v + 0.1 + g], spike: {when: v > 1, reset: [v = 0]}}}
populations: {a: {neuron: n, size: SIZE}}
projections:
  p: {from: a, to: a, connect: {fixed_probability: {p: 0.1STORAGE}}, deliver: {into: g, weight: 1}, delay: 1 ms}
simulate: {dt: 1 ms, duration: LONG, seed: 1}
record: [{trace: {from: a, variables: [v], members: 0..999}}]
"""


def huge(folder: Path, size: int = 100_000_000, long: str = "10 ms", storage: str = "") -> str:
    path = folder / "huge.yaml"
    path.write_text(HUGE.replace("SIZE", str(size)).replace("LONG", long).replace("STORAGE", storage))
    return str(path)


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli_app.app, list(words))
    return result.exit_code, result.output


def call_quickly(*words: str) -> tuple[int, str]:
    """A call that takes no work that grows with the sizes of the model."""
    with at_most(250_000):
        return call(*words)


@pytest.mark.parametrize("storage", ["", ", storage: bitmask"])
def test_synapses_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str) -> None:
    """10^15 synapses: a warning of `check` and `show`, an error of `build` and `run`, at once and with nothing made."""
    monkeypatch.chdir(tmp_path)
    path = huge(tmp_path, storage=storage)
    code, out = call_quickly("check", path)
    assert code == 0
    assert "warning[W0005]: the model needs" in out and "huge.yaml:6:3" in out
    assert ("1,000,000,000,000,000 synapses expected" if not storage else "10,000,000,000,000,000 pairs") in out
    code, out = call_quickly("show", path)
    assert code == 0 and "W0005" in out
    for command in ("build", "run"):
        code, out = call_quickly(command, path)
        assert code == 5
        assert "error[E0905]: the model needs" in out and "p[a->a]:" in out and "(line 6)" in out
    assert not (tmp_path / "build").exists() and not (tmp_path / "runs").exists()


def test_records_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = huge(tmp_path, 1000, "1e6 s")
    code, out = call("check", path)
    assert code == 0 and "warning[W0005]: a run writes 4.0 TB; " in out and "huge.yaml:8:11" in out
    code, out = call("show", path)
    assert code == 0 and "4.0 TB" in out
    for command in ("build", "run"):
        code, out = call(command, path)
        assert (
            code == 5
            and "error[E0905]: a run writes 4.0 TB; " in out
            and "trace of v of a: 4.0 TB, 1,000 members" in out
        )
    assert call("run", path, "--duration", "5 ms", "-t", "reference", "-q")[0] == 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine of 3 MB."""
    monkeypatch.setattr(bill, "memory_room", lambda: Room(3_000_000, "this machine"))
    yield


@pytest.mark.parametrize(("size", "code"), [(100, 0), (2000, 0), (8000, 5)])
def test_half_and_all(size: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    """Nothing is said of what takes less than half; from there on a warning; an error of what does not fit."""
    monkeypatch.chdir(tmp_path)
    path = huge(tmp_path, size)
    text = Path(path).read_text().replace("members: 0..999", "members: [0], every: 1 ms")
    Path(path).write_text(text)
    model = load_model(Path(path))
    merged = lower(model, backend("reference").capabilities).merged
    needed = bill.needs_of(model, merged, backend("reference"), Options(target="reference"))[0].bytes
    warned = needed > 1_500_000
    assert (needed > 3_000_000) == (code == 5)
    done = call("build", path, "-t", "reference")
    assert done[0] == code
    if code == 0:
        result = run(path, "reference", out=tmp_path / "out")
        assert any("W0005" in w for w in result.warnings) == warned, (needed, result.warnings)
        assert ("W0005" in call("show", path, "-t", "reference")[1]) == warned


def test_guessed_spikes_are_no_reason_to_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bill, "disk_room", lambda _: Room(100_000, "the disk"))
    path = huge(tmp_path, 10)
    text = Path(path).read_text().replace("{trace: {from: a, variables: [v], members: 0..999}}", "{spikes: {from: a}}")
    Path(path).write_text(text.replace("10 ms", "1000 s"))
    code, out = call("check", path)
    assert code == 0 and "a run writes 1.6 MB (with spikes at 10 Hz); 100.0 kB are free on the disk" in out
    assert call("build", path, "-t", "reference")[0] == 0


def test_a_training_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "d.npz", x=np.ones((8, 4), np.float32), y=np.ones((8, 2), np.float32))
    (tmp_path / "m.yaml").write_text(
        "language: 1\nname: m\nnetwork:\n  inputs: {x: {shape: [4]}, y: {shape: [2]}}\n  layers:\n"
        "    - dense: {units: 2000000, inputs: x}\n    - dense: {units: 2000000}\n    - dense: {name: out, units: 2}\n"
        "train:\n  data: {file: d.npz, inputs: {x: x, y: y}}\n"
        "  loss: {mean_squared_error: {prediction: out, target: y}}\n  optimizer: {sgd: {learning_rate: 0.1}}\n"
        "  batch: 2\n  epochs: 1\n  seed: 1\n"
    )
    code, out = call("check", "m.yaml")
    assert code == 0 and "W0005" in out and "16.0 TB, 4,000,000,000,000 weights" in out
    code, out = call("run", "m.yaml")
    assert code == 5 and "E0905" in out and "(line 7)" in out


def test_every_use_of_a_network_asks_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """predict, evaluate, tune and a standalone build are refused as a run is, before anything is compiled."""
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "d.npz", x=np.ones((8, 4), np.float32), y=np.ones((8, 2), np.float32))
    (tmp_path / "m.yaml").write_text(
        "language: 1\nname: m\nnetwork:\n  inputs: {x: {shape: [4]}, y: {shape: [2]}}\n  layers:\n"
        "    - dense: {name: wide, units: 2000, inputs: x}\n    - dense: {name: out, units: 2}\n"
        "train:\n  data: {file: d.npz, inputs: {x: x, y: y}}\n"
        "  loss: {mean_squared_error: {prediction: out, target: y}}\n  optimizer: {sgd: {learning_rate: 0.1}}\n"
        "  batch: 2\n  epochs: 1\n  seed: 1\n"
    )
    assert call("run", "m.yaml", "-t", "reference", "--out", "trained")[0] == 0
    monkeypatch.setattr(bill, "memory_room", lambda: Room(10_000, "this machine"))
    for words in (
        ("predict", "trained", "--data", "d.npz", "--out", "y.npz"),
        ("evaluate", "trained"),
        ("evaluate", "trained", "--data", "d.npz"),
        ("build", "m.yaml", "--standalone", "--weights", "trained/weights.safetensors"),
        ("tune", "m.yaml"),
    ):
        code, out = call(*words)
        assert code == 5 and "error[E0905]: the model needs" in out and "this machine has 10.0 kB" in out, (words, out)
    assert not (tmp_path / "build").exists() or not any((tmp_path / "build").glob("*/*.c"))


def test_too_many_pairs_of_populations(tmp_path: Path) -> None:
    path = Path(huge(tmp_path, 10))
    text = path.read_text().replace(
        "populations: {a:", "populations: {'a{k}': {for: {k: 0..999}, neuron: n, size: 1}, a:"
    )
    path.write_text(text.replace("from: a, to: a", "from: all, to: all"))
    with at_most(300_000), pytest.raises(ModelError, match="connects 1,001 x 1,001 populations; at most 100,000"):
        load_model(path)


# ------------------------------------------------------------------------------------------ limits


def fake(folder: Path, group: str, files: dict[str, str], total: int = 8_000_000) -> tuple[Path, Path]:
    proc, groups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal:       {total} kB\nMemFree: 1 kB\n")
    (proc / "self" / "cgroup").write_text(group)
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    return proc, groups


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/\n", {}, 8_192_000_000),
        ("0::/a/b\n", {"a/b/memory.max": "max\n"}, 8_192_000_000),
        ("0::/a/b\n", {"a/b/memory.max": "4000000000\n", "a/memory.max": "max\n"}, 4_000_000_000),
        ("0::/a/b\n", {"a/b/memory.max": "4000000000\n", "a/memory.max": "3000000000\n"}, 3_000_000_000),
        ("0::/\n", {"memory.max": "2000000000\n"}, 2_000_000_000),
        ("0::/a\n", {"a/memory.max": "9000000000\n"}, 8_192_000_000),
        ("5:cpu:/x\n4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "1000000000\n"}, 1_000_000_000),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, 8_192_000_000),
    ],
)
def test_control_groups(group: str, files: dict[str, str], expected: int, tmp_path: Path) -> None:
    found = memory_room(*fake(tmp_path, group, files))
    assert found is not None and found.bytes == expected
    assert ("cgroup" in found.what) == (expected != 8_192_000_000)


def test_limit_of_address_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    proc, groups = fake(tmp_path, "0::/\n", {})
    (proc / "self" / "statm").write_text("1000 1 1 1 1 1 1\n")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 30, 1 << 30))
    found = memory_room(proc, groups)
    assert found is not None
    assert found.bytes == (1 << 30) - 1000 * resource.getpagesize() and "ulimit -v" in found.what


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    found = disk_room(tmp_path / "a" / "b" / "runs")
    assert found is not None and found.bytes > 0


def test_the_workspace_of_contractions_is_on_the_bill() -> None:
    """The largest one counts, since they run one after the other; `--workspace` bounds it."""
    parts = []
    for workspace in (None, "1 kB"):
        options = Options(workspace=workspace)
        prepared = prepare(Path(__file__).parents[2] / "models" / "lenet5.yaml", options, Times())
        (need, _) = bill.needs_of(prepared.model, prepared.lowered.merged, prepared.backend, options)
        (part,) = (p for p in need.parts if p.what == "workspace of contractions")
        parts.append(part)
        merged = prepared.lowered.merged
        arrays, constants = (bill.bytes_of(a, {}) for a in merged.arrays), (v.nbytes for v in merged.constants.values())
        assert need.bytes == part.bytes + sum(arrays) + sum(constants)
    assert parts[0].bytes > 1000
    assert parts[0].note.startswith("`")
    assert parts[1].bytes <= 1000
