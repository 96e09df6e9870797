"""cpu: the constants of the cost models of a core, in vector operations unless they say otherwise.

Assumes: cores with AVX-512, and the clock and caches of the one on which they were measured, or better ones.
Guarantees: estimates compare strategies with one another; on another core all of them change about alike. What a cache
is to hold becomes less where it is smaller (`within`).
Does not: choose.
"""

from __future__ import annotations

from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.cost.devices import MEASURED_CORE

OPERATIONS_PER_US: Final = float(MEASURED_CORE.clock)
"""Vector operations that a core takes in a microsecond, at best: one a cycle."""
TILE_NEAR_BYTES: Final = MEASURED_CORE.caches[0] * 125 // 128
"""Of the vectors of a register tile that stay in the first cache."""
VECTOR_BYTES: Final = MEASURED_CORE.vector
FAR_VECTOR, FAR_LINE = 10.0, 70.0
"""Reading a vector from beyond the second cache: of what is read again and again what half of it does not hold; one
whose neighbours in memory are not read with it."""
WEIGHT_LINE_MOST: Final = 25.0
"""A line of the weights of one term of a tile, at most."""
PAGE_FAR, PAGE_BYTES, PAGES = 50.0, 4096, 2048
"""A line of a page that the table of so many pages does not hold."""
THIRD_BYTES: Final = 64_000_000
"""Of a third cache that other processors use, too, what one has."""
STEPS_FAR, STEPS_BYTES = 40.0, 10_000_000
"""A vector of the gradient of an image that a window sees in steps, where all of it has more bytes than that."""
ROWS_NEAR_BYTES: Final = 128_000
"""Of a row-major image that register tiles may read in place, as all of it stays near the processor."""
WINDOW_LANES: Final = 8.0
"""Adding up the lanes of a vector of the gradient of a window."""

# -------------------------------------------------------------------------------------------- products

TILE_CACHE_BYTES, TILE_FAR, TILE_FAR_BLOCKS = 500_000, 1.8, 32
"""Of an operand that register tiles may read again and again, and how much longer sums take where it is larger; from so
many blocks of the batch on."""
ALIKE, ALIKE_BLOCKS, ALIKE_BYTES = 1.15, 8, 4096
"""How much longer sums take for so many blocks of the batch or more, where rows of the weights push each other out of
the first cache, as they are multiples of so many bytes apart."""
CHUNK_BYTES: Final = 500_000
"""Of the operands of a sum that all register tiles read, before the next ones are taken."""
TRANSPOSE: Final = 6.0
"""Transposing a vector."""
ROW_TERM: Final = 1.3
"""A vector of terms with neighbouring features in the lanes."""
PANEL_START: Final = 300.0
"""The tables and ends of a group of packed panels."""
FEW_MORE: Final = 0.4
"""Each row beside the first one, where few rows share a vector of columns that were packed before."""
PANEL_NEAR_BYTES, PANEL_FAR_BYTES = 200_000, 8_000_000
"""Of weights that stay near whatever many rows do; from which on no cache holds them, so that reading them in order is
worth more than its estimate."""
PANEL_GATHER_BYTES: Final = 2_000_000
"""Of an operand that the second cache does not hold."""
PANEL_STRIP_BYTES, PANEL_SUMS_BYTES = 8_000_000, 1_200_000
"""Of packed columns that blocks of rows read one after the other; of sums that stay near for all terms."""
MAP, DRAW, NEST, ROW_NEST, ROW_WINDOW = 6.0, 100.0, 3.0, 1.0, 4.0
"""A vector of an elementwise result, of random numbers, of products of a nest with the batch in the lanes, a single
product of a row-major nest, and a single term of one that walks windows."""
ROW_OUTER, ROW_OUTER_TERM, ROW_OUTER_LINE, ROW_OUTER_TERMS = 5.5, 2.8, 45.0, 4
"""A vector of results of a row-major nest whose neighbours are products with neighbours of one operand, a term of it, a
line of them, and the terms of a sum up to which that is so."""

# -------------------------------------------------------------------------------------------- Winograd

WINOGRAD_STRIP_BYTES: Final = 200_000
"""Of the transformed image that is worked on at a time: it stays in a core's second cache."""
WINOGRAD_CACHE_BYTES: Final = 500_000
"""Of weights that stay in the second cache."""
WINOGRAD_FAR: Final = 10.0
"""What transforming the weights of a channel for an output takes more where they do not stay in the second cache,
beside reading them for each strip."""
WINOGRAD4_STRIP_BYTES: Final = 32_000_000
"""Of the transformed image and its sums in larger tiles that are worked on at a time."""
WINOGRAD4_IMAGE, WINOGRAD4_BACK, WINOGRAD4_WEIGHTS, WINOGRAD4_FAR = 300.0, 250.0, 30.0, 15.0
"""What it costs to transform a channel of a tile of 6 x 6 pixels, an output of it back, and the weights of a channel
for an output; and to read these for each strip."""
WINOGRAD_GRADIENT_SUMS_BYTES: Final = 5_000_000
"""Of sums of all places of the gradient of the weights: those of more outputs are made in several parts."""
WINOGRAD_GRADIENT_IMAGE, WINOGRAD_GRADIENT_GRADIENT, WINOGRAD_GRADIENT_SUM = 200.0, 180.0, 420.0
"""What it costs to transform a channel of a tile, an output of a tile, and to make the weights of a channel and output
from their sums."""

# --------------------------------------------------------------------------------------------- Fourier

FOURIER_STRIP_BYTES: Final = 32_000_000
"""Of transformed tiles and sums that are worked on at a time."""
FOURIER_IMAGE, FOURIER_BACK, FOURIER_WEIGHTS = 18_000.0, 13_000.0, 22_000.0
"""What it costs to transform a channel of a tile, an output of a tile back, and a vector of windows."""
FOURIER_NEAR, FOURIER_NEAR_BYTES, FOURIER_GRADIENT_NEAR_BYTES = 0.45, 12_000_000, 5_000_000
"""Of these, where all that is transformed and its sums have fewer bytes; for gradients of weights, which read both
operands again."""
FOURIER_GRADIENT_SUM, FOURIER_FAR_SUM = 8.0, 40.0
"""Adding a vector of sums of a strip to those of the strips before it; reading one again that does not stay near."""


def within(bytes_: int, device: Target) -> int:
    """Bytes that a cache is to hold, of a core: so many, or as large a part of its cache where that is smaller."""
    for measured, here in zip(MEASURED_CORE.caches, device.caches, strict=False):
        if bytes_ <= measured:
            return bytes_ * min(here, measured) // measured
    return bytes_


def second_cache(device: Target) -> int:
    """Bytes of the second cache of a core."""
    return device.caches[1] if device.warp == 1 and len(device.caches) > 1 else MEASURED_CORE.caches[1]
