"""fused_attention: attention on matrix units with no scores in memory, forward and backward.

A block owns 64 queries of a head and walks over tiles of keys; for gradients, blocks own queries, others keys and
values, and compute scores again from two numbers a step (Dao et al. 2022, "FlashAttention"). Factors of products are
numbers of bf16, numbers of fp16, or sums of two of fp16, where 16 lines of a tile have a scale of their own (as in
compiler/strategies/cuda/split/split_products.py): what is left out of a product is below 2^-8, 2^-10 and 2^-21 of it,
and of two parts the sums of the unit, which are truncated, are added up with rounding every 16 terms.

Assumes: row-major tensors of float32 or bf16.
Guarantees: taken only where `numerics: {products: ...}` permits it, or activations are bf16, and where it is faster by
estimate. Sums have one order, whatever the device. What is not finite reaches the steps that see it, and may reach
others in their tile, as 0 times it.
Does not: apply to float64, to `order: bitwise`, or give a gradient to an offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.level1.builder import GraphBuilder
from compiler.ir.level2.target import Capabilities, Target
from compiler.ir.space import DType
from compiler.strategies.choice import NotApplicable, refuse_if
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.tilings import MOST_TILES

ROWS: Final = 64
"""That a block owns."""
THREADS: Final = 128
"""Of a block: a warp has 16 rows."""
RESIDENT: Final = (4, 4, 3)
"""Blocks that a processor holds, as far as registers go, by factors; of heads of at most NARROW features."""
NARROW: Final = 64
WIDE: Final = (32, 64, 128)
"""Features of a head, at most, by structure."""
ALIGNED: Final = 8
"""Features: 16 bytes of bf16."""
_WORDS: Final = (1, 1, 2)
"""Numbers of 16 bits of a factor."""
_PITCH: Final = 8
"""Elements between two lines in shared memory, beside their own."""


@dataclass(frozen=True)
class Way:
    """`products`: what `numerics: {products: ...}` has to permit at least; `factors`: as l1.Attention has them."""

    name: str
    products: str
    factors: int


WAYS: Final = (
    Way("fused_attention_bf16", "bf16", 1),
    Way("fused_attention_tf32", "tf32", 2),
    Way("fused_attention_float32", "float32", 3),
)
"""The fastest first."""
NAMES: Final = frozenset(w.name for w in WAYS)


@dataclass(frozen=True)
class Extents:
    """Of attention: `d` features of a query, `e` of a value, in a head."""

    batch: int
    heads: int
    steps: int
    keys: int
    d: int
    e: int
    causal: bool

    @staticmethod
    def of(node: l1.Attention, graph: GraphBuilder) -> Extents:
        (batch, steps, heads, d), (_, keys, *_), (*_, e) = (graph.tensors[n].shape for n in node.ins[:3])
        return Extents(batch, heads, steps, keys, d, e, node.causal)


@dataclass(frozen=True)
class Found:
    """A way that is possible, and microseconds of a step: of it, and of contractions."""

    way: Way
    fused: float
    apart: float

    @property
    def pays(self) -> bool:
        return self.fused <= self.apart

    @property
    def reason(self) -> str:
        if not self.pays:
            return f"about {self.fused:.0f} us; by contractions about {self.apart:.0f} us"
        return f"{self.way.name}: about {self.fused:.0f} us, by contractions about {self.apart:.0f} us"


def tile(wide: int, back: bool) -> int:
    """Rows of the other side that a block has in shared memory at a time."""
    return 32 if back or wide > 64 else 64


def wide_of(d: int, e: int) -> int | None:
    """The structure for heads of so many features; None where there is none."""
    return next((w for w in WIDE if max(d, e) <= w), None)


def shared_bytes(wide: int, factors: int, back: bool) -> int:
    """Shared memory of a block: a tile of queries, of keys and of values; backward of two sides, and what is known of
    steps."""
    lines = 2 * ROWS + 2 * tile(wide, back) if back else ROWS + 2 * tile(wide, back)
    return 2 * _WORDS[factors - 1] * lines * (wide + _PITCH) + (12 * ROWS if back else 0)


@dataclass(frozen=True)
class Attending:
    """The ways that a target has for a model's numerics, the fastest first."""

    ways: tuple[Way, ...]
    mixed: bool
    device: Target

    @staticmethod
    def of(capabilities: Capabilities, precision: DType, order: l2.Order, mixed: bool) -> Attending:
        """`capabilities` as far as the numerics permit (compiler/strategies/permissions.py)."""
        here = tuple(w for w in WAYS if w.name in capabilities.strategies)
        if precision is not DType.F32 or order is l2.Order.BITWISE:
            here = ()
        return Attending(WAYS[:1] if here and mixed else here, mixed, capabilities.device)

    def match(self, node: l1.Attention, graph: GraphBuilder) -> tuple[Found, ...]:
        """How attention may be computed at once; none where that is no question. Raises NotApplicable."""
        if not self.ways:
            return ()
        refuse_if("offset" in node.beside and graph.is_trained(node.ins[3]), "its offset is trained")
        return self.fitting(Extents.of(node, graph))

    def fitting(self, x: Extents) -> tuple[Found, ...]:
        """The same for these extents."""
        wide = wide_of(x.d, x.e)
        if wide is None or x.d % ALIGNED or x.e % ALIGNED:
            raise NotApplicable(f"heads of {x.d} and {x.e} features have no tile")
        fit = [w for w in self.ways if shared_bytes(wide, w.factors, True) <= self.device.shared_block]
        refuse_if(not fit, "its tiles do not fit into shared memory")
        blocks = x.batch * x.heads * -(-max(x.steps, x.keys) // ROWS)
        refuse_if(blocks > MOST_TILES, "it has more tiles than a launch may have blocks")
        return tuple(Found(w, self._fused(w, x, wide), self._apart(x)) for w in fit)

    def _fused(self, way: Way, x: Extents, wide: int) -> float:
        """Microseconds forward and backward."""
        pairs = x.batch * x.heads * -(-x.steps // ROWS) * -(-x.keys // ROWS)
        turns = pairs * (0.6 if x.causal and min(x.steps, x.keys) > ROWS else 1.0) / self.device.processors
        step = cost.ATTENTION_TILE_US[way.factors - 1] * wide / 64 * cost.waits(self.device)
        return turns * step + 3 * cost.LAUNCH_US + cost.ATTENTION_START_US

    def _apart(self, x: Extents) -> float:
        """The same, for contractions and maps of scores: launches, and what they read and write."""
        scores = x.batch * x.heads * x.steps * x.keys * (2 if self.mixed else 4)
        moved = cost.ATTENTION_PASSES * scores / (1e3 * H200.bandwidth) * cost.moves(self.device)
        return moved + cost.ATTENTION_LAUNCHES * cost.LAUNCH_US
