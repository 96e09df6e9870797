"""Builder of an ONNX graph: nodes as data, initializers, expressions as nodes.

Assumes: nothing; the package `onnx` is not required.
Guarantees: names are unique; equal constants are one initializer; a function without an ONNX equivalent raises
RunError (E0918) with its name.
Does not: depend on kinds of layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.core.names import numbered_name
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Ref, Unary, show
from compiler.expr.inline import expand

Reals = npt.NDArray[np.floating]

OPSET = 21
IR_VERSION = 10

_UNARY = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil",
    "round": "Round", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "softplus": "Softplus",
    "erf": "Erf",
}  # fmt: skip
_BINARY = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow", "<": "Less", "<=": "LessOrEqual", ">": "Greater",
    ">=": "GreaterOrEqual", "==": "Equal", "and": "And", "or": "Or",
}  # fmt: skip

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11
"""Codes of element types (TensorProto.DataType of onnx.proto)."""


def no_operator(what: str) -> RunError:
    return RunError("E0918", f"{what} has no operator in ONNX")


@dataclass(frozen=True)
class Node:
    """`ins`, `outs`: names of tensors, "" where there is none."""

    op: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    name: str
    attrs: Mapping[str, object] = field(default_factory=dict)


@dataclass
class OnnxGraph:
    """`dtype`: of real numbers."""

    dtype: npt.DTypeLike
    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    _constants: dict[object, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    @property
    def real(self) -> int:
        """ONNX's code of the floating-point type."""
        return DOUBLE if np.dtype(self.dtype) == np.float64 else FLOAT

    def reserve(self, names: Sequence[str]) -> None:
        """Reserves names of tensors used by the caller."""
        self._names.update(names)

    def unique(self, hint: str) -> str:
        name = numbered_name(hint, self._names)
        self._names.add(name)
        return name

    def node(self, op: str, ins: Sequence[str], name: str, attrs: Mapping[str, object] | None = None,
             outputs: int = 1) -> str:  # fmt: skip
        """Appends a node; returns the name of its last output, the only one that is generated."""
        out = self.unique(name)
        outs = (*("" for _ in range(outputs - 1)), out)
        self.nodes.append(Node(op, tuple(ins), outs, self.unique(f"{name}/{op}"), attrs or {}))
        return out

    def weight(self, name: str, values: npt.NDArray[Any]) -> str:
        """A named floating-point initializer."""
        out = self.unique(name)
        self.initializers[out] = np.ascontiguousarray(values, self.dtype)
        return out

    def constant(self, values: npt.ArrayLike, whole: bool = False) -> str:
        """Constants: floating-point, or (`whole`) 64-bit integers such as shapes."""
        return self._held(np.asarray(values, np.int64 if whole else self.dtype))

    def number(self, value: int) -> str:
        """A constant of the type of whole numbers of the data."""
        return self._held(np.asarray(value, np.int32))

    def _held(self, array: npt.NDArray[Any]) -> str:
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.unique("constant")
            self.initializers[name] = array
            self._constants[key] = name
        return self._constants[key]

    def reshape(self, x: str, shape: Sequence[int], name: str) -> str:
        """The same elements as (batch, *shape)."""
        return self.node("Reshape", [x, self.constant([-1, *shape], True)], name)

    def expression(self, e: Expr, bound: Mapping[str, str], name: str) -> str:
        """The nodes of an expression; `bound`: tensors by name. Raises RunError (E0918)."""

        walk = partial(self.expression, bound=bound, name=name)
        match e:
            case Num(value):
                return self.constant(float(value))
            case Bool(value):
                return self.node("Cast", [self.constant(float(value))], name, {"to": BOOL})
            case Ref(ref):
                return bound[ref]
            case Unary("-", x):
                return self.node("Neg", [walk(x)], name)
            case Unary("not", x):
                return self.node("Not", [walk(x)], name)
            case Binary("!=", a, b):
                return self.node("Not", [self.node("Equal", [walk(a), walk(b)], name)], name)
            case Binary("//" | "%" as op, a, b):
                return self._floored(op, walk(a), walk(b), name)
            case Binary(op, a, b) if op in _BINARY:
                return self.node(_BINARY[op], [walk(a), walk(b)], name)
            case Cond(test, a, b):
                return self.node("Where", [walk(test), walk(a), walk(b)], name)
            case Call("heaviside" | "exprel"):
                return walk(expand(e))
            case Call(_, args):
                return self._call(e, [walk(a) for a in args], name)
        raise no_operator(f"`{show(e)}` of `{name}`")

    def _floored(self, op: str, left: str, right: str, name: str) -> str:
        """`//`, rounded down, or its remainder."""
        times = self.node("Floor", [self.node("Div", [left, right], name)], name)
        return times if op == "//" else self.node("Sub", [left, self.node("Mul", [right, times], name)], name)

    def _call(self, e: Call, args: list[str], name: str) -> str:
        """The nodes of a call whose arguments are `args`. Raises RunError (E0918)."""
        one = self.constant(1.0)
        match e.func:
            case "max" | "min":
                return self.node(e.func.capitalize(), args, name)
            case "clip":
                low = self.node("Max", args[:2], name)
                return self.node("Min", [low, args[2]], name)
            case "expm1":
                return self.node("Sub", [self.node("Exp", args, name), one], name)
            case "log1p":
                return self.node("Log", [self.node("Add", [args[0], one], name)], name)
            case "log2" | "log10":
                base = self.constant(np.log(2.0 if e.func == "log2" else 10.0))
                return self.node("Div", [self.node("Log", args, name), base], name)
            case "int":
                size = self.node("Floor", [self.node("Abs", args, name)], name)
                return self.node("Mul", [self.node("Sign", args, name), size], name)
            case "float":
                return self.node("Cast", args, name, {"to": self.real})
            case "select" | "where" if len(args) == 3:
                return self.node("Where", args, name)
            case func if func in _UNARY and len(args) == 1:
                return self.node(_UNARY[func], args, name)
        raise no_operator(f"`{show(e)}` of `{name}`")


@dataclass
class Writer:
    """`named`: the tensor of each layer and input; `shapes`: of a sample; `shared`: names of arrays of several layers,
    which are initializers once; `held`: those that are initializers by now; `whole`: layers and inputs that hold whole
    numbers."""

    graph: OnnxGraph
    weights: Mapping[str, Reals]
    shapes: Mapping[str, tuple[int, ...]]
    named: dict[str, str] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    held: dict[str, str] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()

    def real(self, layer: l0.Layer, k: int) -> str:
        """What a layer computes with as real numbers."""
        name, x = layer.inputs[k], self.source(layer, k)
        return (
            self.graph.node("Cast", [x], f"{layer.name}/{name}/real", {"to": self.graph.real})
            if name in self.whole
            else x
        )

    def values(self, layer: l0.Layer, part: str) -> Reals:
        return self.weights[layer.array(part)]

    def weight(self, layer: l0.Layer, part: str) -> str:
        """The initializer of a trained array."""
        name = layer.array(part)
        if name not in self.held:
            self.held[name] = self.graph.weight(name, self.weights[name])
        return self.held[name]

    def source(self, layer: l0.Layer, k: int = 0) -> str:
        return self.named[layer.inputs[k]]

    def shape(self, layer: l0.Layer, k: int = 0) -> tuple[int, ...]:
        return self.shapes[layer.inputs[k]]

    def linear(self, layer: l0.Layer, x: str, rank: int, part: str = "") -> str:
        """x W + b over the last axis of a tensor with `rank` axes besides the batch."""
        g, lead = self.graph, f"{part}." if part else ""
        has_bias, turned = bool(layer.attr("bias")), dict(layer.attrs).get("transposed") is True
        name = f"{layer.name}/{part or 'sum'}"
        if rank == 1:
            ins = [x, self.weight(layer, f"{lead}weight")] + ([self.weight(layer, f"{lead}bias")] if has_bias else [])
            return g.node("Gemm", ins, name, {} if turned else {"transB": 1})
        array = layer.array(f"{lead}weight")
        if turned:
            matrix = self.weight(layer, f"{lead}weight")
        elif array in self.shared:
            matrix = g.node("Transpose", [self.weight(layer, f"{lead}weight")], f"{name}/turned", {"perm": [1, 0]})
        else:
            matrix = g.weight(array, self.weights[array].T)
        y = g.node("MatMul", [x, matrix], name)
        return g.node("Add", [y, self.weight(layer, f"{lead}bias")], f"{name}/biased") if has_bias else y
