"""Definition of a kind of layer: its keys, shape rule, lowering and ONNX operators in one object.

Assumes: nothing of any kind; compiler/layers/__init__.py lists them.
Guarantees: frontend, passes and interchange derive everything about kinds from these objects.
Does not: read files (the frontend fills a Place), or order layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import Alternative, Block, Expression
from compiler.layers.shared.keys import FUNCTION, INPUTS, LAYER_REFERENCE
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Importer
from compiler.layers.shared.onnx.inputs import Attrs

Shape = tuple[int, ...]
"""Extents of one sample, without the batch."""
Setting = int | float | bool | str | tuple[int, ...]
Result = tuple[Shape, dict[str, l0.Attr]]
Array = npt.NDArray[Any]


class Misfit(Exception):
    """Incompatible sources or settings of a layer: `key` is the invalid setting (None: the layer)."""

    def __init__(self, message: str, help: str | None = None, key: str | None = None, code: str = "E0501") -> None:
        super().__init__(message)
        self.message, self.help, self.key, self.code = message, help, key, code


@dataclass(frozen=True)
class Place:
    """One layer, for the shape rule of its kind. `source`: its first source; `values`: of its keys, typed by their
    Fields (integer, real, flag, word, integers of a list; of `init`: the initialiser's name); an absent key has its
    default or is omitted."""

    kind: str
    source: str
    values: Mapping[str, Setting]

    def integer(self, key: str, absent: int | None = None) -> int:
        value = self.values.get(key, absent)
        assert isinstance(value, int)
        return value

    def real(self, key: str, absent: float | None = None) -> float:
        value = self.values.get(key, absent)
        assert isinstance(value, int | float)
        return float(value)

    def integers(self, key: str) -> Shape:
        value = self.values[key]
        assert isinstance(value, tuple)
        return value

    def each(self, key: str, rank: int) -> Shape:
        """`3` or `[3, 5]`: one number for each dimension."""
        value = self.values[key]
        values = value if isinstance(value, tuple) else (self.integer(key),) * rank
        if len(values) != rank:
            raise Misfit(f"`{key}` has {len(values)} numbers, but there are {rank} dimensions", None, key)
        return values

    def axis(self, shape: Shape, absent: int | None = None) -> int:
        """`axis`, checked against the shape."""
        axis = self.integer("axis", absent)
        if axis >= len(shape):
            axes = (
                "no axes" if not shape else f"the axes 0 to {len(shape) - 1}" if len(shape) > 1 else "the axis 0 only"
            )
            raise Misfit(f"`{self.source}` has {axes} (shape {shown(shape)}, without the batch)", None, "axis")
        return axis

    def attrs(self, *keys: str) -> dict[str, l0.Attr]:
        """Settings that become attributes unchanged."""
        return {key: self.values[key] for key in keys}


def shown(shape: Shape) -> str:
    return "[" + ", ".join(str(n) for n in shape) + "]"


def article(word: str) -> str:
    """The article of a kind's name."""
    return "an" if word[0] in "aei" or word in ("lstm", "rnn") else "a"


def keeps(*keys: str) -> Callable[[Place, Shape], Result]:
    """The shape rule of shape-preserving kinds, whose attributes are these settings."""
    return lambda p, x: (x, p.attrs(*keys))


def steps_and_features(p: Place, x: Shape) -> Shape:
    """`x`, checked to have these two axes. Raises Misfit."""
    if len(x) != 2:
        message = f"{article(p.kind)} {p.kind} layer reads steps and features; `{p.source}` has the shape {shown(x)}"
        raise Misfit(message, "for example [20, 64]: 20 steps of 64 numbers")
    return x


def never(layer: l0.Layer) -> bool:
    return False


def always(layer: l0.Layer) -> bool:
    return True


FIXED = -(2**40)
"""What is added to a number that a layer itself puts among elements of samples, which are counted from 0."""


def fixed(value: int) -> int:
    """A whole number of 32 bits among the elements of samples."""
    return FIXED + value


Reads = Callable[[Importer, Any, list[Any], Attrs], Any]


@dataclass(frozen=True)
class LayerKind:
    """`keys`: the name, the settings, and the texts of the language. `shape(place, *shapes)`: shape and attributes
    from the shapes of the sources. Raises Misfit. `lower(context, layer, *tensors)`: the nodes of a graph; (batch,
    ...) in and out; the activation is applied afterwards. `write(writer, layer)`: its nodes in ONNX; `read`: ONNX
    operators that are layers of the kind, by name. `trained`: whether a layer has trained arrays. `norm`: they are of
    the class "norms". `matrices`: `init` means several of them. `channels`: the axis of its weight's output channels,
    where a batch_norm after it can become part of its weights. `integers`: it reads integers below its `count`, which
    is the number of these ("rows"). `training`: it acts in training only. `moves`: its result need not be
    materialized. `stops`: no gradient passes through it. `applies`: the function that it is, where no key says it.
    `carries(layer, *arrays)`: what it does to the elements of samples, of a kind that only moves them: it takes whole
    numbers, too, and gives them; `fixed` numbers (compiler/layers/shared/elements.py) are its own."""

    keys: Alternative
    shape: Callable[..., Result]
    lower: Callable[..., l1.Tensor]
    write: Callable[[Writer, l0.Layer], str]
    read: Mapping[str, Reads] = field(default_factory=dict, hash=False)
    trained: Callable[[l0.Layer], bool] = never
    norm: bool = False
    matrices: bool = False
    channels: int | None = None
    integers: str = ""
    training: bool = False
    moves: bool = False
    stops: bool = False
    applies: str = ""
    carries: Callable[..., Array] | None = None

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def settings(self) -> Block:
        """Its keys; none where its value is formulas."""
        return self.keys.kind if isinstance(self.keys.kind, Block) else Block(self.name, ())

    def limit(self, layer: l0.Layer) -> tuple[int, str] | None:
        """The exclusive upper bound of the integers that a layer reads, and why; None if it reads none, or any."""
        if not self.integers or dict(layer.attrs).get("lenient") is True:
            return None
        count = layer.attr("count")
        assert isinstance(count, int)
        return count, f"`{layer.name}` has {count} {self.integers}, for the numbers 0 to {count - 1}"

    @property
    def sources(self) -> int | None:
        """The number of its sources: 0 or 1; None for several."""
        given = self.settings.by_name.get("inputs")
        return 0 if given is None else 1 if given == INPUTS else None

    @property
    def beside(self) -> tuple[str, ...]:
        """Keys that name further sources besides `inputs`, in order."""
        return tuple(f.name for f in self.settings.fields if f.kind == LAYER_REFERENCE)

    @property
    def activation(self) -> str | None:
        """The key of the activation."""
        return next((f.name for f in self.settings.fields if f.kind == FUNCTION), None)

    @property
    def formula(self) -> str | None:
        """The key of an expression over the input, `x`, which may draw random numbers."""
        return next((f.name for f in self.settings.fields if isinstance(f.kind, Expression)), None)
