"""Initial weights of a layer with the key `init`.

Assumes: attributes `init` and `init_value` of a layer (frontend/build/tensors/layers.py); weights have the shape (out,
in, ...), those of a transposed convolution (in, out / groups, ...).
Guarantees: uniform and normal ones are drawn by the program like all others; those that need a whole array or a
quantile are computed here from Philox's raw output, keyed by seed and name: data of the program, equal for every
target.
Does not: initialize biases, or the scale and shift of normalisations.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.ir.level0.streams import stream_key

_VARIANCES = {"glorot": 2.0, "he": 2.0, "lecun": 1.0}


def chosen(
    layer: l0.Layer, shape: tuple[int, ...], seed: int, fans: tuple[int, int] | None
) -> tuple[str, tuple[float, ...]] | None:
    """`init` and `init_args` of a Weight; None where the layer has no `init`. `fans`: where the shape is not (outputs,
    inputs, ...)."""
    attrs = dict(layer.attrs)
    name = attrs.get("init")
    if name is None:
        return None
    assert isinstance(name, str)
    if name == "values":
        return name, ()
    value = attrs.get("init_value", 0.0)
    assert isinstance(value, float | int)
    family, _, kind = name.partition("_")
    if family in _VARIANCES:
        fan_in, fan_out = fans or _fans(layer, shape)
        among = (fan_in + fan_out) if family == "glorot" else fan_in
        std = math.sqrt(_VARIANCES[family] / among)
        return (kind, (std,)) if kind == "normal" else (kind, (math.sqrt(3.0) * std,))
    if name in ("truncated_normal", "orthogonal"):
        return name, (float(value), float(seed))
    return name, (float(value),)


def _fans(layer: l0.Layer, shape: tuple[int, ...]) -> tuple[int, int]:
    """Fan-in and fan-out."""
    area = math.prod(shape[2:])
    groups = dict(layer.attrs).get("groups", 1)
    assert isinstance(groups, int)
    return shape[1] * area, shape[0] // groups * area


def computed(name: str, shape: tuple[int, ...], init: str, args: tuple[float, ...]) -> npt.NDArray[np.float64]:
    """The values of `truncated_normal` (standard deviation, seed) and `orthogonal` (gain, seed), row-major."""
    from scipy.special import ndtr, ndtri  # slow to import, rarely needed

    size, seed = args
    raw = np.random.Philox(key=stream_key(int(seed), name)).random_raw(math.prod(shape))
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    if init == "truncated_normal":
        low, high = ndtr(-2.0), ndtr(2.0)
        return np.asarray(size * ndtri(low + (high - low) * uniform), np.float64).reshape(shape)
    rows, columns = shape[0], math.prod(shape[1:])
    normal = ndtri(uniform).reshape(max(rows, columns), min(rows, columns))
    q, r = np.linalg.qr(normal)
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # so that every rotation is equally likely (Mezzadri 2007)
    return np.asarray(size * (q if rows >= columns else q.T), np.float64).reshape(shape)
