"""cudnn: convolutions and both of their gradients by NVIDIA's library cuDNN, called inside the captured graph.

Three directions, each in float32 or in tf32. The library stores sums alone: what follows is another kernel. Its
workspace is planned with the other arrays. Exchanged (compiler/strategies/exchange.py), each direction also computes
the others.

Assumes: Contracts in gather form, no lanes; float32; the library (extra `cuda-libraries`), which the backend looks for.
Guarantees: no rule takes it, and exact products do not permit it. Only algorithms that give the same bits on every run
are asked for. `s_tile`: which of the library's own proposals.
Does not: match borders that differ at the two ends of an axis, or weights in another order than the library's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, refuse_beyond
from compiler.strategies.convolution import Convolution, convolution, weight_gradient
from compiler.strategies.cuda.vendor.libraries import proposals, room_of
from compiler.strategies.strategy import Strategy
from compiler.strategies.window import WindowAxis

FORWARD, IMAGE, WEIGHTS = "forward", "image", "weights"
PRODUCTS: Final = ("float32", "tf32")
KINDS: Final = {f"cudnn_{d}_{x}": (d, x) for d in (FORWARD, IMAGE, WEIGHTS) for x in PRODUCTS}
"""Direction, and what `numerics: {products: ...}` has to permit at least, by name."""
ROOM: Final = 64 << 20
"""Bytes of a workspace, at most."""

Walk = tuple[int, int, int, int, int, int]
"""Of an axis of the convolution forwards: elements of the image and of the output, taps, step, dilation, border."""


def _walk(image: int, out: int, taps: int, step: int, dilation: int, pad: int) -> Walk | None:
    """The axis, or None where the library has no such one."""
    fits = pad >= 0 and dilation > 0 and (image + 2 * pad - dilation * (taps - 1) - 1) // step + 1 == out
    return (image, out, taps, step, dilation, pad) if fits else None


def _onwards(a: WindowAxis) -> Walk | None:
    return _walk(a.extent, a.out, a.taps, a.step, a.tap or 1, -a.origin) if a.div == 1 else None


def _back(a: WindowAxis) -> Walk | None:
    return _walk(a.out, a.extent, a.taps, a.div, -a.tap or 1, a.origin) if a.step == 1 else None


def _packed(c: Convolution, outer: str) -> bool:
    """Whether weights lie in memory as (groups, outputs, inputs, rows, columns) of the convolution forwards, where
    `outer` dims are its outputs."""
    window = c.rows.taps * c.cols.taps
    first, second = (c.w_out, c.w_in) if outer == "outs" else (c.w_in, c.w_out)
    many = c.ins if outer == "outs" else c.outs
    near = (c.w_r, c.w_c) == (c.cols.taps, 1) or window == 1
    group = c.groups == 1 or c.w_group == c.outs * c.ins * window
    return near and second == window and first == many * window and group


def _match(p: Problem, name: str) -> Choice:
    direction, _ = KINDS[name]
    if p.lanes or p.real_bytes != 4 or any(p.stored) or p.node.out.dtype == "bf16":
        raise NotApplicable("its arrays are no rows of float32")
    step: Callable[[WindowAxis], Walk | None] = _back if direction == IMAGE else _onwards
    found = weight_gradient(p) if direction == WEIGHTS else convolution(p)
    if isinstance(found, Convolution):
        if not _packed(found, "outs" if direction == FORWARD else "ins"):
            raise NotApplicable("its weights are in another order than the library's")
        ends = (found.outs, found.ins) if direction == FORWARD else (found.ins, found.outs)
        sizes = found.samples, found.groups, *ends
    else:
        sizes = found.samples, found.groups, found.outs, found.ins
    rows, cols = step(found.rows), step(found.cols)
    if rows is None or cols is None:
        raise NotApplicable("the library has no such window")
    refuse_beyond(max(sizes[0] * sizes[1] * max(sizes[2:]) * w * h for w, h in zip(rows[:2], cols[:2], strict=True)))
    columns = {"s_first": found.vector, **dict(zip(("s_batch", "s_groups", "s_outs", "s_ins"), sizes, strict=True))}
    for suffix, walk in (("r", rows), ("c", cols)):
        names = (f"s_{x}_{suffix}" for x in ("image", "out", "taps", "step", "tap", "pad"))
        columns |= dict(zip(names, walk, strict=True))
    room, bytes_ = room_of(p, ROOM)
    columns |= {"s_room": room, "s_tile": 0}
    return Choice(name, (), tuple(columns.items()), bytes_, workspace=bytes_ // p.real_bytes, bare=True)


STRATEGIES: Final = tuple(
    Strategy(name, partial(_match, name=name), proposals, products) for name, (_, products) in KINDS.items()
)
