"""Programs of one contraction each: dense layers, convolutions and their gradients in gather form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from backends.cpu.backend import LANES
from compiler.expr.ast import Binary, Expr, Ref, substitute
from compiler.ir.level1.graph import Contract, Map, Tensor
from compiler.ir.level2.program import (
    Array,
    ArrayFormal,
    Assign,
    Formal,
    Kernel,
    Lanes,
    Launch,
    Mode,
    Nest,
    Order,
    Phase,
    Program,
    Rows,
    ScalarFormal,
)
from compiler.ir.level2.program import Contract as ContractBody
from compiler.ir.space import Affine, DType, Role, along
from compiler.passes.kernels.nest_builder import Walk, build_loops
from compiler.passes.kernels.tensor_phase import WORKSPACE
from compiler.passes.tensors.decompose import gather_form
from compiler.strategies import Choice

Arrays = dict[str, np.ndarray]
PRODUCT = Binary("*", Ref("x0"), Ref("x1"))


@dataclass(frozen=True)
class Conv:
    """A convolution: `pad` and `dilate` on both sides and axes, `stride` as (rows, columns). A signal is an image of
    one row with windows of one, which has no border of rows."""

    batch: int
    channels: int
    filters: int
    rows: int
    cols: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pad: int = 0
    dilate: int = 1
    groups: int = 1

    @property
    def pads(self) -> tuple[int, int]:
        """Of rows and columns."""
        return self.pad if max(self.rows, self.kernel[0]) > 1 else 0, self.pad

    @property
    def out(self) -> tuple[int, int]:
        def size(extent: int, kernel: int, stride: int, pad: int) -> int:
            return (extent + 2 * pad - self.dilate * (kernel - 1) - 1) // stride + 1

        high, wide = self.pads
        return (
            size(self.rows, self.kernel[0], self.stride[0], high),
            size(self.cols, self.kernel[1], self.stride[1], wide),
        )


def dense(batch: int, features: int, units: int) -> tuple[Contract, dict[str, Tensor]]:
    """y[n, o] = sum over k of x[n, k] w[o, k], as lower_network writes it."""
    tensors = {
        "x": Tensor("x", (batch, features), "real", True),
        "w": Tensor("w", (units, features)),
        "y": Tensor("y", (batch, units), "real", True),
    }
    n, o, k = along("n"), along("o"), along("k")
    dims = (("n", batch), ("o", units), ("k", features))
    return Contract(tensors["y"], dims, (n, o), ("x", "w"), ((n, k), (o, k)), PRODUCT), tensors


def conv(c: Conv) -> tuple[Contract, dict[str, Tensor]]:
    """The forward convolution, as lower_network writes it."""
    oh, ow = c.out
    inner, per = c.channels // c.groups, c.filters // c.groups
    many = (c.groups,) if c.groups > 1 else ()
    g = (along("g"),) if many else ()
    n, k, ch, r, s = (along(d) for d in ("n", "k", "c", "r", "s"))
    rows = Affine((("oh", c.stride[0]), ("r", c.dilate)), -c.pads[0])
    cols = Affine((("ow", c.stride[1]), ("s", c.dilate)), -c.pads[1])
    tensors = {
        "x": Tensor("x", (c.batch, *many, inner, c.rows, c.cols), "real", True),
        "w": Tensor("w", (*many, per, inner, *c.kernel)),
        "y": Tensor("y", (c.batch, *many, per, oh, ow), "real", True),
    }
    size = (("oh", oh), ("ow", ow), ("c", inner), ("r", c.kernel[0]), ("s", c.kernel[1]))
    dims = (("n", c.batch), *((("g", c.groups),) if many else ()), ("k", per), *size)
    out = (n, *g, k, along("oh"), along("ow"))
    maps = ((n, *g, ch, rows, cols), (*g, k, ch, r, s))
    return Contract(tensors["y"], dims, out, ("x", "w"), maps, PRODUCT), tensors


def gradient(forward: Contract, tensors: Mapping[str, Tensor], operand: int) -> tuple[Contract, dict[str, Tensor]]:
    """The gradient of an operand of `forward` in gather form; the incoming gradient is called `d`."""
    other = 1 - operand
    d = replace(forward.out, name="d")
    wanted = tensors[forward.ins[operand]]
    node = Contract(
        replace(wanted, name="y"),
        forward.dims,
        forward.in_maps[operand],
        ("d", forward.ins[other]),
        (forward.out_map, forward.in_maps[other]),
        PRODUCT,
    )
    return gather_form(node), {"d": d, forward.ins[other]: tensors[forward.ins[other]], "y": node.out}


def stored(values: np.ndarray, tensor: Tensor, lanes: int, padding: float = 0.0) -> np.ndarray:
    """Values in physical layout, flat; lanes without a sample hold `padding`. No lanes (0): row-major."""
    if tensor.panel:
        more = np.zeros(tensor.room, values.dtype)
        more[: values.shape[0]] = values
        return more.reshape(-1, tensor.panel, values.shape[1]).swapaxes(1, 2).reshape(-1)
    if not tensor.batched or not lanes:
        return values.reshape(-1)
    blocks = -(-values.shape[0] // lanes)
    padded = np.full((blocks * lanes, *values.shape[1:]), padding, values.dtype)
    padded[: values.shape[0]] = values
    return np.moveaxis(padded.reshape(blocks, lanes, *values.shape[1:]), 1, -1).reshape(-1)


def logical(flat: np.ndarray, tensor: Tensor, lanes: int) -> np.ndarray:
    """The inverse of `stored`, without the lanes that hold no sample."""
    if not tensor.batched or not lanes:
        return flat.reshape(tensor.shape)
    blocks = -(-tensor.shape[0] // lanes)
    values = np.moveaxis(flat.reshape(blocks, *tensor.shape[1:], lanes), -1, 1)
    return values.reshape(blocks * lanes, *tensor.shape[1:])[: tensor.shape[0]]


@dataclass(frozen=True)
class Case:
    """A contraction by a strategy (None: the generic nest), and an epilogue: a Map whose operand 0 is the contraction
    and whose other operands are arrays of `tensors`."""

    node: Contract
    tensors: Mapping[str, Tensor]
    choice: Choice | None
    after: Map | None = None


def program(cases: Sequence[Case], real: DType, row_major: bool = False) -> Program:
    """One kernel with one row for each case; the arrays of case i are called `i.x`, `i.w`, ..., `i.y`."""
    lanes = 0 if row_major else LANES * 4 // real.bytes
    kernels, arrays = [], []
    for number, case in enumerate(cases):
        kernel, used = _kernel(case, f"{number}.", lanes, real)
        kernels.append(kernel)
        arrays += [
            Array(
                f"{number}.{n}",
                type_of(t, real),
                (t.room if t.panel else t.shape) or (1,),
                Role.DATA,
                Lanes(lanes) if t.batched and lanes else None,
            )
            for n, t in used.items()
        ]
    phase = Phase("train", tuple(Launch(i, 0, 1) for i in range(len(kernels))))
    return Program("contraction", real, Order.REPRODUCIBLE, tuple(arrays), tuple(kernels), (phase,))


def type_of(tensor: Tensor, real: DType) -> DType:
    """Of its array."""
    return DType.BF16 if tensor.dtype == "bf16" else real


def _kernel(case: Case, prefix: str, lanes: int, real: DType) -> tuple[Kernel, dict[str, Tensor]]:
    node, tensors, after = case.node, case.tensors, case.after
    walks = [Walk("y", node.out, node.out_map)]
    walks += [Walk(f"x{k}", tensors[n], m) for k, (n, m) in enumerate(zip(node.ins, node.in_maps, strict=True))]
    bound = {f"x{k}": n for k, n in enumerate(node.ins)}
    value: Expr = Ref("acc")
    if after is not None:
        names: dict[str, Expr] = {"x0": Ref("acc")}
        for k, (name, axes) in enumerate(zip(after.ins[1:], after.maps[1:], strict=True), 1):
            names[f"x{k}"] = Ref(f"e{k}")
            bound[f"e{k}"] = name
            walked = tuple(Affine() if a is None else node.out_map[a] for a in axes)
            walks.append(Walk(f"e{k}", tensors[name], walked))
        value = substitute(after.body, names)
    parallel = [a.terms[0][0] for a in node.out_map]
    window = {d for m in node.in_maps for a in m if len(a.terms) > 1 for d, _ in a.terms} - set(parallel)
    every = frozenset(d for d, _ in node.dims)
    literal = frozenset(window) if case.choice is None else frozenset[str]()  # strategies take windows as data
    joined = case.choice is not None and case.choice.joined
    loops = build_loops(walks, node.dims, parallel, literal, lanes, frozenset() if joined else every)
    nest = Nest(loops.dims, (), "add", node.body, "acc", (Assign("y", value),), node.fill)
    columns = dict(loops.columns)
    body: Nest | ContractBody = nest
    room = case.choice.workspace if case.choice is not None else 0
    if case.choice is not None:
        columns |= dict(case.choice.columns)
        columns["scratch_bytes"] = case.choice.scratch_bytes
        body = ContractBody(nest, case.choice.strategy, case.choice.literals, "scratch_bytes")
    formals: tuple[Formal, ...] = (
        ArrayFormal("y", type_of(tensors["y"], real), Mode.WRITE, loops.accesses["y"]),
        *(ArrayFormal(f, type_of(tensors[n], real), Mode.READ, loops.accesses[f]) for f, n in bound.items()),
        *((replace(WORKSPACE, dtype=real),) if room else ()),
        *(ScalarFormal(c, DType.I64) for c in columns),
    )
    if room:
        bound["workspace"] = "workspace"
        tensors = {**tensors, "workspace": Tensor("workspace", (room,))}
    rows = Rows(
        1,
        {"y": (f"{prefix}y",), **{f: (prefix + n,) for f, n in bound.items()}},
        {c: np.array([v], np.int64) for c, v in columns.items()},
        (f"layer {prefix}",),
    )
    used = {"y": node.out, **{n: tensors[n] for n in bound.values()}}
    return Kernel("layer: contraction", formals, body, rows), used
