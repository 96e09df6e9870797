"""The numbers of a device: read, assumed, and used by the cost models."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backends.cuda.kernels.launch_geometry import group_size
from backends.cuda.run.backend import CudaBackend
from backends.processor import processor
from backends.registry import backend
from compiler.ir.level2.target import Target
from compiler.strategies import choose
from compiler.strategies.cost.cpu import within
from compiler.strategies.cost.cuda import direct_us, worth_a_start
from compiler.strategies.cost.devices import CORE, GPUS, H200, MEASURED_CORE, gpu
from compiler.strategies.cuda import implicit_gemm, matmul, tensor_conv
from tests.cpu.contractions import dense

INFO = """processor\t: 0
model name\t: A processor
cpu MHz\t\t: 3141.500
flags\t\t: fpu sse2 avx2 fma

processor\t: 1
model name\t: Another one
"""


def tree(root: Path, info: str, caches: tuple[tuple[int, str, str], ...] = (), most: str = "") -> Path:
    """A /proc and /sys: the text of cpuinfo, (level, type, size) of caches, the largest clock in kHz."""
    core = root / "sys/devices/system/cpu/cpu0"
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(info)
    for number, (level, kind, size) in enumerate(caches):
        folder = core / "cache" / f"index{number}"
        folder.mkdir(parents=True)
        for name, value in (("level", str(level)), ("type", kind), ("size", size)):
            (folder / name).write_text(value + "\n")
    if most:
        (core / "cpufreq").mkdir(parents=True)
        (core / "cpufreq/cpuinfo_max_freq").write_text(most + "\n")
    return root


def test_a_processor_is_read_from_its_files(tmp_path: Path) -> None:
    caches = ((1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2048K"), (3, "Unified", "260M"))
    found = processor(tree(tmp_path, INFO, caches, "4100000"))
    assert (found.name, found.clock, found.vector, found.lanes) == ("A processor", 4100, 32, 16)
    assert found.caches == (48 << 10, 2 << 20, 260 << 20)
    assert found.gflops == pytest.approx(2 * 4.1 * 16)


@pytest.mark.parametrize("family, lanes", [("25", 16), ("26", 32)])
def test_a_processor_that_works_on_vectors_in_halves_has_half_the_lanes(
    tmp_path: Path, family: str, lanes: int
) -> None:
    info = INFO.replace("fma", "fma avx512f").replace(
        "model", f"vendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel"
    )
    assert processor(tree(tmp_path, info)).lanes == lanes


def test_the_clock_of_the_moment_is_taken_in_steps_and_only_where_no_other_is_stated(tmp_path: Path) -> None:
    (first := tmp_path / "1").mkdir()
    (second := tmp_path / "2").mkdir()
    assert processor(tree(first, INFO)).clock == 3100
    assert processor(tree(second, INFO.replace("A processor", "CPU @ 2.70GHz"))).clock == 2700


@pytest.mark.parametrize("info", ["", "model name\n", "cpu MHz : fast\nflags : \n"])
def test_a_processor_that_says_nothing_is_the_one_assumed(tmp_path: Path, info: str) -> None:
    found = processor(tree(tmp_path, info))
    assert (found.clock, found.vector, found.caches, found.lanes) == (CORE.clock, 64, CORE.caches, CORE.lanes)
    assert found.name


def test_a_device_is_assumed_for_every_architecture() -> None:
    assert [gpu(g.architecture) for g in GPUS] == list(GPUS)
    assert gpu("sm_103a") is gpu("sm_100")
    assert gpu("sm_60") is GPUS[0]
    assert gpu("sm_90") is H200
    assert CudaBackend(arch="sm_80").capabilities.device.processors == 108
    assert backend("cuda", arch="sm_89").capabilities.device.shared_block == 99 << 10


def blocks_of(device: Target) -> int:
    """Blocks that compute a product: its tiles, and the splits of each."""
    node, tensors = dense(64, 4096, 64)
    choice, _ = choose(node, tensors, 0, 4, frozenset({matmul.NAME}), device)
    assert choice is not None and choice.strategy == matmul.NAME
    columns = dict(choice.columns)
    return matmul.tiles(columns["s_tile"], 64, 64) * columns["s_splits"]


def test_work_is_split_among_the_processors_that_there_are() -> None:
    """A long product of few tiles: more processors take more parts of it."""
    few, many = (Target(processors=n, clock=H200.clock, lanes=H200.lanes) for n in (4, 132))
    assert blocks_of(H200) == blocks_of(many)
    assert 4 <= blocks_of(few) < blocks_of(many) <= 132
    assert implicit_gemm.tiling(1, 64, 64, 4096, few).splits < implicit_gemm.tiling(1, 64, 64, 4096).splits
    half = Target(processors=132, clock=H200.clock // 2, lanes=H200.lanes)
    assert (
        implicit_gemm.tiling(1, 64, 64, 4096, half).microseconds
        > 1.5 * implicit_gemm.tiling(1, 64, 64, 4096).microseconds
    )


def test_threads_share_a_sum_where_a_device_has_as_many() -> None:
    few = replace(H200, processors=16)
    assert [group_size(8, 1 << 15, device=x) for x in (H200, few)] == [16 * 256, 8 * 256]
    assert [group_size(4096, 1 << 15, device=x) for x in (H200, few)] == [32, 1]


def test_what_is_read_once_more_follows_from_the_bandwidth() -> None:
    assert [worth_a_start(gpu(x)) for x in ("sm_90", "sm_80", "sm_75")] == [1 << 20, 1 << 19, 1 << 16]


def test_smaller_caches_hold_less() -> None:
    small = replace(CORE, caches=(32 << 10, 256 << 10, 8 << 20))
    assert [within(x, CORE) for x in (48_000, 500_000, 32_000_000)] == [48_000, 500_000, 32_000_000]
    assert [within(x, small) for x in (48_000, 500_000, 32_000_000)] == [32_000, 125_000, 8_000_000]
    node, tensors = dense(1024, 1024, 1024)
    found = [choose(node, tensors, 0, 4, frozenset({"rows_product"}), x)[0] for x in (CORE, small)]
    assert [dict(x.columns)["s_wide"] for x in found if x is not None] == [1024, 480]


def test_shared_memory_of_a_block_follows_from_the_device() -> None:
    """What a block may have, less what lies beside its buffers; a processor holds fewer where the device keeps more."""
    assert tensor_conv.room(H200) == 224 << 10
    assert tensor_conv.room(gpu("sm_89")) == (99 << 10) - tensor_conv.BESIDE_BYTES
    half = H200.shared_processor // 2
    assert tensor_conv.resident(half, replace(H200, shared_kept=0)) == 2
    assert tensor_conv.resident(half, H200) == 1
    assert [g.shared_kept for g in (gpu("sm_75"), gpu("sm_80"), H200)] == [0, 1024, 1024]


def test_cycles_take_as_long_as_the_clock_says() -> None:
    slow = replace(H200, clock=H200.clock // 2)
    assert direct_us(1700, H200) == pytest.approx(1)
    assert direct_us(1700, slow) == pytest.approx(2)


ROOT = Path(__file__).resolve().parents[2] / "compiler"
SOURCES = sorted(
    p for part in ("passes", "strategies", "layout") for p in (ROOT / part).rglob("*.py") if "cost" not in p.parts
)


def numbers_in(text: str) -> Iterator[tuple[int, float]]:
    """Literals, and products and shifts of them, with their lines."""
    ops = {ast.Mult: operator.mul, ast.LShift: operator.lshift, ast.Pow: operator.pow}

    def value(x: ast.AST) -> float | None:
        if isinstance(x, ast.Constant) and isinstance(x.value, int | float) and not isinstance(x.value, bool):
            return x.value
        if isinstance(x, ast.BinOp) and type(x.op) in ops:
            left, right = value(x.left), value(x.right)
            return None if left is None or right is None else float(ops[type(x.op)](left, right))
        return None

    return ((x.lineno, n) for x in ast.walk(ast.parse(text)) if isinstance(x, ast.expr) and (n := value(x)) is not None)


def of_a_device(number: float) -> str:
    """Which number of a device it is: one that no other thing is likely to be."""
    for device in (*GPUS, CORE, MEASURED_CORE):
        shared = device.shared_block, device.shared_processor
        if any(0.97 * x <= number <= x for x in shared if x) or number in (device.clock, device.bandwidth):
            return device.name
    return ""


def test_passes_and_strategies_have_no_numbers_of_devices() -> None:
    """Shared memory, clocks and bandwidths stand in Target, or in the cost models. Powers of two may be anything."""
    found = []
    for path in SOURCES:
        for line, number in numbers_in(path.read_text(encoding="utf-8")):
            if number > 1024 and (number % 1 or int(number) & int(number) - 1) and (name := of_a_device(number)):
                found.append(f"{path.relative_to(ROOT)}:{line}: {number} is of {name}")
    assert len(SOURCES) > 100
    assert found == []
    assert [of_a_device(n) != "" for n in (224 * 1024, 227 << 10, 1980, 4800.0, 40960)] == [True] * 4 + [False]
