"""An ONNX graph while it is being made: nodes, initializers, expressions as nodes.

Assumes: the package `onnx` (extra `onnx`).
Guarantees: names are unique; equal constants are one initializer; what an expression cannot say in ONNX raises
RunError (E0918) with the function's name.
Does not: know layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.core.errors import RunError
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Ref, Unary
from compiler.expr.inline import expand
from compiler.expr.show import show

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


GATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "rnn": ("state",),
        "gru": ("update", "reset", "candidate"),
        "lstm": ("input", "output", "forget", "cell"),
    }
)
"""The gates of recurrent layers in ONNX's order."""


def onnx_package() -> Any:
    """The package `onnx`. Raises RunError (E0919, exit 3) when it is not installed."""
    try:
        import onnx
    except ImportError:
        message = "the package `onnx` is not installed"
        raise RunError("E0919", message, "pip install 'netloom[onnx]'", exit_code=3) from None
    return onnx


def no_operator(what: str) -> RunError:
    return RunError("E0918", f"{what} has no operator in ONNX", exit_code=1)


@dataclass
class OnnxGraph:
    """`dtype`: of real numbers."""

    dtype: npt.DTypeLike
    nodes: list[Any] = field(default_factory=list)
    initializers: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    _constants: dict[object, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    @property
    def real(self) -> int:
        """ONNX's number of the type of real numbers."""
        return int(onnx_package().helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)))

    def reserve(self, names: Sequence[str]) -> None:
        """Names that are given to tensors by the caller."""
        self._names.update(names)

    def unique(self, hint: str) -> str:
        name, k = hint, 1
        while name in self._names:
            k += 1
            name = f"{hint}_{k}"
        self._names.add(name)
        return name

    def node(self, op: str, ins: Sequence[str], name: str, attrs: Mapping[str, object] | None = None,
             outputs: int = 1) -> Any:  # fmt: skip
        """Appends a node; returns the name of its output, or of its outputs when there are several ("": not made)."""
        out = self.unique(name)
        outs = [out] if outputs == 1 else ["" for _ in range(outputs - 1)] + [out]
        helper = onnx_package().helper
        self.nodes.append(helper.make_node(op, list(ins), outs, name=self.unique(f"{name}/{op}"), **(attrs or {})))
        return out

    def weight(self, name: str, values: npt.NDArray[Any]) -> str:
        """An initializer of real numbers with a name of its own."""
        out = self.unique(name)
        self.initializers[out] = np.ascontiguousarray(values, self.dtype)
        return out

    def constant(self, values: npt.ArrayLike, whole: bool = False) -> str:
        """Numbers: real, or (`whole`) 64-bit integers such as shapes."""
        array = np.asarray(values, np.int64 if whole else self.dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.unique("constant")
            self.initializers[name] = array
            self._constants[key] = name
        return self._constants[key]

    def reshape(self, x: str, shape: Sequence[int], name: str) -> str:
        """The same elements as (batch, *shape)."""
        return str(self.node("Reshape", [x, self.constant([-1, *shape], True)], name))

    def expression(self, e: Expr, bound: Mapping[str, str], name: str) -> str:
        """The nodes of an expression; `bound`: tensors by name. Raises RunError (E0918)."""

        def walk(e: Expr) -> str:
            match e:
                case Num(value):
                    return self.constant(float(value))
                case Bool(value):
                    return str(self.node("Cast", [self.constant(float(value))], name, {"to": 9}))
                case Ref(ref):
                    return bound[ref]
                case Unary("-", x):
                    return str(self.node("Neg", [walk(x)], name))
                case Unary("not", x):
                    return str(self.node("Not", [walk(x)], name))
                case Binary("!=", a, b):
                    return str(self.node("Not", [str(self.node("Equal", [walk(a), walk(b)], name))], name))
                case Binary("//" | "%" as op, a, b):
                    left, right = walk(a), walk(b)
                    times = str(self.node("Floor", [str(self.node("Div", [left, right], name))], name))
                    if op == "//":
                        return times
                    return str(self.node("Sub", [left, str(self.node("Mul", [right, times], name))], name))
                case Binary(op, a, b) if op in _BINARY:
                    return str(self.node(_BINARY[op], [walk(a), walk(b)], name))
                case Cond(test, a, b):
                    return str(self.node("Where", [walk(test), walk(a), walk(b)], name))
                case Call("heaviside" | "exprel"):
                    return walk(expand(e))
                case Call(func, args):
                    return call(func, [walk(a) for a in args], e)
            raise no_operator(f"`{show(e)}` of `{name}`")

        def call(func: str, args: list[str], e: Expr) -> str:
            one = self.constant(1.0)
            match func:
                case "max" | "min":
                    return str(self.node(func.capitalize(), args, name))
                case "clip":
                    low = str(self.node("Max", args[:2], name))
                    return str(self.node("Min", [low, args[2]], name))
                case "expm1":
                    return str(self.node("Sub", [str(self.node("Exp", args, name)), one], name))
                case "log1p":
                    return str(self.node("Log", [str(self.node("Add", [args[0], one], name))], name))
                case "log2" | "log10":
                    base = self.constant(np.log(2.0 if func == "log2" else 10.0))
                    return str(self.node("Div", [str(self.node("Log", args, name)), base], name))
                case "int":
                    size = str(self.node("Floor", [str(self.node("Abs", args, name))], name))
                    return str(self.node("Mul", [str(self.node("Sign", args, name)), size], name))
                case "float":
                    return str(self.node("Cast", args, name, {"to": self.real}))
                case "select" | "where" if len(args) == 3:
                    return str(self.node("Where", args, name))
                case _ if func in _UNARY and len(args) == 1:
                    return str(self.node(_UNARY[func], args, name))
            raise no_operator(f"`{show(e)}` of `{name}`")

        return walk(e)
