"""Measuring strategies on the CPU, with a fake timer; `netloom tune` end to end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import compiler.tune.measure as module
import netloom
from backends.cpu.backend import LANES, CpuBackend
from backends.errors import NoAlgorithm
from backends.protocol import Instance
from compiler.cli.app import app
from compiler.core.diagnostics import RunError
from compiler.ir.level1.graph import Contract
from compiler.ir.level2.program import Merged, Order
from compiler.ir.space import DType
from compiler.passes.pipeline.lower import lower_predict
from compiler.runtime.artifacts.trained import open_trained
from compiler.runtime.common.locks import locked, sites_of
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.inference.predict import build_prediction
from compiler.runtime.prepare import load_checked, prepare
from compiler.runtime.tuning import check_lock, tune_model
from compiler.strategies import pins
from compiler.strategies.cpu import lanes_dense
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.strategy import ROUNDING, Strategy, with_columns
from compiler.strategies.variants import identity, text_of, ways
from compiler.tune.accuracy import sample
from compiler.tune.measure import Bench, Timer, alone, measure, phase_of, together
from compiler.tune.sites import Site
from compiler.tune.wishes import Wishes, parsed
from netloom import build
from tests.cpu.contractions import Conv, conv, dense, gradient
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_sequence_strategies import attention, steps_dense
from tests.cpu.test_strategies import Problem

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

BACKEND = CpuBackend()
DATA = Path(__file__).parents[2] / "models" / "data" / "digits.npz"


def site(problem: Problem, real: DType = DType.F32) -> Site:
    node, tensors = problem
    used = {n: tensors[n] for n in node.ins}
    lanes = LANES * 4 // real.bytes
    digests = (f(node, used, lanes, real.bytes, "reproducible") for f in (problem_digest, structure_digest))
    possible = ways(node, used, lanes, real.bytes, BACKEND.capabilities.strategies)
    return Site("train/y", node, used, lanes, *digests, possible)


def counted(microseconds: Callable[[str], float]) -> tuple[Timer, list[str]]:
    """A timer that says so many microseconds a step for a phase, and the phases that it was asked for."""
    asked: list[str] = []

    def timer(instance: Instance, phase: str, steps: int) -> float:
        asked.append(phase)
        assert instance.run(phase, 1, 1) == 1
        return steps * microseconds(phase) * 1e-6

    return timer, asked


def naive(node: Contract, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    """A product of two operands, summed point by point."""
    out, names = np.zeros(node.out.shape), [d for d, _ in node.dims]
    for point in np.ndindex(*(extent for _, extent in node.dims)):
        at = dict(zip(names, point, strict=True))
        places = [[(sum(c * at[d] for d, c in a.terms) + a.const, a.div) for a in axes] for axes in node.in_maps]
        value = 1.0
        for name, place in zip(node.ins, places, strict=True):
            index = [p // div for p, div in place]
            inside = all(
                p % div == 0 and 0 <= i < n for (p, div), i, n in zip(place, index, operands[name].shape, strict=True)
            )
            value *= operands[name][tuple(index)] if inside else 0.0
        out[tuple(at[a.terms[0][0]] for a in node.out_map)] += value
    return out


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path


PROBLEMS: list[Problem] = [
    steps_dense(20, (5,), 7, 9),
    gradient(*steps_dense(20, (5,), 7, 9), 1),
    attention(20, 2, 5, 7, 4, False),
    attention(20, 2, 5, 7, 4, True),
]
for _c in (Conv(20, 3, 5, 6, 7, pad=1), Conv(16, 4, 6, 9, 9, stride=(2, 2), pad=1, groups=2)):
    PROBLEMS += [conv(_c), gradient(*conv(_c), 0), gradient(*conv(_c), 1)]


def bench(timer: Timer, real: DType = DType.F32, rounds: int = 1, options: Mapping[str, str] | None = None) -> Bench:
    return Bench(real, Order.REPRODUCIBLE, BACKEND, options or {}, rounds, timer, BACKEND.capabilities)


@pytest.mark.parametrize("real", [DType.F32, pytest.param(DType.F64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", range(len(PROBLEMS)))
def test_every_way_gives_the_same_numbers(number: int, real: DType) -> None:
    """Tiles are data: all variants of one strategy share a template, and give the result of the nest."""
    here = site(PROBLEMS[number], real)
    timer, _ = counted(lambda phase: 10.0)
    (result,) = measure([here], bench(timer, real))
    assert len(result.microseconds) == len(here.ways) > 4
    assert result.wrong == ()
    assert all(0 < error < 8 * np.finfo(real.numpy).eps for error in result.errors.values())
    own = replace(here, ways=tuple(w for w in here.ways if w is None or w.exchange is None))
    program: Merged = alone([own], real, Order.REPRODUCIBLE, BACKEND.capabilities)
    assert len(program.templates) == len({text_of(w) for w in own.ways})


def phases(here: Site, number: int = 0) -> list[str]:
    return [phase_of(number, k) for k in range(len(here.ways))]


def test_medians_of_rounds_in_turn_are_kept_on_disk(fresh: Path) -> None:
    here = site(dense(48, 31, 29))
    times = {phase: 10.0 + k for k, phase in enumerate(phases(here))}
    timer, asked = counted(times.__getitem__)
    first = measure([here], bench(timer, rounds=3))
    assert asked == phases(here) * 4
    assert first[0].microseconds == {identity(w): 10.0 + k for k, w in enumerate(here.ways)}
    asked.clear()
    assert measure([here], bench(timer, rounds=3)) == first
    assert asked == []
    measure([here], bench(timer, rounds=3, options={"portable": "1"}))
    assert asked  # other flags are other times


def test_what_is_known_needs_no_build(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, timer = site(dense(48, 31, 29)), counted(lambda phase: 10.0)[0]
    first = measure([here], bench(timer))
    monkeypatch.setattr(CpuBackend, "compile", None)
    assert measure([here], bench(timer)) == first


def test_what_a_library_refuses_is_no_candidate(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the second of two contractions, those of two strategies, one after the other."""
    one, two = (site(conv(Conv(20, 3, 5, 6, rows, pad=1))) for rows in (7, 8))
    left = [w for w in two.ways if w is None or w.strategy != "lanes_conv"]
    number = next(k for k, w in enumerate(left) if w and w.strategy == "winograd_conv")
    refused, load = [phase_of(1, k) for k in (2, number)], CpuBackend.load
    assert two.ways[2] not in left

    def picky(backend: CpuBackend, artifact: Any, program: Merged, seed: int) -> Instance:
        if refused:
            raise NoAlgorithm(refused.pop(0), "the library has none")
        return load(backend, artifact, program, seed)

    monkeypatch.setattr(CpuBackend, "load", picky)
    timer, asked = counted(lambda phase: 10.0)
    found = measure([one, two], bench(timer))
    names = [identity(w) for w in left if w is None or w.strategy != "winograd_conv"]
    assert [list(map(identity, m.site.ways)) for m in found] == [list(map(identity, one.ways)), names]
    assert [set(m.microseconds) for m in found] == [set(map(identity, one.ways)), set(names)]
    asked.clear()
    assert measure([one, two], bench(timer)) == found
    assert asked == []


def test_what_is_no_candidate_ends_the_measurement(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: CpuBackend, artifact: Any, program: Merged, seed: int) -> Instance:
        raise NoAlgorithm("elsewhere", "the library has none")

    monkeypatch.setattr(CpuBackend, "load", refuse)
    with pytest.raises(NoAlgorithm):
        measure([site(dense(48, 31, 29))], bench(counted(lambda phase: 10.0)[0]))


def test_contractions_of_one_structure_are_built_together(fresh: Path) -> None:
    """Three sizes are one program, and each has its own times; what is known is left out of it."""
    one, two, three = (site(dense(48, 31, n)) for n in (29, 17, 8))
    timer, asked = counted(lambda phase: 10.0 + int(phase[4:].partition("way")[0]))
    (known,) = measure([two], bench(timer))
    asked.clear()
    found = measure([one, two, three], bench(timer))
    assert [set(m.microseconds.values()) for m in found] == [{10.0}, {10.0}, {11.0}]
    assert found[1] == known
    assert all(m.wrong == () for m in found)
    program = alone([one, two, three], DType.F32, Order.REPRODUCIBLE, BACKEND.capabilities)
    assert len(program.templates) == len(alone([one], DType.F32, Order.REPRODUCIBLE, BACKEND.capabilities).templates)
    assert [[s.problem for s in g] for g in together([one, two, three], 4)] == [[s.problem for s in (one, two, three)]]
    other = site(conv(Conv(20, 3, 5, 6, 7, pad=1)))
    assert [len(group) for group in together([one, other, two], 4)] == [2, 1]
    first = one.ways[0]
    assert first is not None
    large = replace(one, ways=(replace(first, workspace=1 << 27), None))
    assert [len(group) for group in together([large, two, three], 4)] == [1, 2]


def test_hopeless_ways_are_measured_once(fresh: Path) -> None:
    here = site(dense(47, 31, 29))
    last = phases(here)[-1]
    timer, asked = counted(lambda phase: 100.0 if phase == last else 10.0)
    measure([here], bench(timer, rounds=5))
    assert asked.count(last) == 2
    assert asked.count(phase_of(0, 0)) == 6


def wrong_and(here: Site, rounding: float, monkeypatch: pytest.MonkeyPatch, **columns: int) -> tuple[str, ...]:
    """The wrong ones of the rules' choice with other columns, whose strategy is permitted to round, and the nest."""
    choice = here.ways[0]
    assert choice is not None
    other = with_columns(choice, **columns)
    monkeypatch.setattr(pins, "ways", lambda *_: (other, None))
    products = next(name for name, value in ROUNDING.items() if value == rounding)
    monkeypatch.setattr(module, "every", lambda: [Strategy(choice.strategy, lanes_dense.match, products=products)])
    result = measure([replace(here, ways=(other, None))], bench(counted(lambda phase: 1.0)[0]))
    return result[0].wrong


@pytest.mark.parametrize(("terms", "found"), [(33, 0), (32, 1), (16, 1)])
def test_a_wrong_way_is_found(terms: int, found: int, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing tile would read out of bounds: it is simulated by a strategy that leaves out terms of its sums."""
    here = site(dense(20, 33, 10))
    assert len(wrong_and(here, 0.0, monkeypatch, s_ins=terms)) == found


@pytest.mark.parametrize(("rounding", "found"), [(0.0, 1), (2.0**-20, 1), (2.0**-10, 1), (2.0**-8, 0)])
def test_a_candidate_is_judged_by_the_products_that_it_needs(
    rounding: float, found: int, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without three of 100,000 terms a sum is about 0.5 % off: bf16 may be, tf32 may not."""
    here = site(dense(16, 100_000, 3))
    assert len(wrong_and(here, rounding, monkeypatch, s_ins=99_997)) == found


def test_errors_are_those_of_float64(fresh: Path) -> None:
    """Every element of small results is compared, through strides, borders and division."""
    for problem in (conv(Conv(16, 4, 6, 9, 9, stride=(2, 2), pad=1, groups=2)), dense(20, 33, 10)):
        for node, tensors in (problem, gradient(*problem, 0), gradient(*problem, 1)):
            here = site((node, tensors))
            random = np.random.default_rng(3)
            operands = {n: random.standard_normal(int(np.prod(t.shape))) for n, t in here.tensors.items()}
            found = sample(here, operands)
            whole = naive(node, {n: operands[n].reshape(tensors[n].shape) for n in node.ins}).reshape(-1)
            assert found.error(whole) < 1e-12
            assert found.error(whole * 1.001) == pytest.approx(0.001)


# ------------------------------------------------------------------------------------------- models


@pytest.fixture
def model(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in a separate folder, isolated from the measurements of other tests."""
    monkeypatch.setenv("NETLOOM_CACHE", str(here / "cache"))
    (here / "digits.npz").write_bytes(DATA.read_bytes())
    text = DIGITS.replace("image: flat", "image: images").replace("shape: [64]", "shape: [1, 8, 8]")
    return write(
        here,
        text.replace("- dense: {name: hidden, inputs: image", "- flatten: {inputs: image}\n    - dense: {name: hidden"),
    )


def lowered(path: Path, **options: object) -> Merged:
    return prepare(path, Options(**options), Times()).lowered.merged  # type: ignore[arg-type]


def strategies(program: Merged) -> list[str]:
    return [getattr(t.body, "strategy", "") for t in program.templates if getattr(t.body, "strategy", "")]


def nest_first(instance: Instance, phase: str, steps: int) -> float:
    """The last candidate, the nest, is the fastest."""
    own, way, _ = phase.partition("way")
    if not way:  # a whole step
        return steps * 1e-6
    last = max(int(p.name.partition("way")[2]) for p in instance.program.phases if p.name.startswith(f"{own}way"))  # type: ignore[attr-defined]
    return steps * (1e-6 if phase == f"{own}way{last}" else 9e-6)


def test_a_model_is_tuned_without_what_a_library_refuses(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate of the rules' strategy of the first contraction that is loaded."""
    load, refused = CpuBackend.load, list[str]()

    def picky(backend: CpuBackend, artifact: Any, program: Merged, seed: int) -> Instance:
        phase = phase_of(0, 0)
        if not refused and any(p.name == phase for p in program.phases):
            refused.append(phase)
            raise NoAlgorithm(phase, "the library has none")
        return load(backend, artifact, program, seed)

    monkeypatch.setattr(CpuBackend, "load", picky)
    result = tune_model(model, Options(), 1, timer=nest_first)
    assert refused and result.contractions and all(w.microseconds > 0 for w in result.contractions)


def test_a_lock_file_decides_and_no_lock_leaves_it_out(model: Path) -> None:
    assert strategies(lowered(model))
    result = tune_model(model, Options(), 1, timer=nest_first)
    assert result.file == model.with_suffix(".lock")
    assert {e["way"] for e in result.summary().values()} == {"nest"}
    assert strategies(lowered(model)) == []
    assert strategies(lowered(model, lock=False))
    assert strategies(lowered(model, order="bitwise")) == []


def test_tiles_from_a_lock_file_change_no_text(model: Path) -> None:
    """Every contraction with another tile: equal text, so nothing is compiled."""
    tune_model(model, Options(), 1, timer=lambda i, phase, steps: steps * (1e-6 if phase.endswith("way4") else 1.2e-6))
    tuned, plain = lowered(model), lowered(model, lock=False)
    assert BACKEND.emit(tuned) == BACKEND.emit(plain)
    tiles = [list(t.scalars["s_tile"]) for t in tuned.tables if "s_tile" in t.scalars]
    assert tiles != [list(t.scalars["s_tile"]) for t in plain.tables if "s_tile" in t.scalars]


def test_stale_entries_are_warned_of_and_not_used(model: Path) -> None:
    tune_model(model, Options(), 1, timer=nest_first)
    prepared = prepare(model, Options(set={"width": "20"}), Times())
    assert [w.code for w in prepared.warnings] == ["W0004"]
    assert "`train/hidden.sum`" in prepared.warnings[0].message
    assert prepared.warnings[0].span is not None
    assert strategies(prepared.lowered.merged) == strategies(lowered(model, lock=False, set={"width": "20"}))
    assert prepare(model, Options(), Times()).warnings == ()


def test_predictions_have_entries_of_their_own(model: Path) -> None:
    """`predict@20` is for batches of 20; training, and other batches, keep theirs."""
    tune_model(model, Options(), 1, timer=nest_first)
    before = json.loads(model.with_suffix(".lock").read_text())
    result = tune_model(model, Options(), timer=nest_first, wishes=Wishes(1, parsed("predict@20/*"), batch=20))
    assert {t.path.partition("/")[0] for t in result.contractions} == {"predict@20"}
    tune_model(model, Options(), timer=nest_first, wishes=Wishes(1, parsed("predict@5/*"), batch=5))
    (old,), (new,) = (x["devices"].values() for x in (before, json.loads(model.with_suffix(".lock").read_text())))
    for path, entry in old["contractions"].items():
        assert new["contractions"][path] == entry
    assert {p.partition("/")[0] for p in new["contractions"]} == {"train", "eval", "predict@5", "predict@20"}
    assert prepare(model, Options(), Times()).warnings == ()
    own = load_checked(model, Options(), Times())[0]
    for batch, known in ((20, True), (64, False), (5, True)):
        for lock, nests in ((True, known), (False, False)):
            found = locked(model.with_suffix(".lock"), Options(lock=lock), BACKEND)
            program = lower_predict(own, found.capabilities, batch, pins=found.predicting(batch)).lowered.merged
            assert (strategies(program) == []) is nests


def test_a_model_that_is_only_used_is_tuned_for_predictions(model: Path) -> None:
    text = model.read_text()
    model.write_text(text[: text.index("train:")])
    result = tune_model(model, Options(), timer=nest_first, wishes=Wishes(1, whole=True))
    assert {t.path.partition("/")[0] for t in result.contractions} == {"predict@64"}
    assert [s.phase for s in result.steps] == ["predict@64"]


def test_evaluate_and_predict_use_the_file(model: Path) -> None:
    netloom.run(model, epochs=1, out=model.parent / "done", build_dir=model.parent / "build")
    tune_model(model, Options(), timer=nest_first, wishes=Wishes(1, batch=64))
    for source, weights in ((model.parent / "done", None), (model, model.parent / "done" / "weights.safetensors")):
        for lock in (True, False):
            options = Options(lock=lock, weights=weights, build_dir=model.parent / "build")
            trained = open_trained(source, options)
            assert trained.lock == model.with_suffix(".lock")
            prediction = build_prediction(trained, options, 64)[0]
            assert (strategies(prediction.lowered.merged) == []) is lock
    samples = np.load(model.parent / "digits.npz")["images"][:20]
    assert netloom.predict(model.parent / "done", samples, build_dir=model.parent / "build")["logits"].shape == (20, 10)
    assert netloom.evaluate(model.parent / "done", build_dir=model.parent / "build")["accuracy"] > 0


def test_a_budget_ends_measuring_and_keeps_what_was_known(model: Path) -> None:
    """The clock says a second for each look at it; the largest contractions come first."""
    tune_model(model, Options(), 1, timer=nest_first)
    before = json.loads(model.with_suffix(".lock").read_text())
    ticks = itertools.count()
    wishes = Wishes(1, budget=1.5)
    result = tune_model(model, Options(), timer=nest_first, wishes=wishes, clock=lambda: float(next(ticks)))
    found = {s.path: s for s in sites_of(prepare(model, Options(), Times()).lowered, BACKEND.capabilities)}
    assert len({found[c.path].structure for c in result.contractions}) == 1
    assert result.left
    assert max(s.operations for s in found.values()) in {found[c.path].operations for c in result.contractions}
    (old,), (new,) = (x["devices"].values() for x in (before, json.loads(model.with_suffix(".lock").read_text())))
    assert set(new["contractions"]) == set(old["contractions"])
    for path in result.left:
        assert new["contractions"][path] == old["contractions"][path]


def test_only_some_are_measured_and_the_others_keep_theirs(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune_model(model, Options(), 1, timer=nest_first)
    monkeypatch.setenv("NETLOOM_CACHE", str(model.parent / "another"))
    wishes = Wishes(1, parsed("hidden:dense"))
    way1 = lambda i, p, n: n * (1e-6 if p.endswith("way1") else 9e-6)  # noqa: E731
    result = tune_model(model, Options(), timer=way1, wishes=wishes)
    assert {t.path.split(".")[0].partition("/")[2] for t in result.contractions} == {"hidden"}
    (section,) = json.loads(model.with_suffix(".lock").read_text())["devices"].values()
    found = {path: e["strategy"] for path, e in section["contractions"].items()}
    assert found["train/logits.sum"] == "nest"
    assert found["train/hidden.sum"] == "lanes_dense"


def noisy(seed: int) -> Timer:
    """Times of a candidate by its number, that differ by 2 % at most by chance."""
    random = np.random.default_rng(seed)
    return lambda i, p, n: n * 1e-6 * (10 + int(p.partition("way")[2]) % 7) * random.uniform(0.98, 1.02)


def test_the_same_file_is_written_when_all_is_measured_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for seed in range(3):
        monkeypatch.setenv("NETLOOM_CACHE", str(model.parent / f"cache{seed}"))
        tune_model(model, Options(), 3, timer=noisy(seed))
        texts.append(model.with_suffix(".lock").read_text())
    assert texts[0] == texts[1] == texts[2]


def test_a_check_names_what_is_stale_or_missing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(options: Options, wishes: Wishes | None = None) -> list[str]:
        return [d.message for d in check_lock(model, options, wishes or Wishes())]

    (none,) = said(Options())
    assert "`model.lock` has no section for `cpu: " in none
    tune_model(model, Options(), 1, timer=nest_first)
    assert said(Options()) == []
    (other,) = said(Options(set={"width": "20"}))
    assert "measured for another shape" in other
    (missing,) = said(Options(), Wishes(batch=8))
    assert "`model.lock` has nothing for `predict@8/hidden.sum`, `predict@8/logits.sum`" in missing
    monkeypatch.setattr("compiler.runtime.tuning.made_with", lambda backend: "cc 99")
    (compiler,) = said(Options())
    assert compiler.endswith("here is cc 99")


def test_what_cannot_be_tuned_is_refused(model: Path) -> None:
    with pytest.raises(RunError, match="nothing to choose"):
        tune_model(model, Options(order="bitwise"))
    with pytest.raises(RunError, match="one way"):
        tune_model(model, Options(target="reference"))
    with pytest.raises(RunError, match="no contraction fits `pool`"):
        tune_model(model, Options(), wishes=Wishes(only=parsed("pool")))
    with pytest.raises(RunError, match="a size such as"):
        tune_model(model, Options(workspace="much"))


def test_the_command(model: Path) -> None:
    """tune, explain, build, run: the real timer runs, what it says does not matter."""
    runner = CliRunner()
    done = runner.invoke(app, ["tune", str(model), "--rounds", "1", "--format", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [s["phase"] for s in found["steps"]] in ([], ["train"])
    assert found["file"] == str(model.with_suffix(".lock"))
    assert "train/logits.weight.grad" in found["contractions"]
    page = model.parent / "tuned.html"
    shown = runner.invoke(
        app, ["tune", str(model), "--rounds", "1", "--report", "--out", str(page), "--only", "hidden"]
    )
    assert shown.exit_code == 0, shown.output
    assert "% limit" in shown.stdout
    assert "lanes_dense vector=0 s_tile=3" in shown.stdout
    assert "train/hidden.sum" in page.read_text()
    assert "train/logits.sum" not in page.read_text()
    checked = runner.invoke(app, ["tune", str(model), "--check"])
    assert (checked.exit_code, checked.stdout) == (0, f"{model.with_suffix('.lock')}: complete\n")
    assert runner.invoke(app, ["tune", str(model), "--check", "--set", "width=20"]).exit_code == 1
    explained = runner.invoke(app, ["explain", str(model), "--details", "all"])
    assert "train: hidden.sum" in explained.stdout
    assert "(model.lock: " in explained.stdout
    assert "model.lock" not in runner.invoke(app, ["explain", str(model), "--details", "all", "--no-lock"]).stdout
    assert runner.invoke(app, ["run", str(model), "--quiet", "--epochs", "1"]).exit_code == 0
    model.with_suffix(".lock").write_text("{")
    broken = runner.invoke(app, ["build", str(model)])
    assert broken.exit_code == 2
    assert runner.invoke(app, ["build", str(model), "--no-lock"]).exit_code == 0
    with pytest.raises(RunError, match="is not JSON"):
        build(model)
    assert not build(model, lock=False).compiled
