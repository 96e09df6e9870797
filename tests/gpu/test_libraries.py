"""Products by cuBLASLt, and exchanged convolutions, on a GPU: right, in a captured graph, in models that are locked to
them; and ways of recurrent layers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import netloom
from backends.cuda.run import cublaslt as library
from backends.cuda.run import cudnn
from backends.cuda.run.backend import CudaBackend
from backends.errors import BackendError
from backends.protocol import Instance
from compiler.ir.level2.program import Order
from compiler.ir.space import DType
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.tuning import check_lock, tune_model
from compiler.strategies import exchange
from compiler.strategies.cuda.vendor.cublaslt import KINDS
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.variants import identity, ways
from compiler.tune.measure import Bench, measure
from compiler.tune.sites import Site
from compiler.tune.wishes import Wishes, parsed
from tests.cpu.contractions import Conv, conv, dense, gradient
from tests.cpu.test_sequence_strategies import attention, steps_dense
from tests.cpu.test_strategies import Problem

pytestmark = pytest.mark.gpu

MODELS = Path(__file__).parents[2] / "models"
BACKEND = CudaBackend()


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))


def site(problem: Problem, begins: tuple[str, ...]) -> Site:
    """The problem with the candidates whose names begin so, and the nest."""
    node, tensors = problem
    used = {n: tensors[n] for n in node.ins}
    digests = (f(node, used, 0, 4, "reproducible") for f in (problem_digest, structure_digest))
    found = ways(node, used, 0, 4, BACKEND.capabilities.strategies, BACKEND.capabilities.device)
    return Site("train/y", node, used, 0, *digests, (*(w for w in found if w and w.strategy.startswith(begins)), None))


def ran(instance: Instance, phase: str, steps: int) -> float:
    """Two runs: one that records the graph, and one that launches it."""
    return float(sum(instance.run(phase, n, 2) for n in (1, 3))) * 1e-6


PRODUCTS = [
    dense(100, 48, 56),
    dense(7, 1000, 3),
    gradient(*dense(100, 48, 56), 0),
    gradient(*dense(100, 48, 56), 1),
    gradient(*steps_dense(20, (5,), 7, 9), 1),
    attention(20, 1, 5, 7, 4, False),
]


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_the_library_multiplies(number: int) -> None:
    assert library.LIBRARY.found() is not None, "pip install 'netloom[cuda-libraries]'"
    here = site(PRODUCTS[number], ("cublaslt",))
    assert len(here.ways) >= 10
    (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
    assert result.wrong == ()
    assert result.errors["cublaslt_float32 s_tile=0"] < 1e-6


def test_arrays_of_bf16() -> None:
    node, tensors = dense(64, 128, 48)
    tensors = {n: replace(t, dtype="bf16") for n, t in tensors.items() if n != "y"} | {"y": tensors["y"]}
    here = site((node, tensors), ("cublaslt_stored",))
    assert len(here.ways) == 4
    (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
    assert result.wrong == ()


CONVOLUTIONS = [Conv(16, 8, 6, 9, 9, (5, 5), stride=(2, 2), pad=2), Conv(8, 12, 6, 7, 7, dilate=2, pad=1)]


@pytest.mark.parametrize("direction", [None, 0, 1])
def test_exchanged_convolutions(direction: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "HOPELESS", 1e9)
    problems = [conv(c) if direction is None else gradient(*conv(c), direction) for c in CONVOLUTIONS]
    sites = [site(p, exchange.KINDS) for p in problems]
    names = {w.strategy for s in sites for w in s.ways if w is not None}
    wanted = {None: "exchanged_direct_conv_weights", 0: "turned_direct_conv", 1: "exchanged_direct_conv"}[direction]
    assert wanted in names
    for here in sites:
        (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
        assert result.wrong == ()


def test_what_a_library_refuses_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(strategy: str, *given: object) -> None:
        raise BackendError("E0924", f"no algorithm for {strategy}", exit_code=5)

    here = site(conv(CONVOLUTIONS[1]), ("cudnn", "direct_conv"))
    monkeypatch.setattr(cudnn, "convolution", refuse)
    (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
    left = {identity(w) for w in here.ways if w is None or not w.strategy.startswith("cudnn")}
    assert 1 < len(left) < len(here.ways)
    assert set(map(identity, result.site.ways)) == set(result.microseconds) == left


def test_a_model_that_is_locked_to_the_library_trains_as_without(tmp_path: Path) -> None:
    """Products with epilogues, between kernels that begin early, in graphs of several steps."""
    shutil.copytree(MODELS / "data", tmp_path / "data")
    shutil.copy(MODELS / "mlp.yaml", tmp_path)
    model, options = tmp_path / "mlp.yaml", Options(target="cuda")

    def fast(instance: Instance, phase: str, steps: int) -> float:
        kernels = {t.index: t.body for t in instance.program.templates}  # type: ignore[attr-defined]
        (own,) = (p for p in instance.program.phases if p.name == phase)  # type: ignore[attr-defined]
        called = {getattr(kernels[launch.template], "strategy", "") for launch in own.launches}
        return steps * (1e-6 if called & {"cublaslt_float32"} else 9e-6)

    result = tune_model(model, options, timer=fast, wishes=Wishes(1, parsed(":cublaslt")))
    chosen = [t.way for t in result.contractions]
    assert sum(way.startswith("cublaslt_float32") for way in chosen) >= 6, chosen
    losses = []
    for lock in (True, False):
        folder = tmp_path / str(lock)
        netloom.run(model, target="cuda", epochs=2, lock=lock, out=folder, build_dir=tmp_path / f"build{lock}")
        losses.append(json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    program = prepare(model, options, Times()).lowered.merged
    assert {t.body.strategy for t in program.templates if hasattr(t.body, "strategy")} & KINDS.keys()


def test_ways_of_recurrent_layers(tmp_path: Path) -> None:
    shutil.copytree(MODELS / "data", tmp_path / "data")
    shutil.copy(MODELS / "lstm.yaml", tmp_path)
    path, options = tmp_path / "lstm.yaml", Options(target="cuda")
    wishes = Wishes(1, parsed(":chain"), whole=True)
    result = tune_model(path, options, wishes=wishes)
    assert {f.path.partition("/")[0] for f in result.layers} == {"train", "eval"}
    times = {f.path: [row.microseconds for row in result.rows if row.path == f.path] for f in result.layers}
    assert all(len(found) == 2 and min(found) > 0 for found in times.values())
    assert check_lock(path, options, wishes) == ()
    text = path.with_suffix(".lock").read_text()
    tune_model(path, options, wishes=wishes)
    assert path.with_suffix(".lock").read_text() == text


@pytest.mark.parametrize("direction", [None, 0, 1])
def test_the_library_convolves(direction: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each direction, and by the others."""
    assert cudnn.LIBRARY.found() is not None, "pip install 'netloom[cuda-libraries]'"
    monkeypatch.setattr(exchange, "HOPELESS", 1e9)
    cases = [*CONVOLUTIONS, Conv(4, 8, 6, 9, 8, stride=(2, 1), pad=1, groups=2)]
    for c in cases:
        problem = conv(c) if direction is None else gradient(*conv(c), direction)
        here = site(problem, ("cudnn", "exchanged_cudnn", "turned_cudnn"))
        assert len(here.ways) > 2
        (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
        assert result.wrong == ()
