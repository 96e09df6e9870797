"""cores: the constants of the cost models that differ by how many multiply-adds of a vector a core starts in a
cycle, in vector operations.

Assumes: cores with AVX-512. Where sums take half as long, what is beside them takes the same.
Guarantees: `core` has the numbers of one that was measured for every device.
Does not: read a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.ir.level2.target import Target


@dataclass(frozen=True)
class Core:
    """copy: copying a vector of an image with its border; line, steps, pixel: a line of it beside its vectors, one of
    pixels in steps, and each of these where they are copied one by one. pack: packing a vector of what a window sees;
    end, end_line: a vector of results of an output, and those of a strip of pixels beside their vectors; apart:
    storing a pixel whose neighbours belong to other classes. dot, dot_end, dot_pack: a vector of terms of a pixel
    that is computed alone, what follows its sum, and packing a term of it. whole, pair, single, narrow: operations a
    cycle, relative, of register tiles of 8 outputs by 3, 2 and 1 vectors, and of 4 by 2. panel_sum, panel_low,
    panel_narrow: a vector of a sum in packed panels; how much longer one takes in tiles of 4, 8 and 12 rows, and of
    one vector. panel_end, panel_back: the epilogue of a vector, and its transposition; panel_tile: a tile beside its
    sums; panel_pack, panel_turn, panel_gather, panel_far_gather: packing a vector of neighbours, of neighbouring
    terms, of neither, and of neither from beyond the second cache; panel_run: a run of neighbouring results of a line
    of sums; panel_packed: columns of a strip beyond which rows are packed whose terms are neighbours. start,
    start_each: a register tile beside its sums, and each of its accumulators. tile_wait, tile_far: of a vector of a
    register tile that comes from the second cache, what sums take at least, and what they take more; tile_rows: the
    share that counts of what tiles sum beside the windows of their pixels, where rows see windows of their own;
    lanes_end: storing a vector of results. lanes_far, lanes_read: how much longer sums over an image take that the
    second cache does not hold, and reading a vector of it again for other outputs. weight_line: a line of the weights
    of one term of a tile, for each MB beyond the first. short: an element of a line that is shorter than a vector.
    places: how many places of a transformed tile share the first cache. border: copying a vector of an image whose
    lanes are samples, with its border. winograd_...: transforming a channel of a tile, an output of one back, the
    weights of a channel and output; of rows a vector of tiles of a line, one along the rows, and one of an output
    back. winograd4, fourier, fourier_gradient, winograd_gradient: how much longer transforms take than the constants
    of cpu.py say; winograd4_sum, winograd_gradient_sum: and sums. winograd_gradient_far: a vector of what the
    gradient of weights works on that comes from beyond the second cache. exchanged: the share of the estimate of what
    matches as it is below which an equivalent is taken whose lanes are not those of the batch; 0 where none was
    measured."""

    copy: float
    line: float
    steps: float
    pixel: float
    pack: float
    end: float
    end_line: float
    apart: float
    dot: float
    dot_end: float
    dot_pack: float
    whole: float
    pair: float
    single: float
    narrow: float
    panel_sum: float
    panel_low: tuple[float, float, float]
    panel_narrow: float
    panel_end: float
    panel_back: float
    panel_tile: float
    panel_pack: float
    panel_turn: float
    panel_gather: float
    panel_far_gather: float
    panel_run: float
    panel_packed: int
    far_copy: float
    far_read: float
    far_alone: float
    far_weights: float
    near_weights: float
    copy_us: float
    copy_far_us: float
    copy_back_us: float
    copy_near_us: float
    copy_border_us: float
    copy_start_us: float
    row_term: float
    row_sum: float
    row_rest: float
    row_tail: float
    row_far: float
    start: float
    start_each: float
    tile_wait: float
    tile_far: float
    tile_rows: float
    lanes_end: float
    lanes_far: float
    lanes_read: float
    weight_line: float
    short: float
    places: int
    border: float
    winograd_image: float
    winograd_back: float
    winograd_weights: float
    winograd_rows_line: float
    winograd_rows_image: float
    winograd_rows_back: float
    winograd_read: float
    winograd_far: float
    winograd4: float
    winograd4_sum: float
    winograd_gradient: float
    winograd_gradient_sum: float
    winograd_gradient_far: float
    fourier: float
    fourier_near: float
    steps_near: float
    fourier_gradient: float
    exchanged: float


ONE: Final = Core(
    copy=5.0,
    line=6.0,
    steps=12.0,
    pixel=2.0,
    pack=2.0,
    end=1.0,
    end_line=8.0,
    apart=1.0,
    dot=1.3,
    dot_end=3.1,
    dot_pack=0.0,
    whole=112,
    pair=105,
    single=70,
    narrow=86,
    panel_sum=1.054,
    panel_low=(1.3, 1.1, 1.0),
    panel_narrow=1.4,
    panel_end=6.0,
    panel_back=6.0,
    panel_tile=150.0,
    panel_pack=6.0,
    panel_turn=12.0,
    panel_gather=40.0,
    panel_far_gather=80.0,
    panel_run=20.0,
    panel_packed=1 << 30,
    far_copy=0.0,
    far_read=0.0,
    far_alone=0.0,
    far_weights=0.0,
    near_weights=0.0,
    copy_us=1e-3,
    copy_far_us=1e-3,
    copy_back_us=1e-3,
    copy_near_us=2.5e-4,
    copy_border_us=1e-3,
    copy_start_us=2.0,
    row_term=1.3,
    row_sum=25.0,
    row_rest=12.0,
    row_tail=0.0,
    row_far=0.0,
    start=40.0,
    start_each=2.0,
    tile_wait=8.5,
    tile_far=0.0,
    tile_rows=0.0,
    lanes_end=0.0,
    lanes_far=1.8,
    lanes_read=0.0,
    weight_line=4.0,
    short=0.0,
    places=1,
    border=5.0,
    winograd_image=75.0,
    winograd_back=45.0,
    winograd_weights=15.0,
    winograd_rows_line=35.0,
    winograd_rows_image=45.0,
    winograd_rows_back=60.0,
    winograd_read=1.0,
    winograd_far=0.0,
    winograd4=1.0,
    winograd4_sum=1.3,
    winograd_gradient=1.0,
    winograd_gradient_sum=1.0,
    winograd_gradient_far=0.0,
    fourier=1.0,
    fourier_near=0.45,
    steps_near=12.0,
    fourier_gradient=1.0,
    exchanged=0.0,
)
"""An AMD EPYC, whose vectors of 64 bytes are worked on in two halves."""
TWO: Final = Core(
    copy=6.0,
    line=15.0,
    steps=21.0,
    pixel=1.0,
    pack=6.0,
    end=8.0,
    end_line=2.0,
    apart=2.5,
    dot=2.0,
    dot_end=21.0,
    dot_pack=4.0,
    whole=167,
    pair=159,
    single=118,
    narrow=122,
    panel_sum=0.8,
    panel_low=(1.33, 1.4, 1.0),
    panel_narrow=1.28,
    panel_end=14.0,
    panel_back=2.5,
    panel_tile=80.0,
    panel_pack=5.5,
    panel_turn=10.0,
    panel_gather=23.0,
    panel_far_gather=36.0,
    panel_run=13.5,
    panel_packed=64,
    far_copy=24.0,
    far_read=10.0,
    far_alone=70.0,
    far_weights=37.0,
    near_weights=5.0,
    copy_us=1.1e-3,
    copy_far_us=2.5e-3,
    copy_back_us=1.6e-3,
    copy_near_us=2.5e-4,
    copy_border_us=4.5e-4,
    copy_start_us=0.5,
    row_term=0.7,
    row_sum=8.0,
    row_rest=0.0,
    row_tail=12.0,
    row_far=7.0,
    start=32.0,
    start_each=1.2,
    tile_wait=0.0,
    tile_far=0.8,
    tile_rows=1.0,
    lanes_end=4.0,
    lanes_far=1.0,
    lanes_read=3.8,
    weight_line=8.0,
    short=2.0,
    places=16,
    border=10.0,
    winograd_image=128.0,
    winograd_back=38.0,
    winograd_weights=20.0,
    winograd_rows_line=20.0,
    winograd_rows_image=130.0,
    winograd_rows_back=67.0,
    winograd_read=0.1,
    winograd_far=24.0,
    winograd4=4.0,
    winograd4_sum=1.0,
    winograd_gradient=0.66,
    winograd_gradient_sum=0.65,
    winograd_gradient_far=8.0,
    fourier=1.7,
    fourier_near=0.6,
    steps_near=6.0,
    fourier_gradient=1.25,
    exchanged=0.9,
)
"""An Intel Xeon (docs/speed.md says how near to the best choices are)."""


def core(device: Target) -> Core:
    """The one of a device."""
    return TWO if starts_two(device) else ONE


def starts_two(device: Target) -> bool:
    """Whether a device is a core that starts two multiply-adds of a vector a cycle, or more."""
    return device.warp == 1 and 4 * device.lanes >= 2 * device.vector
