"""planes: the extents of convolutions between populations of shape (channels, height, width).

Assumes: shapes that fit (the frontend checks them).
Guarantees: one place for the arithmetic of Toeplitz (compiler/ir/level2/program.py) on the host, and for its stored
rows: sources ascending, in each row targets ascending.
Does not: handle values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Extents:
    """The parameters of a convolution between two populations; (height, width) in pairs."""

    in_c: int
    in_h: int
    in_w: int
    out_c: int
    out_h: int
    out_w: int
    pad_h: int
    pad_w: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    depthwise: bool = False
    shared: bool = False


def _shape(instance: l1.Instance) -> tuple[int, int, int]:
    """(channels, height, width) of a population: leading extents that are not given are 1."""
    shape = instance.shape or (instance.size,)
    c, h, w = (1,) * (3 - len(shape)) + tuple(shape)
    return c, h, w


def planes_of(projection: l0.Projection, pre: l1.Instance, post: l1.Instance) -> Extents:
    """The extents of one member of a conv2d or avg_pool2d family."""
    planes = projection.planes
    assert planes is not None
    return Extents(
        *_shape(pre),
        *_shape(post),
        *planes.padding,
        planes.kernel,
        planes.stride,
        planes.depthwise or planes.shared,
        planes.shared,
    )


def elements(at: Extents) -> int:
    """How many elements the kernel has."""
    kh, kw = at.kernel
    if at.shared:
        return kh * kw
    return at.in_c * kh * kw * (1 if at.depthwise else at.out_c)


def stored_rows(at: Extents) -> tuple[Ints, npt.NDArray[np.int32], Ints]:
    """(row, col, kernel element of each synapse) of a convolution. row i64 [n_pre + 1], col i32 and element i64
    [synapses]."""
    (kh, kw), (sh, sw) = at.kernel, at.stride
    c, y, x = (a.reshape(-1) for a in np.indices((at.in_c, at.in_h, at.in_w)))
    source = np.arange(len(c))
    pres, posts, kinds = [], [], []
    for ky in range(kh):
        for kx in range(kw):
            up, left = y + at.pad_h - ky, x + at.pad_w - kx
            inside = (up % sh == 0) & (left % sw == 0) & (up >= 0) & (left >= 0)
            inside &= (up // sh < at.out_h) & (left // sw < at.out_w)
            i, place = source[inside], (up // sh * at.out_w + left // sw)[inside]
            here = ky * kw + kx
            for o in [None] if at.depthwise else range(at.out_c):
                channel = c[inside] if o is None else np.full(len(i), o)
                pres.append(i)
                posts.append(channel * (at.out_h * at.out_w) + place)
                if at.shared:
                    kinds.append(np.full(len(i), here))
                elif o is None:
                    kinds.append(c[inside] * kh * kw + here)
                else:
                    kinds.append((o * at.in_c + c[inside]) * kh * kw + here)
    pre, post, kind = (np.concatenate(parts) for parts in (pres, posts, kinds))
    order = np.lexsort((post, pre))
    row = np.zeros(len(source) + 1, np.int64)
    row[1:] = np.cumsum(np.bincount(pre, minlength=len(source)))
    return row, post[order].astype(np.int32), kind[order]
