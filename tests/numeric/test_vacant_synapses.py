"""Removal and formation of synapses: vacant slots have no effect, new synapses match plain Python."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import netloom
from backends.reference import philox
from compiler.ir.level0.streams import stream_key
from compiler.ir.space import OWN
from netloom import run
from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, model_of, simulate
from tests.numeric.simulated import run as run_steps
from tests.numeric.simulated import start as load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

SIZE, DAYS = 14, 4
CONNECT = {
    "outdegree": "{fixed_outdegree: {number: 9, multapses: false, autapses: false}}",
    "probability": "{fixed_probability: {p: 0.5}}",
    "repeated": "{fixed_indegree: {number: 7, multapses: true}}",
}

RULE = """\
    state: {w: {uniform: {low: 0, high: 1}}, age: 0, hit: 0, met: 0, step: 0, n: 0, low: 0, all: 0}
    dynamics: {dstep/dt: 1 / (1 ms)}
    on_pre: [deliver(w), hit = hit + 1]
    on_post: [met = met + 1]
    events: {often: {of: pre, when: pre.v > 0.5, do: [age = age + 1000]}}
    on:
      day.end:
        - w = w - 0.3
        - remove(w < 0)
        - form(sum_pre(1) < 4)
        - n = mean_post(w)
        - low = min_pre(w)
        - all = sum_post(1)
"""


def text(rule: str = RULE, connect: str = CONNECT["outdegree"], more: str = "", days: int = DAYS) -> str:
    return f"""\
language: 1
name: growing
neurons:
  cell:
    state: {{v: {{uniform: {{low: 0, high: 1}}}}}}
    inputs: {{g: {{}}}}
    update: [v = v + 0.23]
    spike: {{when: v >= 1, reset: [v = 0]}}
synapses:
  rule:
{rule}
phases: {{day: {{every: 5 ms, events: {{end: 5 ms}}}}}}
populations: {{a: {{neuron: cell, size: {SIZE}}}}}
simulate: {{dt: 1 ms, duration: {5 * days} ms, seed: 3{more}}}
record: [{{spikes: {{from: a}}}}, {{trace: {{from: a, variables: [v, g], members: all}}}},
         {{synapses: {{from: p, variables: [w], every: 5 ms}}}},
         {{histogram: {{from: p, variable: age, range: [-1, 100000], bins: 1, every: 5 ms}}}}]
numerics: {{precision: float64, order: bitwise}}
projections:
  p: {{from: a, to: a, connect: {connect}, synapse: rule, occupied: 0.5, deliver: {{into: g}}}}
"""


def read(done: Simulated, *names: str) -> list[Array]:
    return [done.instance.read(f"p[a->a]{n}" if n.startswith(OWN) else f"p[a->a].{n}").copy() for n in names]


def formed(
    row: Array, col: Array, exists: Array, step: int, autapses: bool, multapses: bool, what: str
) -> tuple[Array, Array]:
    """Ends and which places have a synapse after `form(sum_pre(1) < 4)`; the row is that of the neuron that stays."""
    key, col, exists = stream_key(3, f"p[a->a]/{what}: targets"), col.copy(), exists.copy()
    pool = SIZE if autapses else SIZE - 1
    for i in range(SIZE):
        mine = np.arange(row[i], row[i + 1])
        for s in mine[exists[mine] == 0] if exists[mine].sum() < 4 else ():
            for d in range(64):
                at = int(philox.words(key, s, step, d)[0]) * pool >> 32
                j = at if autapses or at < i else at + 1
                if multapses or j not in col[mine][exists[mine] == 1]:
                    col[s], exists[s] = j, 1
                    break
    return col, exists


def over(values: Array, by: Array, exists: Array) -> Array:
    total = np.zeros(SIZE)
    np.add.at(total, by[exists == 1], values[exists == 1])
    found: Array = total[by]
    return found


@pytest.mark.parametrize(
    ("connect", "target", "keep"), diagonal(CONNECT, ["cpu", "reference"], ["outdegree", "indegree"])
)
def test_against_plain_python(tmp_path: Path, target: str, connect: str, keep: str) -> None:
    """Day by day: nothing changes at a vacant place, deliveries and sums are those of the synapses that exist."""
    by_target = keep == "indegree"
    rule = RULE.replace("form(sum_pre(1) < 4)", '"form(sum_post(1) < 4, indegree)"') if by_target else RULE
    autapses, multapses = "autapses: false" not in connect, "multapses: true" in connect
    done = load(model_of(text(rule, connect), tmp_path), tmp_path, target)
    ends = ("'to_row", "'to_col") if by_target else ("'row", "'col")
    row, col, exists, w, hit, met, ran = read(done, *ends, "'exists", "w", "hit", "met", "step")
    place = np.repeat(np.arange(SIZE), np.diff(row))
    counts = [(int(exists.sum()), 0, 0)]
    assert 0.35 < exists.mean() < 0.65
    for day in range(DAYS):
        run_steps(done, 5, 1 + 5 * day)
        source, onto = (col, place) if by_target else (place, col)
        spikes = np.bincount(done.spikes["a"][:, 1], minlength=SIZE)
        there = exists == 1
        g = np.zeros(SIZE)
        last = [n for s, n in done.spikes["a"] if s == 5 * day + 5]
        np.add.at(g, onto[there & np.isin(source, last)], w[there & np.isin(source, last)])
        assert np.allclose(done.traces["a", "g"][-1], g, atol=1e-6)
        hit, met = hit + there * spikes[source], met + there * spikes[onto]
        ran = ran + 5 * there
        left = np.where(there & (w - 0.3 < 0), 0, exists)
        now, filled = formed(row, col, left, 5 * day + 5, autapses, multapses, "at day.end (3)")
        new = (left == 0) & (filled == 1)
        new_col, new_exists, new_w, new_hit, new_met, new_ran = read(
            done, ends[1], "'exists", "w", "hit", "met", "step"
        )
        assert np.array_equal(new_exists, filled) and np.array_equal(new_col, now)
        assert np.allclose(new_w[~new], np.where(there, w - 0.3, w)[~new], rtol=1e-12)
        assert np.all((new_w[new] >= 0) & (new_w[new] < 1))
        for found, expected in ((new_hit, hit), (new_met, met), (new_ran, ran)):
            assert np.allclose(found, np.where(new, 0, expected), rtol=1e-12)
        source, onto = (now, place) if by_target else (place, now)
        n, low, total = read(done, "n", "low", "all")
        alive = filled == 1
        assert np.allclose(total[alive], over(np.ones(len(w)), onto, filled)[alive])
        assert np.allclose(n[alive], (over(new_w, onto, filled) / over(np.ones(len(w)), onto, filled))[alive])
        assert np.allclose(low[alive], [new_w[alive & (source == x)].min() for x in source[alive]])
        pairs = source[alive] * SIZE + onto[alive]
        assert multapses or len(np.unique(pairs)) == len(pairs)
        counts.append((int(alive.sum()), int((there & ~alive).sum()), int(new.sum())))
        col, exists, w, hit, met, ran = new_col, new_exists, new_w, new_hit, new_met, new_ran
    assert sum(c[1] for c in counts) > 10 and sum(c[2] for c in counts) > 10


def test_no_neuron_left(tmp_path: Path) -> None:
    """A slot stays vacant while its source is connected to all neurons."""
    rule = "    state: {w: 1}\n    on_pre: [deliver(w)]\n    update: [form(t > 0)]\n"
    connect = "{fixed_outdegree: {number: 13, multapses: false, autapses: false}}"
    done = simulate(text(rule, connect).replace("variable: age", "variable: w"), tmp_path)
    assert np.all(read(done, "'exists")[0] == 1)
    rule += "    on: {day.end: [w = 2, remove(random() < 0.3)]}\n"
    connect = "{fixed_probability: {p: 0.5}}"
    done = simulate(text(rule, connect).replace("variable: age", "variable: w"), tmp_path)
    row, col, exists = read(done, "'row", "'col", "'exists")
    assert 0 < exists.mean() < 1
    for i in range(SIZE):
        mine = col[row[i] : row[i + 1]][exists[row[i] : row[i + 1]] == 1]
        assert len(np.unique(mine)) == len(mine)


def test_recorded_and_frozen(tmp_path: Path) -> None:
    """-1 denotes a vacant slot; a frozen run delivers only through existing synapses, and keeps them."""
    path = tmp_path / "growing.yaml"
    path.write_text(text() + "plots: [{matrix: {from: p, variable: w}}]\n", encoding="utf-8")
    folders = {"build_dir": tmp_path / "build"}
    first = run(path, out=tmp_path / "first", **folders)
    test = run(path, out=tmp_path / "test", resume=first.folder, duration="30 ms", freeze="learning", **folders)
    with h5py.File(Path(test.folder) / "synapses.h5") as file:
        group = file["p/a->a"]
        targets, counted = group["targets"][:], group["age.histogram"][:, 0]
    there = (targets >= 0).sum(axis=1)
    assert np.array_equal(there, counted) and len(there) == 7
    assert len(np.unique(there)) > 2
    assert np.array_equal(targets[4], targets[6])


@pytest.mark.parametrize(("keep", "end"), [("", "target"), (", indegree", "source")])
def test_ends_of_a_simulation(keep: str, end: str) -> None:
    """-1 until a synapse is formed: at the neurons below 3 alone, by source or by target."""
    of = "pre" if end == "target" else "post"
    rule = f"    state: {{w: 1}}\n    on_pre: [deliver(w)]\n    on: {{day.end: ['form({of}.v < 3{keep})']}}\n"
    model = f"""language: 1
name: formed
phases: {{day: {{every: 5 ms, events: {{end: 5 ms}}}}}}
neurons: {{cell: {{state: {{v: self.i}}, inputs: {{g: {{}}}}, update: [v = v + 0 * g], spike: {{when: v > 9}}}}}}
synapses:
  growing:
{rule}
populations: {{a: {{neuron: cell, size: 8}}}}
projections:
  p: {{from: a, to: a, connect: {{fixed_{"out" if end == "target" else "in"}degree: {{number: 2, multapses: false}}}},
      synapse: growing, occupied: 0, deliver: {{into: g}}}}
simulate: {{dt: 1 ms, duration: 5 ms}}
"""
    s = netloom.load(model).simulation()
    assert set(getattr(s.projections["p"], end)) == {-1}
    s.run("5 ms")
    p = s.projections["p"]
    there = np.asarray(p.target if end == "source" else p.source) < 3
    assert np.array_equal(np.asarray(getattr(p, end)) >= 0, there) and there.sum() == 6
