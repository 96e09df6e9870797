"""Rewiring: removed synapses, their replacements, and consistency of all attached data, against plain Python."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from backends.cpu.emit.emit import emit as emit_c
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from backends.reference import philox
from backends.registry import backend
from compiler.ir.level0.streams import stream_key
from compiler.ir.level2.program import Connect, Merged
from compiler.ir.space import OWN
from compiler.passes.pipeline.lower import lower
from netloom import run
from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, model_of, simulate
from tests.numeric.simulated import run as run_steps
from tests.numeric.simulated import start as load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

SIZE, DAYS = 30, 4
BOTH = pytest.mark.parametrize("target", ["cpu", "reference"])
CONNECT = {
    "probability": "{fixed_probability: {p: 0.3, autapses: false}}",
    "outdegree": "{fixed_outdegree: {number: 6, multapses: false}}",
    "indegree, repeated": "{fixed_indegree: {number: 6, multapses: true}}",
    "total": "{fixed_total: {number: 200, multapses: false, autapses: false}}",
    "expression": "{rule: {probability: 0.2}}",
}

RULE = """\
    params: {step: 0.3}
    state: {w: {uniform: {low: 0, high: 1}}, u: {normal: {mean: 5, std: 1, min: 3}}, sum: w + u, age: 0, met: 0}
    post: {state: {y: 0}, on_spike: [y = y + 1]}
    on_post: [met = met + 1]
    on:
      day.end:
        - age = age + 1
        - w = w - step
        - rewire(w < 0)
        - met = met + 100
"""


def text(synapse: str = RULE, connect: str = CONNECT["probability"], order: str = "bitwise", days: int = DAYS) -> str:
    return f"""\
language: 1
name: wiring
neurons:
  cell:
    state: {{v: {{uniform: {{low: 0, high: 1}}}}}}
    inputs: {{g: {{}}}}
    update: [v = v + 0.3 + 0 * g]
    spike: {{when: v >= 1, reset: [v = 0]}}
synapses:
  rule:
{synapse}
phases: {{day: {{every: 5 ms, events: {{start: 0 ms, end: 5 ms}}}}}}
populations: {{a: {{neuron: cell, size: {SIZE}}}}}
simulate: {{dt: 1 ms, duration: {5 * days} ms, seed: 3}}
record: [{{synapses: {{from: p, variables: [w], every: 5 ms}}}}, {{spikes: {{from: a}}}}]
numerics: {{precision: float64, order: {order}}}
projections:
  p: {{from: a, to: a, connect: {connect}, synapse: rule}}
"""


def read(done: Simulated, *names: str) -> list[Array]:
    return [done.instance.read(f"p[a->a]{n}" if n.startswith(OWN) else f"p[a->a].{n}").copy() for n in names]


def rewired(
    row: Array, col: Array, gone: Array, step: int, seed: int, autapses: bool, multapses: bool, what: str
) -> tuple[Array, int]:
    """New targets, source by source, in plain Python; and how many of them needed more than one draw."""
    key, col, again = stream_key(seed, f"p[a->a]/{what}: targets"), col.copy(), 0
    pool = SIZE if autapses else SIZE - 1
    for i in range(SIZE):
        mine = range(int(row[i]), int(row[i + 1]))
        for s in mine:
            if not gone[s]:
                continue
            for d in range(64):
                at = int(philox.words(key, s, step, d)[0]) * pool >> 32
                j = at if autapses or at < i else at + 1
                if multapses or j not in [col[t] for t in mine]:
                    col[s] = j
                    again += d > 0
                    break
    return col, again


@pytest.mark.parametrize(("connect", "target"), diagonal(CONNECT, ["cpu", "reference"]))
def test_against_plain_python(tmp_path: Path, target: str, connect: str) -> None:
    """Day by day: what ends, its new target, its states as at the start; everything else stays as it is."""
    autapses, multapses = "autapses: false" not in connect, "multapses: true" in connect
    done = load(model_of(text(connect=connect), tmp_path), tmp_path, target)
    row, col, w, u, age, met = read(done, "'row", "'col", "w", "u", "age", "met")
    first, ended, again = np.diff(row), 0, 0
    for day in range(DAYS):
        run_steps(done, 5, 1 + 5 * day)
        gone = w - 0.3 < 0
        expected, more = rewired(row, col, gone, 5 * day + 5, 3, autapses, multapses, "at day.end (2)")
        spikes = done.spikes["a"]
        assert np.array_equal(read(done, "'row")[0], row) and np.array_equal(np.diff(row), first)
        now, new_w, new_u, new_sum, new_age, new_met = read(done, "'col", "w", "u", "sum", "age", "met")
        assert np.array_equal(now, expected)
        assert np.allclose(new_w[~gone], w[~gone] - 0.3, rtol=1e-12)
        assert np.array_equal(new_u[~gone], u[~gone])
        assert np.array_equal(new_age, np.where(gone, 0, age + 1))
        met = met + np.array([np.sum(spikes[:, 1] == j) for j in col])  # `on_post` finds the synapses of its target
        met = np.where(gone, 0, met) + 100
        assert np.array_equal(new_met, met)
        assert np.all((new_w[gone] >= 0) & (new_w[gone] < 1)) and np.all(new_u[gone] >= 3)
        assert np.allclose(new_sum[gone], new_w[gone] + new_u[gone], rtol=1e-15)
        assert len(np.unique(new_w[gone])) == gone.sum()
        check_pairs(row, now, autapses, multapses)
        col, w, u, age = now, new_w, new_u, new_age
        ended, again = ended + int(gone.sum()), again + more
    assert ended > 100 and (again == 0 if multapses else again > 10)


def check_pairs(row: Array, col: Array, autapses: bool, multapses: bool) -> None:
    source = np.repeat(np.arange(SIZE), np.diff(row))
    assert np.all((col >= 0) & (col < SIZE))
    if not autapses:
        assert not np.any(source == col)
    if not multapses:
        assert len(np.unique(source * SIZE + col)) == len(col)


@pytest.mark.parametrize(
    ("target", "connect"), diagonal(["cpu", "reference"], [CONNECT["total"], CONNECT["indegree, repeated"]])
)
def test_kept_targets_against_plain_python(tmp_path: Path, target: str, connect: str) -> None:
    """`indegree`: the same the other way round. The synapses of a target stay there, and get other sources."""
    autapses, multapses = "autapses: false" not in connect, "multapses: true" in connect
    rule = RULE.replace("rewire(w < 0)", '"rewire(w < 0, indegree)"').replace("met: 0}", "met: 0, hit: 0}")
    rule += "    on_pre: [hit = hit + 1]\n"
    done = load(model_of(text(rule, connect), tmp_path), tmp_path, target)
    plain = load(model_of(text(connect=connect), tmp_path), tmp_path, target)
    old_row, old_col = read(plain, "'row", "'col")
    row, col, w, u, age, met, hit = read(done, "'to_row", "'to_col", "w", "u", "age", "met", "hit")
    source = np.repeat(np.arange(SIZE), np.diff(old_row))
    assert np.array_equal(col, source[np.argsort(old_col, kind="stable")])  # the connections that were drawn
    place, ended, again = np.repeat(np.arange(SIZE), np.diff(row)), 0, 0
    for day in range(DAYS):
        run_steps(done, 5, 1 + 5 * day)
        gone = w - 0.3 < 0
        expected, more = rewired(row, col, gone, 5 * day + 5, 3, autapses, multapses, "at day.end (2)")
        spikes = done.spikes["a"]
        now, new_row, new_w, new_u, new_age, new_met, new_hit = read(
            done, "'to_col", "'to_row", "w", "u", "age", "met", "hit"
        )
        assert np.array_equal(now, expected) and np.array_equal(new_row, row)
        assert np.allclose(new_w[~gone], w[~gone] - 0.3, rtol=1e-12) and np.array_equal(new_u[~gone], u[~gone])
        assert np.array_equal(new_age, np.where(gone, 0, age + 1))
        at_source, at_target = (np.bincount(spikes[:, 1], minlength=SIZE)[x] for x in (col, place))
        assert np.array_equal(new_met, np.where(gone, 0, met + at_target) + 100)
        assert np.array_equal(new_hit, np.where(gone, 0, hit + at_source))  # `on_pre` finds those of its source
        check_pairs(row, now, autapses, multapses)
        by_row, by_col, index = read(done, "'row", "'col", "'index")
        assert np.array_equal(index, np.argsort(now, kind="stable")) and np.array_equal(by_col, place[index])
        assert np.array_equal(by_row, np.concatenate([[0], np.cumsum(np.bincount(now, minlength=SIZE))]))
        col, w, u, age, met, hit = now, new_w, new_u, new_age, new_met, new_hit
        ended, again = ended + int(gone.sum()), again + more
    assert ended > 100 and (again == 0 if multapses else again > 10)


@BOTH
def test_values_of_each_projection(tmp_path: Path, target: str) -> None:
    """Two uses of one rule, whose initial values are of other kinds or follow from others by other formulas."""
    rule = "    state: {w: 1, u: 2 * w}\n    on: {day.start: [w = -1, u = 0], day.end: [rewire(w < 0)]}\n"
    inits = {
        "q": "{w: 3}",
        "r": "{u: 5 * w}",
        "s": "{w: {uniform: {low: 4, high: 5}}}",
        "t": "{w: {uniform: {low: 6, high: 7}}}",
    }
    inits["z"] = "{w: {uniform: {low: 6, high: 7}}, u: 7 * w}"
    more = "".join(
        f"  {n}: {{from: a, to: a, connect: {CONNECT['outdegree']}, synapse: rule, init: {init}}}\n"
        for n, init in inits.items()
    )
    done = simulate(text(rule, days=1) + more, tmp_path, target)
    ranges = {"p": (1, 1, 2), "q": (3, 3, 2), "r": (1, 1, 5), "s": (4, 5, 2), "t": (6, 7, 2), "z": (6, 7, 7)}
    for name, (low, high, factor) in ranges.items():
        w, u = (done.instance.read(f"{name}[a->a].{x}") for x in ("w", "u"))
        assert np.all((w >= low) & (w <= high)) and np.allclose(u, factor * w, rtol=1e-15), name


@BOTH
def test_event_driven_equations_begin_anew(tmp_path: Path, target: str) -> None:
    """A new synapse decays from the step in which it was made, not from the last spike of the old one."""
    rule = """\
    params: {tau: 8 ms}
    state: {w: 2, got: 0}
    dynamics: {dw/dt: -w / tau}
    event_driven: true
    on_pre: [got = w]
    on: {day.end: [rewire(random() < 0.5)]}
"""
    done = load(model_of(text(rule), tmp_path), tmp_path, target)
    row, col = read(done, "'row", "'col")
    run_steps(done, 5)
    new = read(done, "'col")[0] != col
    x, updated = read(done, "w", "'updated")
    assert 0.3 < new.mean() < 0.7
    assert np.all(x[new] == 2) and np.all(updated[new] == 5)
    assert np.all(updated[~new] <= 5) and np.any(x[~new] < 2)
    run_steps(done, 4, 6)
    source, last = np.repeat(np.arange(SIZE), np.diff(row)), np.zeros(SIZE)
    for step, i in done.spikes["a"]:
        last[i] = max(last[i], step)
    late = new & (last[source] > 5)
    got = read(done, "got")[0]
    assert np.allclose(got[late], 2 * np.exp(-(last[source][late] - 5) / 8), rtol=1e-12) and late.sum() > 30


@BOTH
def test_relation_by_target_follows(tmp_path: Path, target: str) -> None:
    done = simulate(text(), tmp_path, target)
    row, col, to_row, to_col, to_index = read(done, "'row", "'col", "'to_row", "'to_col", "'to_index")
    order = np.argsort(col, kind="stable")
    assert np.array_equal(to_index, order)
    assert np.array_equal(to_col, np.repeat(np.arange(SIZE), np.diff(row))[order])
    assert np.array_equal(to_row, np.concatenate([[0], np.cumsum(np.bincount(col, minlength=SIZE))]))


@BOTH
def test_full_rows_stay(tmp_path: Path, target: str) -> None:
    """Where a source has every target, its synapses begin again with the same one; with all but one, they take that."""
    full = "{fixed_outdegree: {number: 29, multapses: false, autapses: false}}"
    source = text("    state: {w: 0.5, age: 0}\n    update: [age = age + 1, rewire(age > 3)]\n", full)
    done = simulate(source.replace("duration: 20 ms", "duration: 4 ms"), tmp_path, target)
    row, col, age = read(done, "'row", "'col", "age")
    check_pairs(row, col, False, False)
    assert np.all(age == 0)
    almost = full.replace("29", "28")
    source = text("    state: {w: 0.5, age: 0}\n    update: [age = age + 1, rewire(age > 3)]\n", almost)
    done = load(model_of(source, tmp_path), tmp_path, target)
    before = read(done, "'col")[0]
    run_steps(done, 4)
    row, col = read(done, "'row", "'col")
    check_pairs(row, col, False, False)
    assert np.all(col != before)  # a shift around the hole, synapse after synapse


def test_new_targets_are_uniform(tmp_path: Path) -> None:
    """Chi-squared of the targets of new synapses; half of them are drawn anew on each day."""
    many = "{fixed_indegree: {number: 200, multapses: true}}"
    source = text("    state: {w: 0.5}\n    on: {day.end: [rewire(random() < 0.5)]}\n", many, days=30)
    done = load(model_of(source, tmp_path), tmp_path)
    before = read(done, "'col")[0]
    run_steps(done, 5)
    changed = np.mean(read(done, "'col")[0] != before)
    assert abs(changed - 0.5 * 29 / 30) < 0.03
    run_steps(done, 145, 6)
    counts = np.bincount(read(done, "'col")[0], minlength=SIZE)
    chi = float(np.sum((counts - 200) ** 2 / 200))
    assert 10 < chi < 60  # 29 degrees of freedom


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_agree(tmp_path: Path, precision: str) -> None:
    runs = []
    sums = RULE + "        - rewire(w < 0.5 * mean_post(w))\n        - w = w / sum_post(w)\n"
    for target in ("cpu", "reference"):
        (tmp_path / target).mkdir()
        runs.append(simulate(text(sums).replace("float64", precision), tmp_path / target, target))
    kept = [a.name for a in runs[0].lowered.merged.arrays if a.role.value in ("state", "synapse")]
    assert "p[a->a]'col" in kept and "p[a->a]'to_row" in kept
    for name in kept:
        assert np.array_equal(runs[0].instance.read(name), runs[1].instance.read(name)), name


def test_recorded_and_resumed(tmp_path: Path) -> None:
    """Each sample has its targets; a run that is resumed has the wiring of where it stopped."""
    path = tmp_path / "wiring.yaml"
    path.write_text(text(), encoding="utf-8")
    done = run(path, out=tmp_path / "whole")
    with h5py.File(Path(done.folder) / "synapses.h5") as file:
        group = file["p/a->a"]
        targets, source, w = group["targets"][:], group["source"][:], group["w"][:]
        assert "target" not in group
    assert targets.shape == w.shape == (DAYS + 1, len(source))
    for day in range(DAYS):
        same = targets[day + 1] == targets[day]
        assert np.array_equal(same, w[day] - 0.3 >= 0) and 0 < same.sum() < len(source)
    first = run(path, out=tmp_path / "first", duration="10 ms")
    second = run(path, out=tmp_path / "second", resume=first.folder)
    with h5py.File(Path(second.folder) / "synapses.h5") as file:
        assert np.array_equal(file["p/a->a/targets"][:], targets)
        assert np.array_equal(file["p/a->a/w"][:], w)


def test_recorded_sources(tmp_path: Path) -> None:
    """Where targets are kept, each sample has its sources, and the matrix is plotted from the last ones."""
    path = tmp_path / "wiring.yaml"
    rule = RULE.replace("rewire(w < 0)", '"rewire(w < 0, indegree)"')
    path.write_text(text(rule) + "plots: [{matrix: {from: p, variable: w}}]\n", encoding="utf-8")
    done = run(path, out=tmp_path / "whole")
    with h5py.File(Path(done.folder) / "synapses.h5") as file:
        group = file["p/a->a"]
        sources, target, w = group["sources"][:], group["target"][:], group["w"][:]
        assert "source" not in group and "targets" not in group
    assert sources.shape == w.shape == (DAYS + 1, len(target)) and np.all(np.diff(target) >= 0)
    for day in range(DAYS):
        same = sources[day + 1] == sources[day]
        assert np.array_equal(same, w[day] - 0.3 >= 0) and 0 < same.sum() < len(target)


def test_frozen(tmp_path: Path) -> None:
    done = simulate(text().replace("seed: 3", "seed: 3, freeze: learning"), tmp_path)
    assert np.all(read(done, "age")[0] == 0)
    assert not any(isinstance(t.body, Connect) and t.body.rule == "rewire" for t in done.lowered.merged.templates)


def merged(source: str, folder: Path, target: str) -> Merged:
    return lower(model_of(source, folder), backend(target).capabilities, verify=True).merged


MORE = "        - rewire(w < 0.5 * mean_post(w))\n        - remove(u < 3.5)\n        - form(random() < 0.5)\n"


def test_one_text_for_any_number(tmp_path: Path) -> None:
    def many(count: int) -> str:
        more = (f"  q{k}: {{from: a, to: a, connect: {CONNECT['outdegree']}, synapse: rule}}\n" for k in range(count))
        return text(RULE + MORE) + "".join(more)

    for target, emit in (("cpu", emit_c), ("cuda", emit_cuda)):
        few, lots = (merged(many(n), tmp_path, target) for n in (3, 40))
        assert emit(few).text == emit(lots).text  # type: ignore[operator]
        launches = [len(next(p for p in x.phases if p.name == "step").launches) for x in (few, lots)]
        assert launches[0] == launches[1] < 40


@pytest.mark.nvrtc
def test_cuda_text_compiles(tmp_path: Path) -> None:
    for order in ("fast", "bitwise"):
        program = lower(model_of(text(order=order), tmp_path), CudaBackend().capabilities, True).merged
        compile_text(emit_cuda(program), "wiring", order == "bitwise", "sm_90")
