"""Products of matrices that are bf16 in memory, up to the machine code, without a GPU: which are taken, what the tensor
copy engine is told, and what they are compiled for."""

from __future__ import annotations

import re

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.contract import HELD, WIDE, stored_block, strategies
from backends.cuda.kernels.launch_geometry import calls_of
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cuda.stored_products import COLUMNS, NAME, ROWS, TF32, joined, matrix_of
from tests.cpu.contractions import dense, gradient, program
from tests.gpu.stored_conv_cases import NARROW, STRIDED, by_force, directions
from tests.gpu.tensor_cases import heads, in_bf16, stored_by_force, transposed
from tests.unit.test_implicit_gemm import work

ALL = strategies()


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_they_compile(arch: str) -> None:
    """By the tensor copy engine and warpgroups for sm_90, by warps elsewhere and in its PTX."""
    problems = [transposed(136, 264, 136, r, c) for r in (False, True) for c in (False, True)]
    cases = [c for p in problems for c in stored_by_force(in_bf16(p))]
    cases += [c for p in problems for c in stored_by_force(p, None, TF32)]
    cases += [c for p in directions([*STRIDED, *NARROW]) for c in by_force(p)]
    text = emit(merge(program(cases, DType.F32, True)))
    beside = compile_text(text, "stored", False, arch).beside
    assert len(beside) > 2
    for binary in beside:
        ptx = binary.with_suffix(".ptx").read_text(encoding="utf-8")
        assert re.search(rf"\.target {arch}\b", ptx) and "mma.sync.aligned" in ptx and "wgmma" not in ptx
        assert binary.read_bytes().startswith(b"\x7fELF")


def chosen(problem: tuple) -> str:  # type: ignore[type-arg]
    choice, reason = choose(*problem, 0, 4, ALL)
    assert choice is not None, reason
    return choice.strategy


def test_products_of_bf16_arrays_take_them() -> None:
    """All three products of a dense layer, and attention; not where an operand is float32, or not aligned."""
    forward = dense(4096, 512, 2048)
    for p in (forward, gradient(*forward, 0), gradient(*forward, 1), heads(32, 8, 128, 128, 64, False)):
        assert chosen(in_bf16(p)) == NAME
        assert chosen(p) != NAME
    assert chosen(in_bf16(dense(4096, 511, 2048))) == "tensor_cores_stored"


def test_dims_that_lie_together_are_one() -> None:
    assert joined([(4, 60), (5, 12), (12, 1)]) == (240, 1)
    assert joined([(4, 60), (1, 7), (60, 1)]) == (240, 1)
    assert joined([(4, 64), (5, 12)]) is None
    assert matrix_of([(2, 96)], [(4, 24)], [(24, 1)], 2) is not None
    assert matrix_of([(2, 96)], [(4, 20)], [(20, 1)], 2) is None  # 40 bytes from line to line
    assert matrix_of([(2, 96)], [(4, 20)], [(20, 1)], 4) is not None
    assert matrix_of([(2, 1)] * 4, [(4, 24)], [(24, 1)], 2) is None  # too many axes


def test_the_copy_engine_is_told_of_heads_side_by_side() -> None:
    """q[b, i, h, k] and k[b, j, h, k], of 2 x 3 heads: extents and strides of (k, i, h, b, 1) in bytes."""
    case = next(stored_by_force(in_bf16(heads(2, 3, 128, 64, 128, False))))
    (only,) = work(merge(program([case], DType.F32, True)))
    (call,) = calls_of(only)
    first, second = call.maps
    assert first.extents == (128, 128, 3, 2, 1) and first.strides[:3] == (768, 256, 98304)
    assert second.extents == (128, 64, 3, 2, 1) and second.strides[:3] == (768, 256, 49152)
    assert call.block == stored_block("") and first.box[:2] == (64, 128)


def test_operands_in_tf32_that_lie_across_come_from_registers() -> None:
    """128 of their rows are those of the instruction: where the column operand lies across, tiles are 128 wide."""
    for rows, columns in ((False, True), (True, False), (True, True)):
        case = next(stored_by_force(transposed(264, 520, 136, rows, columns), None, TF32))
        (only,) = work(merge(program([case], DType.F32, True)))
        (call,) = calls_of(only)
        assert call.function.endswith(HELD) and call.block == stored_block(HELD) > stored_block(WIDE)
        assert case.choice is not None
        wide = COLUMNS[dict(case.choice.columns)["s_tile"] // 4]
        sides = (wide, ROWS) if (rows, columns) == (False, True) else (ROWS, wide)
        boxes = [(32, 32) if across else (32, side) for across, side in zip((rows, columns), sides, strict=True)]
        assert [m.box[:2] for m in call.maps] == boxes
