"""Tables of numbers of the whole network, and runs that end by a criterion."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom
from compiler.core.diagnostics import RunError

pytestmark = pytest.mark.usefixtures("not_optimized", "without_plots")

MODEL = """language: 1
name: tabled
params: {low: {value: 0.2}, tau: {value: 20 ms}}
neurons:
  cell:
    params: {k: 0.1}
    state: {v: 0, wrong: 1}
    inputs: {g: {unit: mV}}
    pool: {reduce: {most: max(v)}}
    update: [v = v + k + 0 * pool.most, wrong = wrong * 0.9]
    spike: {when: v > 1, reset: [v = 0]}
synapses:
  grows: {state: {w: 0.5}, on_pre: [w = w + 0.125, deliver(w * 1 mV)]}
phases: {trial: {every: 10 ms, events: {middle: 5 ms, end: 10 ms}}}
populations:
  a: {neuron: cell, size: 3, init: {wrong: [1, 2, 3]}, params: {k: [0.1, 0.2, 0.3]}}
  b: {neuron: cell, size: 2}
projections:
  p: {from: a, to: [a, b], connect: {all_to_all: {}}, synapse: grows, deliver: {into: g}}
  q: {from: b, to: a, connect: {one_to_one: {}}, deliver: {into: g, weight: 2 mV}}
simulate: {dt: 1 ms, duration: 200 msEXTRA}
record:
  - table:
      name: learning
      at: trial.end
      columns:
        err: 100 * mean(a.wrong)
        spread: max(a.wrong) - min(a.wrong)
        w: mean(p.w)
        of_b: sum(b.v * 2 + tau / (10 ms))
        most: max(a.pool.most)
        constant: mean(q.weight)
  - table: {every: 4 ms, columns: {v: sum(a.v)}}
""".replace("connect: {one_to_one: {}}", "connect: {fixed_indegree: {number: 1}}")


def model(extra: str = "", **settings: Any) -> netloom.Model:
    return netloom.load(MODEL.replace("EXTRA", extra), set=settings)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def expected(trials: int) -> dict[str, np.ndarray]:
    """What the model's columns are at the end of each trial, computed here."""
    wrong = np.array([1, 2, 3]) * 0.9 ** (10 * np.arange(1, trials + 1))[:, None]
    return {"err": 100 * wrong.mean(axis=1), "spread": wrong.max(axis=1) - wrong.min(axis=1)}


def test_rows_are_what_the_network_holds() -> None:
    s, found = model().simulation(), model().run().table("learning")
    assert list(found) == ["time", "trial", "err", "spread", "w", "of_b", "most", "constant"]
    assert found["time"].tolist() == [10.0 * k for k in range(1, 21)] and found["trial"].tolist() == list(range(20))
    for name, values in expected(20).items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5)
    for k in range(20):
        s.run("10 ms")
        w = np.concatenate([np.asarray(s.projections[n].w) for n in ("p[a->a]", "p[a->b]")])
        assert found["w"][k] == w.astype(np.float64).mean()
        assert found["of_b"][k] == np.sum(s["b"].v.astype(np.float64) * 2 + 2)
        assert found["most"][k] == np.max(s["a"]["pool.most"])
    assert set(found["constant"]) == {2.0}
    np.testing.assert_array_equal(s.table("learning")["err"], found["err"])


def test_rows_at_round_times() -> None:
    found = model().run().table()
    assert list(found) == ["time", "v"] and found["time"].tolist() == [4.0 * k for k in range(1, 51)]


def test_a_sum_over_no_synapses_is_zero() -> None:
    none = MODEL.replace("EXTRA", "").replace("connect: {all_to_all: {}}", "connect: {fixed_probability: {p: 0}}")
    found = netloom.load(none.replace("mean(p.w)", "sum(p.w)")).run(duration="10 ms").table("learning")
    assert found["w"].tolist() == [0.0]


def test_time_zero_is_the_end_of_the_warmup() -> None:
    found = model(", warmup: 25 ms").run(duration="40 ms").table("learning")
    assert found["time"].tolist() == [5, 15, 25, 35] or found["time"].tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_targets_agree(order: str) -> None:
    tables = [model().run(target=t, order=order).table("learning") for t in ("cpu", "reference")]
    for name in tables[0]:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


def test_a_criterion_ends_a_run() -> None:
    """err is 70, 24, 8.5, 3.0: below 20 for the second time in a row at the end of the fourth trial."""
    done = model(", stop: {when: 100 * mean(a.wrong) < 20 and max(a.wrong) < 3, at: trial.end, times: 2}").run()
    assert done.status == "ok" and done.record["summary"]["ended_ms"] == 40
    assert done.course == "ended at 40 ms: the condition of `stop` holds"
    assert done.table("learning")["time"].tolist() == [10, 20, 30, 40]
    assert done.metrics["learning.err"] == done.table("learning")["err"][-1] < 20
    assert done.record["recorded_steps"] == [0, 40]
    never = model(", stop: {when: mean(a.wrong) < 0, every: 3 ms}").run()
    assert "ended_ms" not in never.record["summary"] and len(never.table("learning")["time"]) == 20
    every = model(", stop: {when: mean(a.wrong) < low, every: 3 ms}", low=0.5).run()
    first = next(k for k in range(3, 200, 3) if 2 * 0.9**k < 0.5)
    assert every.record["summary"]["ended_ms"] == first


def test_a_criterion_ends_a_piece_and_another_goes_on() -> None:
    s = model(", stop: {when: mean(a.wrong) < low, at: trial.end}").simulation()
    s.run("1 s")
    assert s.ended and s.time == 30
    s.run("5 ms")
    assert not s.ended and s.time == 35
    s.run("1 s")
    assert s.ended and s.time == 40


def test_a_short_piece_after_one_that_ended_does_not_end() -> None:
    s = netloom.load(MODEL.replace("EXTRA", ", stop: {when: mean(a.wrong) < 0.5, at: trial.end}")).simulation()
    s.run("1 s")
    assert s.ended and s.time == 20
    s.run("1 ms")  # too short for anything to be due in it
    assert not s.ended
    seen: list[float] = []
    s.every("1 ms", lambda x: seen.append(x.time))
    s.run("3 ms")
    assert seen == [22, 23, 24] and not s.ended


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(tmp_path: Path) -> None:
    m = model(", stop: {when: mean(a.wrong) < low, at: trial.end, times: 3}, checkpoint: {every: 5 ms, keep: 100}")
    whole = m.run(out=tmp_path / "whole")
    assert whole.record["summary"]["ended_ms"] == 50
    for path in sorted((tmp_path / "whole" / "checkpoints").glob("*"))[:-1:2]:
        other = tmp_path / f"from-{path.stem}"
        part = tmp_path / "part"
        part.mkdir()
        (part / "checkpoints").mkdir()
        for file in whole.folder.rglob("*"):
            if file.is_file() and file.parent.name != "checkpoints":
                (part / file.relative_to(whole.folder)).parent.mkdir(exist_ok=True)
                (part / file.relative_to(whole.folder)).write_bytes(file.read_bytes())
        (part / "checkpoints" / path.name).write_bytes(path.read_bytes())
        resumed = m.run(out=other, resume=part)
        assert resumed.record["summary"]["ended_ms"] == 50
        for name in ("learning", "table"):
            text = (whole.folder / "tables" / f"{name}.csv").read_bytes()
            assert (other / "tables" / f"{name}.csv").read_text() == text.decode(), path

        shutil.rmtree(part)


def test_back_in_time_the_rows_go_too() -> None:
    s = model(", stop: {when: mean(a.wrong) < low, at: trial.end, times: 3}").simulation()
    s.run("25 ms")
    point = s.checkpoint()
    s.run("10 ms")
    assert len(s.table("learning")["time"]) == 3
    s.restore(point)
    assert s.table("learning")["time"].tolist() == [10, 20]
    s.run("1 s")
    assert s.ended and s.time == 50


def test_the_count_of_the_criterion_goes_along(tmp_path: Path) -> None:
    """Twice in a row before the checkpoint, or before another value; once more behind it."""
    m = model(", stop: {when: mean(a.wrong) < low, at: trial.end, times: 3}")
    s = m.simulation()
    s.run("45 ms")
    path, other = s.checkpoint(tmp_path / "at45.safetensors"), m.simulation()
    other.restore(path)
    s.set(tau="30 ms")
    for x in (s, other):
        x.run("1 s")
        assert x.ended and x.time == 50
    assert m.run(resume=path).record["summary"]["ended_ms"] == 50


def test_copies_count_together() -> None:
    one, four = model().run(), model(", instances: 4").run()
    np.testing.assert_array_equal(one.table("learning")["err"], four.table("learning")["err"])
    np.testing.assert_allclose(4 * one.table()["v"], four.table()["v"], rtol=1e-12)
    ended = model(", instances: 4, stop: {when: mean(a.wrong) < low, at: trial.end}").run()
    assert ended.record["summary"]["ended_ms"] == 30


def test_expectations_and_sweeps_read_the_last_row(tmp_path: Path) -> None:
    m = netloom.load(MODEL.replace("EXTRA", "") + "expect: [{metric: {name: learning.err, at_most: 1}}]\n")
    (check,) = m.run(duration="100 ms").checks
    assert check.met and check.subject == "learning.err"
    (check,) = m.run(duration="10 ms").checks
    assert not check.met
    table = m.sweep({"grid": {"low": [0.1, 0.2]}}, workers=1, out=tmp_path / "sweep", duration="20 ms")
    assert [round(v, 4) for v in table.column("learning.err")] == [24.3153, 24.3153]


def test_as_tables_elsewhere() -> None:
    result = model().run(duration="20 ms")
    assert result.to_pandas("learning").time.tolist() == [10, 20]
    with pytest.raises(KeyError):
        result.table("other")


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, bit for bit; asked for before anything runs."""
    from pyarrow import parquet

    text = MODEL.replace("EXTRA", "").replace("at: trial.end\n", "at: trial.end\n      format: parquet\n")
    found = netloom.load(text).run(out=tmp_path / "r")
    read = parquet.read_table(tmp_path / "r" / "tables" / "learning.parquet").to_pydict()
    table = found.table("learning")
    assert list(read) == list(table)
    for name, values in table.items():
        np.testing.assert_array_equal(read[name], values)
    assert not (tmp_path / "r" / "tables" / "table.parquet").exists()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RunError, match="this needs pyarrow"):
        netloom.load(text).run(out=tmp_path / "without")
