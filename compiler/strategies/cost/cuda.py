"""cuda: the constants of the cost models of GPUs, measured on an H200.

Assumes: a device in numbers (compiler/ir/level2/target.py).
Guarantees: on another device times change with its clock and its arithmetic; numbers of blocks at once follow from its
processors, where the models use them. What a model estimates affects speed and the order of sums, not their accuracy.
Does not: choose.
"""

from __future__ import annotations

from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.cost.devices import H200

# ---------------------------------------------------------------------------- nests: maps and sums

MAP_THREADS, SUM_THREADS, POINT_THREADS = 2048, 1024, 128
"""Of a processor: points from which on a thread of a map, or of sums over few terms, takes several at a time, as there
are threads enough, and loads wait together; threads that keep it busy; points from which on a thread for each is better
than several that share the terms of a sum, or than a launch that saves them reading short rows one by one."""
POINT_BLOCKS, LONG_BLOCKS = 32, 8
"""Blocks from which on each takes more points, as reading a row costs as much as some points; where threads have eight
neighbours each, which they read and write as fast as memory can."""
EVENT_BLOCKS: Final = 4
"""Blocks that walk synapses at once: of 256 threads, half of the capacity."""
COLUMN_BLOCKS, WIDE_BLOCKS = 4, 2
"""Blocks that share the terms of columns of a matrix; so, where a thread has several points."""
LONG_SUM, COLUMN_TERMS, MOST_SHARES = 2048, 64, 64
"""Terms of a point from which on another block may share it; where points are columns; such blocks, at most."""
START_US: Final = 0.8
"""Of another kernel in a graph."""


def at_once(device: Target, each: int) -> int:
    """Threads, or blocks, of a device whose processors have `each` at most: a power of two, so that halves are even."""
    return 1 << (each * device.processors).bit_length() - 1


def worth_a_start(device: Target) -> int:
    """Reals to read, or write, which takes longer than to start another kernel: a power of two."""
    return 1 << int(START_US * (device.bandwidth or H200.bandwidth) * 1e3 / 4).bit_length()


# --------------------------------------------------------------------------------------- implicit_gemm

GEMM_RESIDENT: Final = 4
"""Blocks that a processor works on at once."""
GEMM_STEP_US, GEMM_TERMS_PER_US, GEMM_START_US = 1.1, 4.5e4, 1.5
"""Time of a step along K that waits for memory; products of one processor in 1 us; time of a block beside its steps."""
GEMM_JOIN_US: Final = 0.012
"""Time in which the last block adds one split."""
GEMM_MEASURED, GEMM_TEXT_US = 1.4, 4.0
"""What convolutions take, measured, beside their estimate; and what it has to be faster by, since its text takes
long to compile."""

# ---------------------------------------------------------------------------------------------- matmul

MATMUL_RESIDENT: Final = 3
"""Blocks that a processor works on at once."""
MATMUL_START_US: Final = 1.1
"""Of a launch that waits for another one."""
MATMUL_BLOCK_US: Final = (2.0, 2.7, 1.6)
"""Of a block beside its stages, by number of the tile; measured on an H200, as what follows, in a graph."""
MATMUL_WORK_US, MATMUL_WAIT_US = (0.27, 0.42, 0.20), (0.16, 0.30, 0.13)
"""Of a stage that a processor works on; and that blocks at once wait for."""
MATMUL_JOIN_US, MATMUL_TILE_US, MATMUL_SPLIT_US = 1.5, 0.6, 0.03
"""Joining splits; that of 1024 sums, and each of their splits."""


def crowded(share: float, many: int) -> float:
    """What the time of so many waves is multiplied by, of which the first one has the device for itself."""
    return 1 + share * (1 - 1 / many)


# ---------------------------------------------------------------------------- direct convolutions, in cycles

DIRECT_RESIDENT: Final = 3
"""Blocks that a processor works on at once."""
DIRECT_CLOCK: Final = 1700 / H200.clock
"""Of the highest clock, which a device holds while it convolves."""
DIRECT_STAGE, DIRECT_START = 1200.0, 2500.0
"""Cycles that one stage of copies waits, and that a block takes beside its sums."""
WEIGHTS_START, WEIGHTS_JOIN = 4000.0, 1500.0
"""Cycles that a block of the gradient of weights takes beside its stages, and that joining blocks takes."""
WEIGHTS_STEP: Final = 600.0
"""Of a stage, beside its instructions, measured on an H200 (layouts of LeNet-5's gradients at batch 64 and 1024)."""
WEIGHTS_CROWD: Final = 8000.0
"""What a gradient of weights that fills all processors costs the chain of gradients of inputs, which runs beside it and
needs room there, measured on an H100 (ResNet-20 at batch 32)."""

# ------------------------------------------------------------------------------ convolutions in groups

GROUPED_START_US: Final = 2.5
GROUPED_CYCLES_PER_US: Final = 1200.0
"""Cycles of a processor in which it issues an instruction for each of its lanes, in a microsecond."""
GROUPED_THREAD, GROUPED_LOAD = 100.0, 5.0
"""Instructions of a thread beside its loads and sums; of a load, with its guards."""
GROUPED_MOVED: Final = 0.28
"""Of the bandwidth of the memory, measured on an H200 (MobileNetV2's blocks in batches of 64)."""
GROUPED_RESIDENT, GROUPED_SHARE = 3, 4
"""Blocks of weights' gradients that a processor works on at once; points of a thread, at least, where blocks share a
sum."""
DEPTHWISE_PIXEL, DEPTHWISE_TAP, DEPTHWISE_READ = 50.0, 10.0, 15.0
"""Instructions of a thread for some channels of a pixel where channels come last, beside its taps, of a tap, and of one
that it reads of the image."""
DEPTHWISE_MOVED: Final = 0.5
"""As GROUPED_MOVED."""
DEPTHWISE_JOIN_US: Final = 6.0
"""Until the threads of a block, and blocks, have joined their sums of weights."""
GROUPED_JOIN_US: Final = 0.1
"""In which the threads of a block add up their sums of a tap."""

# ------------------------------------------------------------ convolutions on matrix units by warps, in cycles

TENSOR_CONV_PRODUCT, TENSOR_CONV_WAIT = 1.7, 8.0
"""Of a processor for an instruction, and until a warp can use its sum."""
TENSOR_CONV_STAGE, TENSOR_CONV_START = 1800.0, 2500.0
"""That a stage of copies waits, and that a block takes beside its stages."""
TENSOR_CONV_MEASURED: Final = 1.35
"""What blocks take, measured on an H100, beside their estimate."""
TENSOR_CONV_CROWDED, TENSOR_CONV_WEIGHTS_CROWDED = 0.25, 0.4
"""What float32 takes beside that (a share of it) in the long run, of many waves of blocks, and of many units of a sum a
block: measured on an H200 (3 x 3, 64 to 256 channels, 8,000 to 130,000 pixels)."""
TENSOR_CONV_STORED, TENSOR_CONV_WEIGHTS_STORED = 1.75, 2.0
"""Beside both, of operands that are bf16 in memory, measured on an H200 (3 x 3, 24 to 128 channels)."""
TENSOR_CONV_SECTOR, TENSOR_CONV_WRITTEN = 32, 0.55
"""Bytes that an access to memory moves at least, and the share of the bandwidth with which threads store elements that
are apart."""

# -------------------------------------------------------------------------------------- matrix units

UNITS_TIME: Final = {"tensor_cores_tf32": 0.55, "tensor_cores_tf32x3": 0.75, "tensor_cores_stored": 0.55}
"""Of implicit_gemm's, measured on an H200 (4096 x 4096 x 4096, and a convolution of 64 channels)."""
PRODUCTS_STEP_US: Final = {
    "tensor_products_bf16": (0.92, 1.31),
    "tensor_products_tf32": (1.08, 1.79),
    "tensor_products_float32": (1.68,),
}
"""Microseconds of a step by number of the tile, measured on an H200 (4096 x 4096 x 4096). A kind has these tiles: sums
of float32 need two accumulators."""
PRODUCTS_START_US: Final = 8.0
"""Of a tile of 128 columns, beside its steps: first loads, and the epilogue."""
PRODUCTS_JOIN_US: Final = 6.0
"""What blocks that share such a tile take to leave their sums, wait, and join their lines of it."""
PRODUCTS_GAIN: Final = 0.6
"""What implicit_gemm's estimate is multiplied by, as other strategies are faster."""

STORED_STEP_US: Final = (0.31, 0.50, 0.80)
"""Microseconds of a stage of stored_products by shape of the tile, of a block that has a processor for itself; from a
prototype's 560 and 700 TFLOP/s."""
STORED_TURNED_US: Final = (0.41, 0.58, 1.05)
"""As STORED_STEP_US, where an operand of tf32 is turned in shared memory."""
STORED_START_US: Final = (2.5, 3.0, 5.0)
"""Of a block beside its stages: first loads, and the epilogue."""
STORED_CONV_STEP_US: Final = (0.45, 0.65, 1.0)
STORED_CONV_START_US: Final = (6.5, 8.0, 10.5)
"""As those two, where the engine gathers pixels, measured on an H200 (24 to 128 channels)."""
STORED_JOIN_US: Final = (5.0, 10.0, 20.0)
"""What blocks that share a tile take to leave their sums, wait, and join their lines of it."""

SPLIT_STEP_US: Final = 1.13
"""Microseconds of a stage of split_products, measured on an H100, as what follows."""
SPLIT_START_US, SPLIT_JOIN_US = 7.0, 8.0
"""As STORED_START_US, STORED_JOIN_US."""
SPLIT_RATE, SPLIT_LAUNCH_US = 2.6e6, 2.0
"""Bytes that are read and written in a microsecond where factors are split, most of which the second cache holds; what
that takes as a launch of its own."""

SPLIT_CONV_RATE: Final = 2.6e6
"""As SPLIT_RATE, of split_conv."""
SPLIT_CONV_STEP_US: Final = (1.2, 0.8)
"""As SPLIT_STEP_US, of split_conv, by number of the tile, of a block among those that a processor holds."""
SPLIT_CONV_ALONE_US: Final = ((1.2, 0.85), (1.2, 1.4))
"""Of one that has a processor for itself: where pixels are rows, and where they are terms."""
SPLIT_CONV_START_US: Final = (8.0, 6.0)
"""Of the blocks that a processor holds beside their stages."""

# ------------------------------------------------------------------------- convolutions by Fourier transforms

FFT_RATE: Final = {16: 3.2e6, 32: 2.8e6, 64: 1.8e6}
"""Bytes that transforms read and write in a microsecond, by the points of a tile."""
FFT_BANDWIDTH: Final = 4e6
"""Bytes that products do."""
FFT_OPERATIONS: Final = 9e7
"""Operations on reals of products in a microsecond."""
FFT_TILE_US: Final = 3.8e-3
"""A tile of 32 x 32 points that is transformed, and summed with few others."""
FFT_BLOCKS: Final = 2
"""Blocks of products, or of sums of few, that a processor works on."""
FFT_START_US: Final = 5.0
"""Of a launch, and what it has to be faster by, since its text takes long to compile."""

# ------------------------------------------------------------------------------------ packed windows

PACK_PER_US: Final = 5e5
"""Elements of a packed image that are made in a microsecond."""

# ------------------------------------------------------------------------------------------- attention

ATTENTION_TILE_US: Final = (9.0, 15.0, 25.0)
"""Of a processor for 64 queries of 64 features and 64 keys, forward and backward, by factors; measured on an
H100, as what follows."""
ATTENTION_START_US: Final = 10.0
"""Of its three kernels: first loads, and what they store."""
ATTENTION_PASSES, ATTENTION_LAUNCHES = 100, 12
"""Without fused_attention: as how often scores were read or written, products included; and kernels."""

# ------------------------------------------------------------------------------- recurrent layers as chains

LAUNCH_US: Final = 3.0
"""A launch that waits for another one."""
LAUNCH_TERMS: Final = 7e4
"""Terms that a processor adds up in a microsecond in a launch."""
CHAIN_STAGE_US, CHAIN_LINK_US, CHAIN_SAMPLE_US, CHAIN_TILE_US = 0.5, 0.08, 0.2, 0.2
"""Of a chain whose values stay on chip: a stage, each of its links, each of its samples, and each further tile of
these; measured on an H200 as what follows (rnn, lstm and gru of 64 to 256 units)."""
CHAIN_CLUSTER_US: Final = 0.15
"""Until what blocks of a cluster give to each other has come."""
CHAIN_CLUSTER_MARGIN: Final = 1.05
"""What the estimate of clusters is multiplied by where it is compared with that of other ways."""
CHAIN_KEPT_US: Final = 9e-6
"""Of an element of a matrix in registers and a sample."""
CHAIN_READ_US, CHAIN_TERM_US = 1.7e-5, 1.9e-5
"""Of an element of a matrix in shared memory and a tile of samples; and a sample."""
SPREAD_BARRIER_US: Final = 3.6
"""Of a stage of a chain that is spread over blocks: until their barrier is passed and first values are there, and its
points; measured on an H200, as what follows (lstm of 256 and gru of 512 units)."""
SPREAD_BYTES, SPREAD_TERMS = 4.7e4, 1.0e5
"""Bytes of values that a block reads, which another one has just written, and terms that it adds up, in a
microsecond."""
SPREAD_GIVEN_US: Final = 2.0
"""Until sums of panels that are divided among blocks are where their points are."""
SPREAD_STEP_US, SPREAD_TILE_US = 0.35, 0.021
"""Of a warp that has matrix units multiply 16 terms: beside its tiles; each tile and pass."""
SPREAD_UNITS_GAIN: Final = 0.75
"""Matrix units make the sums of a chain where they take less than this part of what threads take, by estimate."""


def waits(device: Target) -> float:
    """What times of waiting, measured on an H200, are multiplied by."""
    return H200.clock / device.clock


def direct_us(cycles: float, device: Target) -> float:
    """Microseconds of so many cycles of a convolution."""
    return cycles / (DIRECT_CLOCK * device.clock)


def moves(device: Target) -> float:
    """What times of reading and writing memory are multiplied by."""
    return H200.bandwidth / device.bandwidth if device.bandwidth else 1.0


def works(device: Target) -> float:
    """What a processor's times of arithmetic are multiplied by."""
    return H200.clock * H200.lanes / (device.clock * device.lanes)
