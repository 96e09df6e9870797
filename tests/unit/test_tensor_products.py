"""Products on matrix units up to the machine code, without a GPU: which are taken, their tiling, and what they are
compiled for."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product as product_of

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import Emitted, emit
from backends.cuda.kernels.contract import SPLIT_FACTORS, TENSOR_BLOCK
from backends.cuda.kernels.launch_geometry import calls_of
from backends.protocol import BackendError
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.choice import NotApplicable, product
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import tensor_products
from compiler.strategies.cuda.split import split_products
from compiler.strategies.cuda.stored_products import Product
from compiler.strategies.cuda.tensor_products import (
    BF16,
    COLUMNS,
    DEEP,
    FLOAT32,
    KINDS,
    ROWS,
    STRATEGIES,
    TF32,
    tilings,
)
from tests.cpu.contractions import Conv, conv, dense, gradient, program
from tests.gpu.tensor_cases import by_force, heads, joined_heads, transposed
from tests.unit.test_implicit_gemm import work

ALL = frozenset({"matmul", "implicit_gemm", "direct_conv", "direct_conv_weights", *KINDS})
SPLIT = split_products.NAME


def texts(kind: str) -> Emitted:
    """All transposes, batches, several dims that are summed over, both sides of the output, and tiles and splits."""
    problems = [transposed(300, 260, 2048, r, c) for r in (False, True) for c in (False, True)]
    problems += [heads(2, 3, 130, 132, 64, True), joined_heads(2, 3, 70, 140, 36)] if kind != SPLIT else []
    return emit(merge(program([c for p in problems for c in by_force(p, kind)], DType.F32, True)))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(("kind", "arch"), [*product_of(sorted(KINDS), ("sm_80", "sm_90", "sm_100")), (SPLIT, "sm_90")])
def test_products_compile(kind: str, arch: str) -> None:
    """By warpgroups for sm_90, in code of its own features; its PTX is for all later architectures. A unit for each way
    in which operands lie."""
    emitted = texts(kind)
    units = {p.name for p in emitted.parts if p.tensor}
    assert kind == SPLIT or units == {kind + lie for lie in ("", "_columns", "_rows", "_both")}
    for binary in compile_text(emitted, "tensors", False, arch).beside[-len(units) :]:
        ptx = binary.with_suffix(".ptx").read_text(encoding="utf-8")
        assert re.search(rf"\.target {arch}\b", ptx) and "wgmma" not in ptx
        assert kind == SPLIT or "mma.sync.aligned" in ptx
        assert binary.read_bytes().startswith(b"\x7fELF")


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
def test_older_units_are_refused() -> None:
    with pytest.raises(BackendError, match="matrix units") as e:
        compile_text(texts(FLOAT32), "tensors", False, "sm_75")
    assert e.value.code == "E0922" and "exact" in e.value.help


def chosen(problem: tuple, available: frozenset[str] = ALL) -> str:  # type: ignore[type-arg]
    choice, reason = choose(*problem, 0, 4, available)
    assert choice is not None, reason
    return choice.strategy


def test_large_products_take_them() -> None:
    """The fastest kind that there is; all three products of a dense layer; attention."""
    forward = dense(4096, 512, 2048)
    for p in (forward, gradient(*forward, 0), gradient(*forward, 1), heads(32, 8, 128, 128, 64, False)):
        assert chosen(p) == BF16
        assert chosen(p, ALL - {BF16}) == TF32
        assert chosen(p, ALL - {BF16, TF32}) == FLOAT32
        assert chosen(p, ALL - KINDS.keys()) in ("matmul", "implicit_gemm")


def test_factors_are_split_where_there_is_much_to_sum() -> None:
    forward = dense(4096, 512, 2048)
    for p in (forward, gradient(*forward, 0), gradient(*forward, 1)):
        assert chosen(p, ALL - {BF16, TF32} | {SPLIT}) == SPLIT
        assert chosen(p, ALL | {SPLIT}) == BF16
    for p in (dense(4096, 2048, 64), dense(4096, 128, 2048), dense(4096, 2049, 512)):
        assert chosen(p, ALL - {BF16, TF32} | {SPLIT}) != SPLIT
    other = replace(H200, architecture="sm_100")
    with pytest.raises(NotApplicable, match="by warpgroups"):
        split_products.STRATEGY.match(product(*forward, 0, 4, other))


def test_every_block_of_both_factors_is_split() -> None:
    """Before the product, in blocks that fill tiles."""
    cases = [c for s in ((300, 260, 2048), (128, 520, 512)) for c in by_force(transposed(*s, False, True), SPLIT)]
    for w in work(merge(program(cases, DType.F32, True))):
        factors, sums = calls_of(w)
        assert (factors.function, sums.function) == (SPLIT_FACTORS, f"{SPLIT}_columns")
        assert factors.jobs is not None and sums.jobs is not None and sums.shared == split_products.shared_bytes()
        for number, case in enumerate(cases):
            (m, n), k = case.node.out.shape, dict(case.node.dims)["k"]
            tall, wide, deep = (-(-x // split_products.SIZE) for x in (m, n, k))
            assert np.sum(factors.jobs[:, 0] == number) == 4 * deep * (tall + wide)
            columns = dict(case.choice.columns) if case.choice else {}
            assert np.sum(sums.jobs[:, 0] == number) == tall * wide * columns["s_splits"]
            workspace = case.choice.workspace if case.choice else 0
            assert workspace == (4 * deep * (tall + wide)) * (split_products.BLOCK**2 + 1)


def test_others_do_not() -> None:
    assert chosen(dense(64, 784, 128)) == "matmul"
    assert chosen(dense(8192, 32, 8192), ALL - {BF16, TF32}) == "matmul"
    assert chosen(conv(Conv(128, 64, 128, 64, 64, (9, 9)))) not in KINDS
    found = product(*dense(4096, 4096, 4096), 0, 4)
    (own,) = (s for s in STRATEGIES if s.name == FLOAT32)
    assert own.choice(found) is not None and own.choice(replace(found, real_bytes=8)) is None


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("k", [64, 100, 4096, 50_176])
def test_splits_cover_k(kind: str, k: int) -> None:
    for t in (*tilings(kind, 1, 300, 512, k), *split_products.tilings(Product((1, 300, 512, k), (False, False)))):
        assert t.depth % DEEP == 0 and (t.splits - 1) * t.depth < k <= t.splits * t.depth


def test_every_tile_and_split_has_a_block_and_memory() -> None:
    cases = [c for s in ((300, 260, 2048), (128, 4096, 512)) for c in by_force(transposed(*s, False, True), TF32)]
    merged = merge(program(cases, DType.F32, True))
    for w in work(merged):
        (call,) = calls_of(w)
        assert call.block == TENSOR_BLOCK and call.jobs is not None
        blocks = np.bincount(call.jobs[:, 0], minlength=len(cases))
        for number, case in enumerate(cases):
            m, n = case.node.out.shape
            columns = dict(case.choice.columns) if case.choice else {}
            wide = COLUMNS[columns["s_tile"]]
            assert blocks[number] == -(-m // ROWS) * -(-n // wide) * columns["s_splits"]
            assert call.shared >= tensor_products.shared_bytes(TF32, [columns["s_tile"]]) > 4 * ROWS * wide
