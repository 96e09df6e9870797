"""The model that an ONNX file becomes, while it is being made.

Assumes: nothing.
Guarantees: names that the language allows; a layer is added in one place.
Does not: read operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.errors import RunError

Array = npt.NDArray[Any]
Setting = int | float | bool | str | list[int] | list[str]


@dataclass(frozen=True)
class Computed:
    """What a layer or input gives. `shape`: of a sample. `whole`: integers; `counted`: integers of the graph that are
    real numbers here, as all that layers compute; `truth`: 0 or 1 for false or true.
    `batch`: how many axes of the sample stand before the batch in the graph's tensor. `before`, `after`: how many of
    those next to it are one axis with the batch there, as when heads and batch are joined: 0 or 1."""

    name: str
    shape: tuple[int, ...]
    whole: bool = False
    counted: bool = False
    truth: bool = False
    batch: int = 0
    before: int = 0
    after: int = 0

    @property
    def lead(self) -> int:
        """The axis of the graph's tensor that is or has the batch."""
        return self.batch - self.before

    @property
    def rank(self) -> int:
        """Axes of the graph's tensor."""
        return len(self.shape) + 1 - self.before - self.after

    @property
    def ahead(self) -> tuple[int, ...]:
        """Extents of the axes of the graph's tensor before that of the batch."""
        return self.shape[: self.lead]

    @property
    def own(self) -> tuple[int, ...]:
        """Extents of the sample's axes that are one axis with the batch."""
        return self.shape[self.lead : self.batch + self.after]

    @property
    def behind(self) -> tuple[int, ...]:
        """Extents of the axes of the graph's tensor after that of the batch."""
        return self.shape[self.batch + self.after :]

    def at(self, x: Computed) -> Computed:
        """The same with the batch where `x` has it."""
        return replace(self, batch=x.batch, before=x.before, after=x.after)

    def like(self, x: Computed) -> Computed:
        """The same as elements of `x`, which a layer has moved."""
        return replace(self, whole=False, counted=x.counted or x.whole, truth=x.truth)

    def among(self, x: Computed, ahead: int) -> Computed:
        """The same with the batch after so many axes of the graph's tensor, joined with others as in `x`."""
        return replace(self, batch=ahead + x.before, before=x.before, after=x.after)


@dataclass(frozen=True)
class Repeated:
    """`source` with axes of extent 1 repeated up to `shape`, before a layer does it: most readers broadcast anyway."""

    source: Computed
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Batches:
    """An extent: so many times the size of the batch."""

    times: int


MARKS = (1_000_003, 1_000_033)
"""Two sizes of a batch (primes): what is computed from both shows how it depends on the size."""


@dataclass(frozen=True)
class Sized:
    """A constant that depends on the size of the batch: its values for batches of both `MARKS`."""

    values: tuple[Array, Array]

    def extents(self) -> list[int | Batches] | None:
        """As the extents of a shape; None if they are no multiples of the batch."""
        found: list[int | Batches] = []
        for one, two in zip(*(v.reshape(-1).tolist() for v in self.values), strict=True):
            times = one // MARKS[0]
            if one == two:
                found.append(int(one))
            elif times > 0 and (one, two) == (times * MARKS[0], times * MARKS[1]):
                found.append(Batches(int(times)))
            else:
                return None
        return found


@dataclass(frozen=True)
class Scores:
    """What attention computes before its values come in, which is no layer: softmax(q k * scale + offset) once it is
    `normal`, else what stands in the brackets. q: (heads, steps, d), k: (heads, d, others), without heads where there
    is one; `whole`: of a sample's scores, with the batch where the graph has it. `offset` and `mask`: of the shapes
    that the layers allow. `undefined`: truth values, where shares are no numbers: of steps that see nothing."""

    q: Computed
    k: Computed
    whole: Computed
    scale: float = 1.0
    causal: bool = False
    normal: bool = False
    offset: Computed | None = None
    mask: Computed | None = None
    undefined: bool = False


@dataclass(frozen=True)
class Attended:
    """What a layer of attention was made of: tensors of (steps, features), what else it reads by its key, and the
    projection after it, if there is one."""

    q: Computed
    k: Computed
    v: Computed
    heads: int
    scale: float
    causal: bool
    beside: Mapping[str, Computed] = field(default_factory=dict)
    out: Array | None = None
    bias: Array | None = None


@dataclass
class LayerText:
    """One entry of `layers`. A `map` has its formula under its own name in `settings`."""

    kind: str
    name: str
    settings: dict[str, Setting]

    @property
    def reads(self) -> set[str]:
        """Names of layers and inputs, among others."""
        if self.kind == "map":
            return set(re.findall(r"\w+", str(self.settings[self.name])))
        given = self.settings.get("inputs")
        found = {given} if isinstance(given, str) else {str(n) for n in given} if isinstance(given, list) else set()
        return found | {str(self.settings[key]) for key in l0.BESIDE if key in self.settings}


@dataclass
class Importer:
    """The model while it is being made. `values`: of each tensor of the graph; `uses`: how often it is read;
    `batch`: its size where the graph fixes it; `sources`: what each layer with one input reads; `attended`: what each
    `attention` was made of; `factors`: what a layer multiplies by a number, and that number; `reals`: inputs with
    integers as real numbers; `masks`: what is seen, by what is 0 there and infinitely low elsewhere; `shrunk`:
    constants as large as the batch in the graph, which have an extent of 1 here; `shown`: shares of attention that
    others than its values read."""

    opset: int
    values: dict[str, Computed | Repeated | Scores | Sized | Array] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    batch: int | None = None
    layers: list[LayerText] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    sources: dict[str, Computed] = field(default_factory=dict)
    attended: dict[str, Attended] = field(default_factory=dict)
    factors: dict[str, tuple[Computed, float]] = field(default_factory=dict)
    reals: dict[str, Computed] = field(default_factory=dict)
    masks: dict[str, Computed] = field(default_factory=dict)
    shrunk: set[str] = field(default_factory=set)
    shown: dict[Scores, Computed] = field(default_factory=dict)

    def fresh(self, hint: str) -> str:
        """A name that the language allows, like `hint`."""
        word = re.sub(r"\W+", "_", hint, flags=re.ASCII).strip("_") or "layer"
        word = word if word[0].isalpha() else f"l_{word}"
        while _RESERVED.fullmatch(word) or word in _WORDS:
            word += "_layer"
        name, k = word, 1
        while name in self.names:
            k += 1
            name = f"{word}_{k}"
        self.names.add(name)
        return name

    def layer(self, kind: str, hint: str, inputs: list[Computed], settings: dict[str, Setting],
              shape: tuple[int, ...], weights: dict[str, Array] | None = None) -> Computed:  # fmt: skip
        """Appends a layer that reads `inputs`."""
        name = self.fresh(hint)
        read: Setting = inputs[0].name if len(inputs) == 1 else [i.name for i in inputs]
        self.layers.append(LayerText(kind, name, {**({"inputs": read} if inputs else {}), **settings}))
        if len(inputs) == 1:
            self.sources[name] = inputs[0]
        for part, values in (weights or {}).items():
            self.weights[f"{name}.{part}"] = values
        return Computed(name, shape)

    def formula(self, hint: str, text: str, shape: tuple[int, ...], truth: bool = False) -> Computed:
        """Appends a `map`."""
        name = self.fresh(hint)
        self.layers.append(LayerText("map", name, {name: text}))
        return Computed(name, shape, truth=truth)

    def real(self, x: Computed) -> Computed:
        """`x` as real numbers."""
        if not x.whole:
            return x
        if x.name not in self.reals:
            self.reals[x.name] = self.formula(f"{x.name}_real", f"float({x.name})", x.shape).like(x)
        return self.reals[x.name].at(x)

    def mask_of(self, x: Computed) -> Computed | None:
        """What is seen, if `x` is 0 there and infinitely low elsewhere."""
        at = x
        while (layer := self.made(at.name)) is not None and layer.kind == "reshape":
            at = self.sources[at.name]
        seen = self.masks.get(at.name)
        return None if seen is None else self.reshape(f"{seen.name}_seen", seen, x.shape).at(x)

    def made(self, name: str) -> LayerText | None:
        """The layer of a name; None for an input."""
        return next((x for x in self.layers if x.name == name), None)

    def parts(self, name: str) -> dict[str, Array]:
        """The weights of a layer."""
        lead = f"{name}."
        return {n.removeprefix(lead): v for n, v in self.weights.items() if n.startswith(lead)}

    def reshape(self, hint: str, x: Computed, shape: tuple[int, ...]) -> Computed:
        """The elements of `x` with other axes. A reshape of a reshape is one, or none."""
        source = x
        while (layer := self.made(source.name)) is not None and layer.kind == "reshape":
            source = self.sources[source.name]
        if shape != source.shape:
            return self.layer("reshape", hint, [self.real(source)], {"shape": list(shape)}, shape).like(x).at(x)
        return source.at(x)

    def permute(self, hint: str, x: Computed, axes: list[int]) -> Computed:
        """The axes of `x` in another order. A permutation of a permutation is one, or none."""
        source = x
        while (layer := self.made(source.name)) is not None and layer.kind == "permute":
            inner = layer.settings["axes"]
            assert isinstance(inner, list)
            axes, source = [int(inner[a]) for a in axes], self.sources[source.name]
        if axes != list(range(len(axes))):
            shape = tuple(source.shape[a] for a in axes)
            return self.layer("permute", hint, [self.real(source)], {"axes": list(axes)}, shape).like(x).at(x)
        return source.at(x)


_RESERVED = re.compile(
    r"loss|batch|metric|clip|penalty|accuracy|precision|recall|f1|r2|top_\d+|mean_(?:absolute|squared)_error"
)
_WORDS = frozenset(
    {
        "and", "or", "not", "if", "else", "true", "false", "null", "e", "pi", "inf", "nan", "t", "dt", "step", "epoch"
    }
)  # fmt: skip


def refused(node: Any, reason: str) -> RunError:
    """E0918 for a node."""
    where = (
        f" (node `{node.name}`)" if node.name else f" (the node that makes `{node.output[0]}`)" if node.output else ""
    )
    return RunError("E0918", f"the operator {node.op_type}{where} cannot be imported: {reason}", exit_code=1)
