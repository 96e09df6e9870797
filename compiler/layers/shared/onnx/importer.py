"""Builder of the model imported from an ONNX file.

Assumes: nothing.
Guarantees: names are valid in the language; layers are added in one place.
Does not: interpret operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.core.names import numbered_name
from compiler.layers.shared.keys import RESERVED

Array = npt.NDArray[Any]
Setting = int | float | bool | str | list[int] | list[str]


@dataclass(frozen=True)
class Computed:
    """The value of a layer or input. `shape`: of a sample. `whole`: integers; `counted`: integers of the graph that
    are real numbers here, as are all results of layers; `truth`: Booleans as 0 or 1. `batch`: the number of the
    sample's axes before the batch in the graph's tensor. `before`, `after`: the number of adjacent axes merged with
    the batch there, as when heads and batch are merged: 0 or 1."""

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
        """The axis of the graph's tensor that is or contains the batch."""
        return self.batch - self.before

    @property
    def rank(self) -> int:
        """Rank of the graph's tensor."""
        return len(self.shape) + 1 - self.before - self.after

    @property
    def ahead(self) -> tuple[int, ...]:
        """Extents of the axes of the graph's tensor before that of the batch."""
        return self.shape[: self.lead]

    @property
    def own(self) -> tuple[int, ...]:
        """Extents of the sample's axes merged with the batch."""
        return self.shape[self.lead : self.batch + self.after]

    @property
    def behind(self) -> tuple[int, ...]:
        """Extents of the axes of the graph's tensor after that of the batch."""
        return self.shape[self.batch + self.after :]

    def at(self, x: Computed) -> Computed:
        """The same with the batch axis of `x`."""
        return replace(self, batch=x.batch, before=x.before, after=x.after)

    def like(self, x: Computed) -> Computed:
        """The same as elements of `x` that a layer gives as real numbers."""
        return replace(self, whole=False, counted=x.counted or x.whole, truth=x.truth)

    def moved(self, x: Computed) -> Computed:
        """The same as elements of `x`, moved by a layer that leaves whole numbers what they are."""
        return replace(self, whole=x.whole, counted=x.counted, truth=x.truth).at(x)

    def among(self, x: Computed, ahead: int) -> Computed:
        """The same with the batch after that many axes of the graph's tensor, merged with others as in `x`."""
        return replace(self, batch=ahead + x.before, before=x.before, after=x.after)


@dataclass(frozen=True)
class Repeated:
    """`source` broadcast to `shape`, deferred: most readers broadcast implicitly."""

    source: Computed
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Batches:
    """An extent that is a multiple of the batch size."""

    times: int


MARKS = (1_000_003, 1_000_033)
"""Two batch sizes (primes): evaluation for both reveals the dependence on the size."""


@dataclass(frozen=True)
class Sized:
    """A constant that depends on the batch size: its values for both `MARKS`."""

    values: tuple[Array, Array]

    def extents(self) -> list[int | Batches] | None:
        """As the extents of a shape; None if they are not multiples of the batch size."""
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
    """Attention scores before the product with the values, which are not a layer: softmax(q k * scale + offset) if
    `normal`, else the argument of the softmax. q: (heads, steps, d), k: (heads, d, others), without heads where there
    is one; `whole`: of a sample's scores, with the batch where the graph has it. `offset` and `mask`: of the shapes
    that the layers allow. `undefined`: Booleans, where probabilities are NaN: of fully masked steps."""

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
    """The operands of an attention layer: tensors of (steps, features), further sources by key, and the output
    projection, if any."""

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
        """Names, including those of layers and inputs."""
        if self.kind == "map":
            return set(re.findall(r"\w+", str(self.settings[self.name])))
        given = self.settings.get("inputs")
        found = {given} if isinstance(given, str) else {str(n) for n in given} if isinstance(given, list) else set()
        return found | {str(self.settings[key]) for key in l0.BESIDE if key in self.settings}


@dataclass
class Importer:
    """The model under construction. `values`: of each tensor of the graph; `uses`: its number of reads; `batch`: its
    size where the graph fixes it; `sources`: the source of each layer with one input; `attended`: the operands of each
    `attention`; `factors`: the source and the factor of layers that multiply by a number; `reals`: integers of the data
    as real numbers; `masks`: Boolean masks, by the additive mask that is 0 where seen and minus infinity elsewhere;
    `shrunk`: constants of the batch's extent in the graph, with extent 1 here; `shown`: attention probabilities with
    other readers than the product with the values."""

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
        """A unique valid name similar to `hint`."""
        word = re.sub(r"\W+", "_", hint, flags=re.ASCII).strip("_") or "layer"
        word = word if word[0].isalpha() else f"l_{word}"
        while word in RESERVED or word in _WORDS:
            word += "_layer"
        name = numbered_name(word, self.names)
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
        """The Boolean mask, if `x` is 0 where seen and minus infinity elsewhere."""
        at = x
        while (layer := self.made(at.name)) is not None and layer.kind == "reshape":
            at = self.sources[at.name]
        seen = self.masks.get(at.name)
        return None if seen is None else self.reshape(f"{seen.name}_seen", seen, x.shape).at(x)

    def made(self, name: str) -> LayerText | None:
        """The layer with a name; None for an input."""
        return next((x for x in self.layers if x.name == name), None)

    def parts(self, name: str) -> dict[str, Array]:
        """The weights of a layer."""
        lead = f"{name}."
        return {n.removeprefix(lead): v for n, v in self.weights.items() if n.startswith(lead)}

    def reshape(self, hint: str, x: Computed, shape: tuple[int, ...]) -> Computed:
        """`x` reshaped. Consecutive reshapes are merged, or cancel."""
        source = x
        while (layer := self.made(source.name)) is not None and layer.kind == "reshape":
            source = self.sources[source.name]
        if shape != source.shape:
            return self.layer("reshape", hint, [source], {"shape": list(shape)}, shape).moved(x)
        return source.at(x)

    def permute(self, hint: str, x: Computed, axes: list[int]) -> Computed:
        """`x` with permuted axes. Consecutive permutations are merged, or cancel."""
        source = x
        while (layer := self.made(source.name)) is not None and layer.kind == "permute":
            inner = layer.settings["axes"]
            assert isinstance(inner, list)
            axes, source = [int(inner[a]) for a in axes], self.sources[source.name]
        if axes != list(range(len(axes))):
            shape = tuple(source.shape[a] for a in axes)
            return self.layer("permute", hint, [source], {"axes": list(axes)}, shape).moved(x)
        return source.at(x)


_WORDS = frozenset({"and", "or", "not", "if", "else", "true", "false", "null", "e", "pi", "inf", "nan"})


def refused(node: Any, reason: str) -> RunError:
    """E0918 for a node."""
    where = (
        f" (node `{node.name}`)" if node.name else f" (the node that makes `{node.output[0]}`)" if node.output else ""
    )
    return RunError("E0918", f"the operator {node.op_type}{where} cannot be imported: {reason}")
