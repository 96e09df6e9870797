"""onednn: convolutions by Intel's library oneDNN, and gradients of images with steps of 1.

Weights are copied in the order of the library, windows that are walked backwards the other way round; the library takes
images and results in layouts of its own, to and from which it copies them. These are in the scratch memory; what the
library needs beside them is allocated once for all convolutions of a program. It runs in one thread.

Assumes: Contracts in gather form; float32; the library (extra `onednn`), which the backend looks for.
Guarantees: no rule takes it, and exact products do not permit it: it is computed with where `netloom tune` has measured
it. What is not finite may spread.
Does not: match strided gradients of images, gradients of weights, or images that the window leaves by more than it has.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, named, refuse_if, rounded
from compiler.strategies.convolution import Convolution, convolution, extents
from compiler.strategies.strategy import Strategy
from compiler.strategies.window import WindowAxis

NAME: Final = "onednn_conv"
CHANNELS: Final = 16
"""Multiples of which the library may round channels up to."""
ALIGNED: Final = 64


def match(p: Problem) -> Choice:
    refuse_if(p.real_bytes != 4, "its reals are not float32")
    conv = convolution(p)
    pad_rows, pad_cols = _pads(conv.rows), _pads(conv.cols)
    if pad_rows is None or pad_cols is None:
        raise NotApplicable("the library has no such window")
    rows, cols = conv.rows, conv.cols
    batch = rounded(conv.samples, p.lanes) if p.lanes else conv.samples
    first = conv.w_r * (rows.taps - 1) * (rows.tap < 0) + conv.w_c * (cols.taps - 1) * (cols.tap < 0)
    plain = conv.groups * conv.outs * conv.ins * rows.taps * cols.taps
    room = _room(conv, batch) * p.real_bytes + 6 * ALIGNED
    refuse_if(room >= LIMIT * p.real_bytes, "it is larger than 32-bit offsets reach")
    values = (
        named(batch=batch)
        | extents(conv)
        | named(
            taps_r=rows.taps,
            taps_c=cols.taps,
            step_r=rows.step,
            step_c=cols.step,
            tap_r=abs(rows.tap) or 1,
            tap_c=abs(cols.tap) or 1,
            pad_r=pad_rows[0],
            pad_c=pad_cols[0],
            end_r=pad_rows[1],
            end_c=pad_cols[1],
            w_first=first,
            w_group=conv.w_group,
            w_out=conv.w_out,
            w_in=conv.w_in,
            w_r=conv.w_r * (-1 if rows.tap < 0 else 1),
            w_c=conv.w_c * (-1 if cols.tap < 0 else 1),
            room=room,
        )
    )
    return Choice(NAME, (("vector", conv.vector),), tuple(values.items()), plain * p.real_bytes + room)


def _pads(axis: WindowAxis) -> tuple[int, int] | None:
    """Border before and behind the image; None where the library has no such walk."""
    tap = abs(axis.tap) or 1
    low = -(axis.origin + min(0, axis.tap * (axis.taps - 1)))
    window = tap * (axis.taps - 1) + 1
    high = max(0, axis.step * (axis.out - 1) + window - axis.extent - low)
    out = (axis.extent + low + high - window) // axis.step + 1
    walks = axis.div == 1 and low >= 0 and out == axis.out and max(low, high) < window
    return (low, high) if walks else None


def _room(conv: Convolution, batch: int) -> int:
    """Reals of images, weights and results in the library's layouts, at most, and of the results as they are read."""
    ins, outs = (rounded(conv.groups * n, CHANNELS) for n in (conv.ins, conv.outs))
    window = conv.rows.taps * conv.cols.taps
    each = rounded(conv.ins, CHANNELS) * rounded(conv.outs, CHANNELS)
    weights = max(rounded(conv.groups, CHANNELS) * conv.outs * conv.ins, conv.groups * each) * window
    pixels = conv.rows.out * conv.cols.out
    return batch * (ins * conv.rows.extent * conv.cols.extent + (outs + conv.groups * conv.outs) * pixels) + weights


STRATEGY: Final = Strategy(NAME, match, products="float32", target="cpu")
