"""Level 1, the graph of tensors: pure, in single assignment.

Assumes: level 0 is legal.
Guarantees: frozen data; tensors are defined once, in topological order, before their use; a Contract is an iteration
space with affine index maps, so that matrix products, convolutions, their gradients and pooling are one construct and
differentiate by exchanging maps. Legality is specified in verify/graph.py.
Does not: define layouts, kernels, arenas or targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import mul
from types import MappingProxyType
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr
from compiler.ir.space import Affine, plain_dim


@dataclass(frozen=True)
class Tensor:
    """dtype: "real" | "int" | "bf16" (a real that is stored so). `batched`: axis 0 is the batch. Shapes include the
    batch axis. `windows`: extents of windows side by side, each with at most one element that is not 0
    (window_choices); no array has such a tensor: what reads it, reads the operands of the Contract that makes it.
    `pitch`: elements from one row along the last axis to the next, where that is more than its extent (pad_rows).
    `panel`: rows whose elements at one place of the last axis are side by side, then those at the next place, and after
    the last one the next rows; the array has whole panels (pack_panels). Its strides say nothing.
    `whole`: the extents of the tensor in whose array it lies, as a part; its strides are that one's (place_parts).
    `steps_first`: in the array, axis 1 is the outermost."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "real"
    batched: bool = False
    windows: tuple[int, ...] = ()
    pitch: int = 0
    panel: int = 0
    whole: tuple[int, ...] = ()
    steps_first: bool = False

    @property
    def room(self) -> tuple[int, ...]:
        """The extents of its array: the shape, but for the space between rows, or behind the last one."""
        if self.panel:
            return (-(-self.shape[0] // self.panel) * self.panel, *self.shape[1:])
        return (*self.shape[:-1], self.pitch) if self.pitch else self.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements per step along each axis of its array, row by row."""
        room = self.whole or self.room
        *inner, _ = accumulate(reversed(room), mul, initial=1)
        found = tuple(reversed(inner))
        return (found[1], room[0] * found[1], *found[2:]) if self.steps_first else found


@dataclass(frozen=True)
class Feed:
    """A batch of an input, gathered by the runner's order from the data set: data[order[...]] * scale. The data array
    is resident: `array` names it; padding rows of a short batch repeat an example. `steps`: unless it is 0, `out` is
    as of a StepsFirst."""

    out: Tensor
    array: str
    scale: float
    steps: int = 0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class BatchMask:
    """out[n] = 1 for valid rows of the batch, 0 for padding (a short last batch)."""

    out: Tensor


@dataclass(frozen=True)
class Weight:
    """A trained value. init: "uniform" (init_args: the bound b, drawn in [-b, b)), "normal" (init_args: the
    standard deviation), "zeros", "ones", "constant" (the number), "truncated_normal" (standard deviation, seed),
    "orthogonal" (gain, seed) or "values" (of `file`)."""

    out: Tensor
    init: str
    init_args: tuple[float, ...] = ()
    file: l0.FromFile | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Variable:
    """Persistent, not trained: running statistics, metric accumulators ("f64" ones have wide=True), state of the
    optimizer that the graph reads (`inner`: no part of what was learned)."""

    out: Tensor
    init: float
    wide: bool = False
    inner: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Constant:
    """Numbers of the model, in row-major order: data of the program, like constant weights."""

    out: Tensor
    values: tuple[float, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Map:
    """out[i...] = body(ins): elementwise with broadcasting. maps[k][a] is the output axis that axis a of operand
    k follows, or None where that axis has extent 1. `body` refers to operands as `x0`, `x1`, ... and to numbers
    that are data, not text (a dropout rate, an epsilon), by the names in `scalars`: they become columns."""

    out: Tensor
    ins: tuple[str, ...]
    maps: tuple[tuple[int | None, ...], ...]
    body: Expr
    scalars: tuple[tuple[str, float], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Contract:
    """out[out_map(d)] = combine over all d of body(ins[in_maps(d)]), d in the iteration space `dims`.

    `body` refers to operands as `x0`, `x1`, ..., to dims by name (as integers) and to `scalars` (columns). An operand
    read outside its extent, or where a map does not divide, reads `fill`. combine: "add" | "max" | "min". After
    `decompose`, out_map is one distinct dim per axis (gather form); autodiff produces scatter forms, whose elements
    that no point writes are 0.
    """

    out: Tensor
    dims: tuple[tuple[str, int], ...]
    out_map: tuple[Affine, ...]
    ins: tuple[str, ...]
    in_maps: tuple[tuple[Affine, ...], ...]
    body: Expr
    combine: str = "add"
    fill: float = 0.0
    scalars: tuple[tuple[str, float], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def walks_plainly(self) -> bool:
        """Whether every index is a plain dim (sums, maxima over axes)."""
        return all(not a.terms or plain_dim(a) is not None for axes in self.in_maps for a in axes)


@dataclass(frozen=True)
class Gather:
    """out[p..., e...] = table[index[p...], e...]: rows of a tensor without a batch, chosen by integers. A row that the
    table does not have reads as 0. `own`: each position chooses an element of its own row, out[p...] =
    table[p..., index[p...]]."""

    out: Tensor
    table: str
    index: str
    own: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class ScatterAdd:
    """out[r, e...] = sum of source[p..., e...] over all p with index[p...] = r, in the order of p: the gradient of a
    Gather with respect to its table. The result has no batch; what belongs to a row that it does not have is left out.
    """

    out: Tensor
    source: str
    index: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Move:
    """out[d...] = the sum of the operands, each at d + its offset, where it reads `fill` outside its extents: a slice,
    padding, a concatenation, or the gradient of one."""

    out: Tensor
    ins: tuple[str, ...]
    offsets: tuple[tuple[int, ...], ...]
    fill: float = 0.0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Attention:
    """One result of attention whose scores are nowhere in memory; `of` says which. `ins`: query (batch, steps,
    heads, d), key (batch, keys, heads, d) and value (batch, keys, heads, e), then those of `beside` ("offset", "mask",
    in that order), each (batch, [[heads,] steps,] keys). A score is HIDDEN (compiler/layers/shared/context.py) where
    the mask is 0, or `causal` and the key is after the step, else scale * (query . key) + offset; one of at most
    HIDDEN / 2 counts for nothing.

    "context": the sum of values by the softmax of scores, (batch, steps, heads, e). "norms": of each step the largest
    score and the inverse of the sum of exponentials, (batch, steps, heads, 2). "query", "key", "value": gradients; then
    follow in `ins` that of the context, the norms, and the context. `factors` of products are
    (1) a number of bf16, (2) of fp16, where 16 lines have a scale, or (3) the sum of two of these."""

    out: Tensor
    ins: tuple[str, ...]
    of: str
    scale: float
    factors: int
    causal: bool = False
    beside: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class TileSum:
    """out[c, t] is a sum over the rows of tile t of the result of `product`, a Contract that is computed tile by tile,
    by its kernel (sum_in_tiles). Columns c are the last axis of that result, rows all others; which rows a tile has is
    up to the strategy. `of`: "sum": of `body`; "mean": of `body` by its `weight`, over the sum of weights; "square": of
    the weighted squares of `body` less that mean; "weight": of `weight`, out[t]. Both refer to operands as the body of
    a Map does; `maps` are to the axes of that result."""

    out: Tensor
    product: str
    of: str
    ins: tuple[str, ...]
    maps: tuple[tuple[int | None, ...], ...]
    body: Expr
    weight: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Reindex:
    """out is `source` with another shape, same elements in row-major order (batch axis kept in place)."""

    out: Tensor
    source: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class StepsFirst:
    """The samples of one step after those of another: `source` (batch, steps, ...) as `out` (steps * batch, ...), with
    one row for each sample in each step; `back`: the inverse, of such rows (batch, steps, ...)."""

    out: Tensor
    source: str
    steps: int
    back: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Carried:
    """State of a Scan. `state`: in the body, its value before a step, which is `start` before the first one; `after`:
    in the body, its value after a step; `last`: outside, its value after all steps (None: nothing reads it)."""

    state: Tensor
    start: str
    after: str
    last: Tensor | None = None


@dataclass(frozen=True)
class Given:
    """An input of each step: `part` in the body is the rows of that step of `whole` (steps * batch, ...)."""

    part: Tensor
    whole: str


@dataclass(frozen=True)
class Stacked:
    """An output of each step: `whole` (steps * batch, ...) has `part` of the body as the rows of that step."""

    whole: Tensor
    part: str


@dataclass(frozen=True)
class Scan:
    """`body`, once for each step: Maps, Contracts and Reindexes over its own tensors and, the same in every step,
    those outside. `reverse`: the last step of a sequence comes first. Tensors of the body are named `<name>.<...>`."""

    name: str
    steps: int
    carried: tuple[Carried, ...]
    given: tuple[Given, ...]
    stacked: tuple[Stacked, ...]
    body: tuple[Map | Contract | Reindex, ...]
    reverse: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Rand:
    """Uniform numbers in [0, 1), keyed by `stream`, counter (step, logical row-major element index)."""

    out: Tensor
    stream: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Store:
    """Effect at the end of the phase: variable `target` becomes tensor `value` (same shape)."""

    target: str
    value: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Update:
    """The optimizer instantiated on one weight: statements over `param`, `gradient`, `step`, its params,
    its state (one array of the weight's shape each, initial value given) and `reads`: names of single numbers that
    tensors without axes hold (norms). It runs in the steps k with
    k % every == offset."""

    weight: str
    gradient: str
    params: tuple[tuple[str, float], ...]
    state: tuple[tuple[str, float], ...]
    statements: tuple[l0.Set, ...]
    reads: tuple[tuple[str, str], ...] = ()
    every: int = 1
    offset: int = 0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Node = (
    Feed
    | BatchMask
    | Weight
    | Variable
    | Constant
    | Map
    | Contract
    | Gather
    | ScatterAdd
    | Move
    | Attention
    | TileSum
    | Reindex
    | StepsFirst
    | Scan
    | Rand
    | Store
    | Update
)


READS: Final[Mapping[type[Node], tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys((Map, Contract, Move, Attention, TileSum), ("ins",)),
        **dict.fromkeys((Reindex, StepsFirst), ("source",)),
        Gather: ("index", "table"),
        ScatterAdd: ("source", "index"),
        Store: ("value",),
        Update: ("weight", "gradient"),
    }
)
"""The fields that name the tensors a node reads, beside those of a Scan and the numbers of an Update."""


def operands(node: Node) -> tuple[str, ...]:
    """Names of the tensors that a node reads."""
    if isinstance(node, Scan):
        names = (*(g.whole for g in node.given), *(c.start for c in node.carried))
        return tuple(dict.fromkeys((*names, *outside(node))))
    found: list[str] = []
    for name in READS.get(type(node), ()):
        value = getattr(node, name)
        found += (value,) if isinstance(value, str) else value
    return (*found, *(t for _, t in node.reads)) if isinstance(node, Update) else tuple(found)


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The node with its operands renamed, but for the weight of an Update."""
    if isinstance(node, Scan):
        carried = tuple(replace(c, start=names.get(c.start, c.start)) for c in node.carried)
        given = tuple(replace(g, whole=names.get(g.whole, g.whole)) for g in node.given)
        changed = replace(node, carried=carried, given=given)
        return inside(changed, lambda body: tuple(renamed(n, names) for n in body))
    fields: dict[str, Any] = {}
    for name in READS.get(type(node), ()):
        value = getattr(node, name)
        fields[name] = names.get(value, value) if isinstance(value, str) else tuple(names.get(x, x) for x in value)
    if isinstance(node, Update):
        fields |= {"weight": node.weight, "reads": tuple((n, names.get(t, t)) for n, t in node.reads)}
    return replace(node, **fields) if fields else node


def readers_of(nodes: Iterable[Node]) -> dict[str, list[int]]:
    """For each tensor that nodes read, these, by number."""
    found: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in operands(node):
            found.setdefault(name, []).append(number)
    return found


def outside(scan: Scan) -> tuple[str, ...]:
    """Tensors that are the same in every step and that the body reads."""
    inner = {c.state.name for c in scan.carried} | {g.part.name for g in scan.given} | {n.out.name for n in scan.body}
    return tuple(dict.fromkeys(i for n in scan.body for i in operands(n) if i not in inner))


def taken(scan: Scan) -> tuple[str, ...]:
    """Tensors of the body that the Scan takes from a step."""
    return tuple(dict.fromkeys((*(c.after for c in scan.carried), *(s.part for s in scan.stacked))))


def with_bodies(nodes: Iterable[Node]) -> Iterator[tuple[Node, int]]:
    """The nodes, each Scan after those of its body, and how often each of them is computed."""
    for node in nodes:
        if isinstance(node, Scan):
            yield from ((inner, node.steps) for inner in node.body)
        yield node, 1


def is_sum_of_products(node: Contract) -> bool:
    """Whether each operand has dims of the result that the other one lacks: else it is a weighted sum."""
    if len(node.ins) != 2 or node.combine != "add":
        return False
    used = [{d for a in axes for d, _ in a.terms} for axes in node.in_maps]
    out = {d for a in node.out_map for d, _ in a.terms}
    return bool(out & used[0] - used[1]) and bool(out & used[1] - used[0])


def inside(scan: Scan, change: Callable[[tuple[Node, ...]], tuple[Node, ...]]) -> Scan:
    """The Scan with a changed body. `change` sees the values that the Scan takes from its body as those of Stores."""
    taken = (*(c.after for c in scan.carried), *(s.part for s in scan.stacked))
    nodes = change((*scan.body, *(Store(str(k), name) for k, name in enumerate(taken))))
    values = iter([n.value for n in nodes if isinstance(n, Store)])
    carried = tuple(replace(c, after=next(values)) for c in scan.carried)
    stacked = tuple(replace(s, part=next(values)) for s in scan.stacked)
    body = tuple(n for n in nodes if isinstance(n, Map | Contract | Reindex))
    return replace(scan, carried=carried, stacked=stacked, body=body)


def results(node: Node) -> tuple[Tensor, ...]:
    """The tensors that a node defines."""
    match node:
        case Scan():
            return (*(c.last for c in node.carried if c.last is not None), *(s.whole for s in node.stacked))
        case Store() | Update():
            return ()
        case _:
            return (node.out,)


def tensors_of(nodes: Iterable[Node]) -> dict[str, Tensor]:
    """All tensors by name, those of the bodies of Scans included."""
    found: dict[str, Tensor] = {}
    for node, _ in with_bodies(nodes):
        if isinstance(node, Scan):
            found |= {t.name: t for t in (*(g.part for g in node.given), *(c.state for c in node.carried))}
        found |= {t.name: t for t in results(node)}
    return found


@dataclass(frozen=True)
class TensorGraph:
    """One phase's graph: "train" (forward, backward, updates) or "eval" (forward, metrics). Weights and
    Variables of both phases are the same arrays by name. `outputs` are kept for the host."""

    phase: str
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...] = ()
