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

from compiler.ir.model import BESIDE
from compiler.runner.errors import RunError

Array = npt.NDArray[Any]
Setting = int | float | bool | str | list[int] | list[str]


@dataclass(frozen=True)
class Computed:
    """What a layer or input gives. `shape`: of a sample. `whole`: integers; `truth`: 0 or 1 for false or true.
    `batch`: the axis of the graph's tensor that is the batch; the other axes are those of the sample, in order."""

    name: str
    shape: tuple[int, ...]
    whole: bool = False
    truth: bool = False
    batch: int = 0


@dataclass(frozen=True)
class Scores:
    """What attention computes before its values come in, which is no layer: softmax(q k * scale + offset) once it is
    `normal`, else what stands in the brackets. q: (heads, steps, d), k: (heads, d, others). `offset` and `mask`: of the
    shapes that the layers allow."""

    q: Computed
    k: Computed
    scale: float = 1.0
    causal: bool = False
    normal: bool = False
    offset: Computed | None = None
    mask: Computed | None = None


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
        return found | {str(self.settings[key]) for key in BESIDE if key in self.settings}


@dataclass
class Importer:
    """The model while it is being made. `values`: of each tensor of the graph; `uses`: how often it is read;
    `batches`: sizes of the batch that the graph fixes; `sources`: what each layer with one input reads; `attended`:
    what each `attention` was made of."""

    opset: int
    values: dict[str, Computed | Scores | Array] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    batches: set[int] = field(default_factory=set)
    layers: list[LayerText] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    sources: dict[str, Computed] = field(default_factory=dict)
    attended: dict[str, Attended] = field(default_factory=dict)

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
            source = self.layer("reshape", hint, [source], {"shape": list(shape)}, shape)
        return replace(source, whole=x.whole, truth=x.truth, batch=x.batch)

    def permute(self, hint: str, x: Computed, axes: list[int]) -> Computed:
        """The axes of `x` in another order. A permutation of a permutation is one, or none."""
        source = x
        while (layer := self.made(source.name)) is not None and layer.kind == "permute":
            inner = layer.settings["axes"]
            assert isinstance(inner, list)
            axes, source = [int(inner[a]) for a in axes], self.sources[source.name]
        if axes != list(range(len(axes))):
            shape = tuple(source.shape[a] for a in axes)
            source = self.layer("permute", hint, [source], {"axes": list(axes)}, shape)
        return replace(source, truth=x.truth, batch=x.batch)


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
