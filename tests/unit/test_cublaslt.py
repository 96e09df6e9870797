"""Products by cuBLASLt, without it: what the library is told, against sums; its place in a program and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.libraries import Library
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Numerics
from compiler.ir.level2.program import Contract, Order
from compiler.passes.pipeline.lower import lower
from compiler.strategies.choice import Choice, NotApplicable, product
from compiler.strategies.cuda.vendor import cublaslt, libraries
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import Pin, problem_digest
from compiler.strategies.variants import identity, ways
from tests.cpu.contractions import Conv, conv, dense, gradient
from tests.cpu.test_sequence_strategies import attention, steps_dense
from tests.cpu.test_strategies import Problem
from tests.cpu.test_tune import naive

MODELS = Path(__file__).parents[2] / "models"


def chosen(problem: Problem, name: str = "cublaslt_float32") -> Choice:
    node, tensors = problem
    found = product(node, {n: tensors[n] for n in node.ins}, 0, 4)
    return next(s for s in cublaslt.STRATEGIES if s.name == name).match(found)


def by_columns(columns: Mapping[str, int], operands: tuple[np.ndarray, np.ndarray], size: int) -> np.ndarray:
    """What the library computes: matrices by columns, from flat arrays."""
    get = columns.__getitem__
    first, second = operands if get("s_first") == 0 else operands[::-1]
    y = np.zeros(size)

    def matrix(flat: np.ndarray, name: str, height: int, width: int, batch: int) -> np.ndarray:
        turned = name != "d" and get(f"s_turned_{name}")
        shape = (width, height) if turned else (height, width)
        assert get(f"s_ld_{name}") >= shape[0]
        index = get(f"s_by_{name}") * batch + np.arange(shape[0])[:, None] + get(f"s_ld_{name}") * np.arange(shape[1])
        return (index.T if turned else index), flat

    rows, cols, terms = get("s_rows"), get("s_cols"), get("s_terms")
    for batch in range(get("s_batch")):
        (a, x), (b, w), (d, _) = (
            matrix(flat, name, *shape, batch)
            for flat, name, shape in ((first, "a", (rows, terms)), (second, "b", (terms, cols)), (y, "d", (rows, cols)))
        )
        y[d] = x[a] @ w[b]
    return y


FITTING = [
    dense(5, 7, 9),
    dense(1, 7, 9),
    gradient(*dense(5, 7, 9), 0),
    gradient(*dense(5, 7, 9), 1),
    steps_dense(4, (3,), 7, 9),
    gradient(*steps_dense(4, (3,), 7, 9), 0),
    gradient(*steps_dense(4, (3,), 7, 9), 1),
    conv(Conv(1, 5, 6, 4, 3, (1, 1))),
]


@pytest.mark.parametrize("number", range(len(FITTING)))
def test_what_it_is_told_gives_the_sums(number: int) -> None:
    node, tensors = FITTING[number]
    try:
        found = chosen((node, tensors))
    except NotApplicable as why:
        assert "window" in str(why)
        return
    check_sums((node, tensors), found)


def check_sums(problem: Problem, found: Choice) -> None:
    """What the library is told, computed by numpy, is what the contraction means."""
    node, tensors = problem
    rng = np.random.default_rng(1)
    values = {n: rng.standard_normal(tensors[n].shape) for n in node.ins}
    flat = (values[node.ins[0]].reshape(-1), values[node.ins[1]].reshape(-1))
    made = by_columns(dict(found.columns), flat, int(np.prod(node.out.shape)))
    np.testing.assert_allclose(made.reshape(node.out.shape), naive(node, values), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("turned", [False, True])
def test_heads_of_attention(turned: bool) -> None:
    """Batches of products, where batch and heads lie in memory as one."""
    node, tensors = attention(4, 1, 5, 7, 4, turned)
    try:
        found = chosen((node, tensors))
    except NotApplicable as why:
        assert "memory" in str(why)
        return
    check_sums((node, tensors), found)


def test_it_reads_no_windows_and_no_other_types() -> None:
    with pytest.raises(NotApplicable, match="window"):
        chosen(conv(Conv(2, 3, 4, 6, 6)))
    with pytest.raises(NotApplicable, match="another type"):
        chosen(dense(8, 16, 24), "cublaslt_stored")
    node, tensors = dense(8, 16, 24)
    stored = {n: replace(t, dtype="bf16") for n, t in tensors.items()}
    assert isinstance(chosen((node, stored), "cublaslt_stored"), Choice)
    odd, tensors = dense(8, 15, 24)
    stored = {n: replace(t, dtype="bf16") for n, t in tensors.items()}
    with pytest.raises(NotApplicable, match="multiples of 16 bytes"):
        chosen((odd, stored), "cublaslt_stored")


def test_its_workspace_keeps_to_the_option() -> None:
    node, tensors = dense(512, 1024, 512)
    found = product(node, {n: tensors[n] for n in node.ins}, 0, 4)
    match = cublaslt.STRATEGIES[0].match
    free, bound = match(found), match(replace(found, device=replace(found.device, workspace=10_000)))
    assert isinstance(free, Choice) and isinstance(bound, Choice)
    assert (free.scratch_bytes, 4 * free.workspace) == (cublaslt.ROOM[1] + 256, cublaslt.ROOM[1] + 256)
    assert (bound.scratch_bytes, dict(bound.columns)["s_room"]) == (9984, 9728)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """A backend that has found the library."""
    monkeypatch.setattr(Library, "found", lambda _: (Path("libcublasLt.so.13"), "13.0"))
    return CudaBackend(arch="sm_90")


def test_products_permit_it(here: CudaBackend) -> None:
    for products, many in (("exact", 0), ("float32", 2), ("tf32", 3), ("bf16", 4)):
        assert len(permitted(here.capabilities, Numerics(products=products)).strategies & cublaslt.KINDS.keys()) == many


def test_without_the_library_it_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "found", lambda _: None)
    assert not CudaBackend(arch="sm_90").capabilities.strategies & cublaslt.KINDS.keys()


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
def test_a_model_that_is_locked_to_it(here: CudaBackend) -> None:
    """Its epilogue is a kernel, and so is nothing else of it; no rule takes it."""
    model = load_model(MODELS / "mlp.yaml", {})
    plain = lower(model, here.capabilities, True)
    (node,) = (n for g in plain.tensors if g.phase == "train" for n in g.nodes if getattr(n, "out", None) is not None
               and n.out.name == "hidden_1.sum")  # fmt: skip
    tensors = {t.name: t for g in plain.tensors for n in g.nodes if (t := getattr(n, "out", None)) is not None}
    used = {n: tensors[n] for n in node.ins}
    found = ways(node, used, 0, 4, here.capabilities.strategies, here.capabilities.device)
    names = [identity(w) for w in found if w is not None and w.strategy == "cublaslt_float32"]
    assert names == [f"cublaslt_float32 s_tile={n}" for n in range(libraries.PROPOSALS)]
    assert found[0] is not None and not found[0].strategy.startswith("cublaslt")
    pin = Pin(problem_digest(node, used, 0, 4, Order.REPRODUCIBLE.value), names[1], "mlp.lock", 5.0)
    pinned = lower(model, here.capabilities, True, {"train/hidden_1.sum": pin})
    called = [
        t for t in pinned.merged.templates if isinstance(t.body, Contract) and t.body.strategy.startswith("cublas")
    ]
    (table,) = (pinned.merged.tables[t.index] for t in called)
    assert list(table.scalars["s_tile"]) == [1]
    assert len(table.arrays["workspace"]) == 1
    assert any("copy" in t.name for t in pinned.merged.templates)
    emitted = emit(pinned.merged)
    assert all("cublaslt" not in part.text.replace("cublaslt float32", "") for part in emitted.parts)
    assert compile_text(emitted, "mlp", False, "sm_90").binary.exists()
