"""implicit_gemm up to the machine code, without a GPU: supported contractions, and their tiling."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.launch_geometry import calls_of
from backends.cuda.kernels.launch_work import Work
from backends.cuda.run.backend import CudaBackend
from compiler.ir.level0.model import Numerics
from compiler.ir.level2.program import Launch, Merged
from compiler.ir.space import DType
from compiler.layout.plan_memory import place
from compiler.layout.write_tables import write_tables
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import stored_products, tensor_products
from compiler.strategies.cuda.implicit_gemm import TILES, sides, tiling
from compiler.strategies.cuda.split import split_products
from compiler.strategies.cuda.tensor_cores import PASSES, STORED, TF32, TF32X3
from compiler.strategies.permissions import permitted
from tests.cpu.contractions import Case, Conv, conv, dense, gradient, program
from tests.cpu.programs import expr
from tests.gpu.products import STRATEGY, chosen, conv_cases, dense_cases, epilogue_cases, outer


def three(forward: tuple) -> list[Case]:  # type: ignore[type-arg]
    return [chosen(p, DType.F32) for p in (forward, gradient(*forward, 0), gradient(*forward, 1))]


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(
    ("cases_of", "real"), [(dense_cases, DType.F32), (conv_cases, DType.F32), (epilogue_cases, DType.F64)]
)
def test_products_compile(cases_of: Callable[[DType], list[Case]], real: DType) -> None:
    merged = merge(program(cases_of(real), real, True))
    assert compile_text(emit(merged), "products", False, "sm_90").binary.read_bytes().startswith(b"\x7fELF")


def test_the_text_does_not_depend_on_sizes() -> None:
    def text(*sizes: Conv) -> str:
        cases = [case for c in sizes for case in three(conv(c))]
        return CudaBackend().emit(merge(program(cases, DType.F32, True)))

    small = Conv(8, 1, 3, 9, 9, pad=1)
    assert text(small) == text(small, Conv(64, 16, 32, 20, 28, pad=1), Conv(3, 32, 5, 4, 4, (5, 5), pad=2))


def test_products_share_kernels() -> None:
    """One for each kind of guards, however many templates there are; its name says what is literal in it."""
    merged = merge(program(conv_cases(DType.F32), DType.F32, True))
    text = CudaBackend().emit(merged)
    kernels = re.findall(r"__global__ .* (implicit_gemm\w+)\(", text)
    assert set(kernels) > {"implicit_gemm_plain_plain", "implicit_gemm_guarded_2_plain"}
    called = {c.function for w in work(merged) for c in calls_of(w)}
    assert called == set(kernels) and len(kernels) == len(called) < len(merged.templates)
    assert all(f"case {t.index}:" in text for t in merged.templates)


def test_sides_of_a_convolution() -> None:
    """The pixels (and, for the weights, the taps) are M; groups are a batch of products."""

    def found(case: Case) -> tuple[tuple[str, ...], ...]:
        node = case.node
        out = tuple(a.terms[0][0] for a in node.out_map)
        used = [frozenset(d for a in m for d, _ in a.terms) for m in node.in_maps]
        s = sides(out, tuple(d for d, _ in node.dims if d not in out), (used[0], used[1]))
        assert s is not None
        return s.batch, s.m, s.n, s.k

    forward, image, weights = three(conv(Conv(4, 6, 9, 6, 6, groups=3)))
    assert found(forward) == (("g",), ("n", "oh", "ow"), ("k",), ("c", "r", "s"))
    assert found(image)[1:3] == (("n", "i3", "i4"), ("c",))
    assert found(weights)[1:] == (("c", "r", "s"), ("k",), ("n", "oh", "ow"))


@pytest.mark.parametrize("m", [1, 100, 50_176, 10_000_000])
@pytest.mark.parametrize("n", [1, 16, 150, 4096])
@pytest.mark.parametrize("k", [1, 25, 400, 50_176])
def test_splits_cover_k(m: int, n: int, k: int) -> None:
    t = tiling(1, m, n, k)
    assert t.depth % TILES[t.tile].k == 0
    assert (t.splits - 1) * t.depth < k <= t.splits * t.depth


def test_gradients_of_weights_are_split() -> None:
    """16 x 150 sums over 6400 pixels keep most of a GPU busy."""
    t = tiling(1, 150, 16, 6400)
    assert t.splits * -(-150 // TILES[t.tile].m) * -(-16 // TILES[t.tile].n) > H200.processors // 2


def work(merged: Merged) -> list[Work]:
    tables = write_tables(merged, place(merged, {}), 1, {})
    return [
        Work(t, k, rows, table, Launch(t.index, 0, rows.count), lambda name: 1, 8)
        for t, k, rows, table in zip(merged.templates, emit(merged).kernels, merged.tables, tables, strict=True)
    ]


def test_every_tile_and_split_has_a_block_and_memory() -> None:
    merged = merge(program(dense_cases(DType.F32), DType.F32, True))
    for w in work(merged):
        calls = calls_of(w)
        rows = w.launch.hi
        blocks = np.zeros(rows, np.int64)
        for call in calls:
            jobs = call.jobs if call.jobs is not None else np.array([(0, i, call.grid, 0) for i in range(call.grid)])
            assert call.group == w.template.index
            for row in np.unique(jobs[:, 0]):
                mine = jobs[jobs[:, 0] == row]
                assert sorted(mine[:, 1]) == list(range(int(mine[0, 2])))
                number = int(row) + call.row
                tile = TILES[int(w.column("s_tile")[number])]
                blocks[number] += len(mine)
                splits = int(w.column("s_splits")[number])
                if splits > 1:
                    assert call.places is not None
                    begin = int(call.places[int(row)])
                    end = begin + len(mine) // splits + len(mine) * tile.m * tile.n
                    assert 2 * len(call.places) <= begin and 4 * end <= call.memory
        assert (blocks > 0).all()


def test_a_target_without_lanes_takes_no_other_strategy() -> None:
    node, tensors = dense(16, 4, 4)
    for body, combine in (("x0 + x1", "add"), ("x0 * x1", "max"), ("x0 * exp(x1)", "add")):
        choice, _ = choose(replace(node, body=expr(body), combine=combine), tensors, 0, 4, STRATEGY)
        assert choice is None
    assert choose(node, tensors, 16, 4, STRATEGY)[0] is None
    assert choose(*outer(), 0, 4, STRATEGY)[0] is None
    choice, _ = choose(node, tensors, 0, 4, STRATEGY)
    assert choice is not None and choice.strategy == "implicit_gemm"


FLOAT32 = (tensor_products.FLOAT32, split_products.NAME)


@pytest.mark.parametrize(
    ("products", "found"),
    [
        ("exact", set()),
        ("float32", {*FLOAT32}),
        ("tf32x3", {TF32X3, *FLOAT32}),
        ("tf32", {TF32, TF32X3, tensor_products.TF32, *FLOAT32, stored_products.TF32}),
        ("bf16", {TF32, TF32X3, *tensor_products.KINDS, *FLOAT32, stored_products.TF32}),
    ],
)
def test_rounded_factors_must_be_permitted(products: str, found: set[str]) -> None:
    """The model says how exact products must be; float64 has no such units."""
    capabilities = permitted(CudaBackend().capabilities, Numerics(products=products))
    inexact = (PASSES.keys() - {STORED}) | tensor_products.KINDS.keys() | {*FLOAT32, stored_products.TF32}
    assert capabilities.strategies & inexact == found
    large = dense(4096, 1024, 1024)
    choice, _ = choose(*large, 0, 4, capabilities.strategies)
    assert choice is not None and (choice.strategy in inexact) == bool(found)
    choice, _ = choose(*large, 0, 8, capabilities.strategies)
    assert choice is not None and choice.strategy not in inexact


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("name", sorted(PASSES.keys() - {STORED}))
def test_tensor_cores_compile(name: str) -> None:
    merged = merge(program(conv_cases(DType.F32, frozenset({name})), DType.F32, True))
    text = emit(merged)
    assert f"nl_implicit_gemm<{PASSES[name]}, " in text.text
    assert compile_text(text, "tensor_cores", False, "sm_80").binary.read_bytes().startswith(b"\x7fELF")
