"""The kinds of layers of the language, in the order of its reference; one file per family.

Frontend, passes and interchange derive their handling of kinds from these objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.layers.attention import ATTENTION, DOT_ATTENTION
from compiler.layers.augment import AUGMENT, DROPOUT, NOISE, RANDOM_CROP, RANDOM_FLIP
from compiler.layers.conv import CONVS, TRANSPOSED
from compiler.layers.dense import DENSE
from compiler.layers.elementwise import ACTIVATION, ADD, GLU, MAP, MULTIPLY, PRELU, SCALE_SHIFT, STOP_GRADIENT
from compiler.layers.matmul import MATMUL
from compiler.layers.norm import BATCH_NORM, GROUP_NORM, INSTANCE_NORM, LAYER_NORM, LOG_SOFTMAX, RMS_NORM, SOFTMAX
from compiler.layers.pool import POOLS
from compiler.layers.recurrent import GRU, LSTM, RNN
from compiler.layers.reduce import REDUCE
from compiler.layers.resample import ADAPTIVE, UPSAMPLE
from compiler.layers.sequence import EMBEDDING, LEARNED, ONE_HOT, POSITIONS
from compiler.layers.shape import CONCAT, FLATTEN, PAD, PERMUTE, RESHAPE, SLICE, SPLIT
from compiler.layers.shared.kind import LayerKind

__all__ = ["BATCH_NORM", "DENSE", "KIND", "KINDS", "MAP", "SLICE", "SPLIT"]

KINDS: Final[tuple[LayerKind, ...]] = (
    DENSE, *CONVS, *TRANSPOSED, *POOLS, *ADAPTIVE, UPSAMPLE, PAD,
    FLATTEN, RESHAPE, PERMUTE, CONCAT, SPLIT, SLICE, ADD, MULTIPLY, MATMUL, REDUCE,
    SCALE_SHIFT, MAP, ACTIVATION, PRELU, GLU, STOP_GRADIENT,
    SOFTMAX, LOG_SOFTMAX,
    DROPOUT, NOISE, AUGMENT, RANDOM_FLIP, RANDOM_CROP,
    BATCH_NORM, LAYER_NORM, RMS_NORM, GROUP_NORM, INSTANCE_NORM,
    EMBEDDING, ONE_HOT, LEARNED, POSITIONS, ATTENTION, DOT_ATTENTION, RNN, GRU, LSTM,
)  # fmt: skip

KIND: Final[Mapping[str, LayerKind]] = MappingProxyType({k.name: k for k in KINDS})
"""By name."""
