"""cores: the constants of the cost models that differ by how many multiply-adds of a vector a core starts in a
cycle, in vector operations.

Assumes: cores with AVX-512. Where sums take half as long, what is beside them takes the same.
Guarantees: `core` has the numbers of one that was measured for every device.
Does not: read a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from compiler.ir.level2.target import Target

T = TypeVar("T")


def _of(one: T, two: T) -> T:
    """A number of ONE, and of TWO."""
    made: Any = field(default=one, metadata={"two": two})
    number: T = made
    return number


@dataclass(frozen=True)
class Core:
    """copy: copying a vector of an image with its border; line, steps, pixel: a line of it beside its vectors, one of
    pixels in steps, and each of these where they are copied one by one. pack: packing a vector of what a window sees;
    end, end_line: a vector of results of an output, and those of a strip of pixels beside their vectors; apart: storing
    a pixel whose neighbours belong to other classes. dot, dot_end, dot_pack: a vector of terms of a pixel that is
    computed alone, what follows its sum, and packing a term of it. whole, pair, single, narrow: operations a cycle,
    relative, of register tiles of 8 outputs by 3, 2 and 1 vectors, and of 4 by 2. panel_sum, panel_low, panel_narrow: a
    vector of a sum in packed panels; how much longer one takes in tiles of 4, 8 and 12 rows, and of one vector.
    panel_end, panel_back: the epilogue of a vector, and its transposition; panel_tile: a tile beside its sums;
    panel_pack, panel_turn, panel_gather, panel_far_gather: packing a vector of neighbours, of neighbouring terms, of
    neither, and of neither from beyond the second cache; panel_run: a run of neighbouring results of a line of sums;
    panel_packed: columns of a strip beyond which rows are packed whose terms are neighbours. start, start_each: a
    register tile beside its sums, and each of its accumulators. tile_wait, tile_far: of a vector of a register tile
    that comes from the second cache, what sums take at least, and what they take more, and more for one that lies in
    two lines and that no prefetcher foresees (tile_split); tile_rows: the share that counts of what tiles sum beside
    the windows of their pixels, where rows see windows of their own; lanes_end: storing a vector of results. row_split:
    a vector of terms of rows that are not whole vectors, which lies in two lines of a cache, beside one that does not.
    lanes_image: a vector of an image from beyond the second cache; lanes_far, lanes_read: how much longer sums over an
    image take that the second cache does not hold, and what gradients of weights take more for a vector that comes from
    beyond it; lanes_steps: for one whose neighbours are not seen. part: pixels, or vectors of them, that gradients of
    weights sum at a time: those of a tile's outputs stay in the second cache for all taps, or in a third of the first
    one where sums are too fast for the second. weight_line: a line of the weights of one term of a tile, for each MB
    beyond the first. short: an element of a line that is shorter than a vector. places: how many places of a
    transformed tile share the first cache. border: copying a vector of an image whose lanes are samples, with its
    border. winograd_...: transforming a channel of a tile, an output of one back, the weights of a channel and output;
    of rows a vector of tiles of a line, one along the rows, and one of an output back. winograd4, fourier,
    fourier_gradient, winograd_gradient: how much longer transforms take than the constants of cpu.py say;
    winograd4_sum, winograd_gradient_sum: and sums. winograd_gradient_far: a vector of what the gradient of weights
    works on that comes from beyond the second cache. exchanged: the share of the estimate of what matches as it is
    below which an equivalent is taken whose lanes are not those of the batch; 0 where none was measured."""

    copy: float = _of(5.0, 6.0)
    line: float = _of(6.0, 7.0)
    steps: float = _of(12.0, 21.0)
    pixel: float = _of(2.0, 1.0)
    pack: float = _of(2.0, 6.0)
    end: float = _of(1.0, 8.0)
    end_line: float = _of(8.0, 2.0)
    apart: float = _of(1.0, 2.5)
    dot: float = _of(1.3, 2.0)
    dot_end: float = _of(3.1, 21.0)
    dot_pack: float = _of(0.0, 4.0)
    whole: float = _of(112, 167)
    pair: float = _of(105, 159)
    single: float = _of(70, 118)
    narrow: float = _of(86, 122)
    panel_sum: float = _of(1.054, 0.76)
    panel_low: tuple[float, float, float] = _of((1.3, 1.1, 1.0), (1.33, 1.4, 1.0))
    panel_narrow: float = _of(1.4, 1.28)
    panel_end: float = _of(6.0, 14.0)
    panel_back: float = _of(6.0, 2.5)
    panel_tile: float = _of(150.0, 80.0)
    panel_pack: float = _of(6.0, 5.5)
    panel_turn: float = _of(12.0, 10.0)
    panel_gather: float = _of(40.0, 23.0)
    panel_far_gather: float = _of(80.0, 36.0)
    panel_run: float = _of(20.0, 13.5)
    panel_packed: int = _of(1 << 30, 64)
    far_copy: float = _of(0.0, 24.0)
    far_read: float = _of(0.0, 10.0)
    far_alone: float = _of(0.0, 70.0)
    far_weights: float = _of(0.0, 37.0)
    near_weights: float = _of(0.0, 5.0)
    copy_us: float = _of(1e-3, 1.1e-3)
    copy_far_us: float = _of(1e-3, 2.5e-3)
    copy_back_us: float = _of(1e-3, 1.6e-3)
    copy_near_us: float = _of(2.5e-4, 2.5e-4)
    copy_border_us: float = _of(1e-3, 4.5e-4)
    copy_start_us: float = _of(2.0, 0.5)
    row_term: float = _of(1.3, 0.7)
    row_sum: float = _of(25.0, 8.0)
    row_rest: float = _of(12.0, 0.0)
    row_tail: float = _of(0.0, 12.0)
    row_far: float = _of(0.0, 7.0)
    row_split: float = _of(0.0, 0.55)
    start: float = _of(40.0, 32.0)
    start_each: float = _of(2.0, 1.2)
    tile_wait: float = _of(8.5, 0.0)
    tile_far: float = _of(0.0, 0.8)
    tile_split: float = _of(0.0, 2.5)
    tile_rows: float = _of(0.0, 1.0)
    lanes_end: float = _of(0.0, 4.0)
    lanes_far: float = _of(1.8, 1.0)
    lanes_image: float = _of(0.0, 10.0)
    lanes_read: float = _of(0.0, 5.0)
    lanes_steps: float = _of(0.0, 13.0)
    part: int = _of(512, 64)
    weight_line: float = _of(4.0, 8.0)
    short: float = _of(0.0, 0.5)
    places: int = _of(1, 16)
    border: float = _of(5.0, 10.0)
    winograd_image: float = _of(75.0, 128.0)
    winograd_back: float = _of(45.0, 38.0)
    winograd_weights: float = _of(15.0, 14.0)
    winograd_rows_line: float = _of(35.0, 20.0)
    winograd_rows_image: float = _of(45.0, 130.0)
    winograd_rows_back: float = _of(60.0, 67.0)
    winograd_read: float = _of(1.0, 0.1)
    winograd_far: float = _of(0.0, 24.0)
    winograd4: float = _of(1.0, 4.0)
    winograd4_sum: float = _of(1.3, 1.0)
    winograd_gradient: float = _of(1.0, 0.66)
    winograd_gradient_sum: float = _of(1.0, 0.65)
    winograd_gradient_far: float = _of(0.0, 8.0)
    fourier: float = _of(1.0, 1.7)
    fourier_near: float = _of(0.45, 0.6)
    steps_near: float = _of(12.0, 6.0)
    fourier_gradient: float = _of(1.0, 1.25)
    exchanged: float = _of(0.0, 1.0)


ONE: Final = Core()
"""An AMD EPYC, whose vectors of 64 bytes are worked on in two halves."""
TWO: Final = Core(**{f.name: f.metadata["two"] for f in fields(Core)})
"""An Intel Xeon (docs/speed.md says how near to the best choices are)."""


def core(device: Target) -> Core:
    """The one of a device."""
    return TWO if starts_two(device) else ONE


def starts_two(device: Target) -> bool:
    """Whether a device is a core that starts two multiply-adds of a vector a cycle, or more."""
    return device.warp == 1 and 4 * device.lanes >= 2 * device.vector
