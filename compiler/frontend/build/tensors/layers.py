"""Shapes and attributes of layers: what the rules of every kind share, and the rules of those without windows.

Assumes: validated settings; the shapes that a layer reads, without the batch ([] where one is unknown after an error).
Guarantees: attributes have the meaning that compiler/ir/level0/model.py gives them; a mistake is one diagnostic at its place.
Does not: name layers or follow references (build_network.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.yaml import tree
from compiler.frontend.build.tensors.init import WITH_FANS, init_name
from compiler.frontend.yaml.tree import Scalar, Sequence
from compiler.frontend.build.shared.values import Context, bounded, number, whole
from compiler.ir.level0.model import BESIDE, Attr
from compiler.core.source import Span

Shape = tuple[int, ...]
Result = tuple[Shape, dict[str, Attr]] | None
MOST = (1 << 31) - 1


def shown(shape: Shape) -> str:
    return "[" + ", ".join(str(n) for n in shape) + "]"


@dataclass(frozen=True)
class Place:
    """One layer, for the rules of its kind. `source`: the first that it reads."""

    c: Context
    name: str
    kind: str
    at: Span
    settings: tree.Mapping
    source: str

    def fail(self, message: str, help: str | None = None, key: str | None = None) -> None:
        node = self.settings.get(key) if key is not None else None
        self.c.sink.error("E0501", message, node.span if node is not None else self.at, help)

    def whole(self, key: str, default: int | None = None, low: int = 1) -> int | None:
        node = self.settings.get(key)
        if node is None:
            return default
        return whole(node, self.c, f"`{key}`", low, MOST)

    def each(self, key: str, rank: int, default: int | None, low: int = 1) -> Shape | None:
        """`3` or `[3, 5]`: one number per dimension."""
        node = self.settings.get(key)
        if node is None:
            return None if default is None else (default,) * rank
        if not isinstance(node, Sequence):
            one = whole(node, self.c, f"`{key}`", low, MOST)
            return None if one is None else (one,) * rank
        values = self.list(key, low)
        if values is not None and len(values) != rank:
            self.fail(f"`{key}` has {len(values)} numbers, but there are {rank} dimensions", None, key)
            return None
        return values

    def list(self, key: str, low: int = 0) -> Shape | None:
        node = self.settings.get(key)
        if not isinstance(node, Sequence):
            return None
        values = [whole(i, self.c, f"`{key}`", low, MOST) for i in node.items]
        return None if None in values else tuple(v for v in values if v is not None)

    def flag(self, key: str, default: bool) -> bool:
        node = self.settings.get(key)
        return bool(node.value) if isinstance(node, Scalar) and isinstance(node.value, bool) else default

    def word(self, key: str, default: str) -> str:
        node = self.settings.get(key)
        return node.text if isinstance(node, Scalar) else default

    def number(
        self, key: str, default: str, low: float | None, high: float | None, *, above: bool = False, below: bool = False
    ) -> float | None:
        node = self.settings.get(key)
        if node is None:
            return float(default)
        return bounded(node, self.c, f"`{key}`", DIMENSIONLESS, low, high, above=above, below=below)

    def axis(self, shape: Shape, default: int) -> int | None:
        """`axis`, which must be one of the shape."""
        found = self.whole("axis", default, 0)
        if found is not None and found >= len(shape):
            axes = (
                "no axes" if not shape else f"the axes 0 to {len(shape) - 1}" if len(shape) > 1 else "the axis 0 only"
            )
            self.fail(f"`{self.source}` has {axes} (shape {shown(shape)}, without the batch)", None, "axis")
            return None
        return found


def dense(p: Place, shapes: list[Shape]) -> Result:
    units = p.whole("units")
    if not shapes:
        return None
    if len(shapes[0]) not in (1, 2):
        message = f"a dense layer reads a list of numbers; `{p.source}` has the shape {shown(shapes[0])}"
        help = "put `- flatten: {}` before it" if len(shapes[0]) > 1 else None
        p.fail(message, help)
        return None
    return None if units is None else ((*shapes[0][:-1], units), {"units": units, "bias": p.flag("bias", True)})


def flatten(p: Place, shapes: list[Shape]) -> Result:
    return ((math.prod(shapes[0]),), {}) if shapes else None


def reshape(p: Place, shapes: list[Shape]) -> Result:
    wanted = p.list("shape", 1)
    if not shapes or wanted is None:
        return None
    if math.prod(wanted) != math.prod(shapes[0]):
        message = (
            f"`{p.source}` has {math.prod(shapes[0]):,} elements (shape {shown(shapes[0])}), "
            f"but {shown(wanted)} {math.prod(wanted):,}"
        )
        p.fail(message, None, "shape")
        return None
    return wanted, {}


def permute(p: Place, shapes: list[Shape]) -> Result:
    axes = p.list("axes")
    if not shapes or axes is None:
        return None
    if sorted(axes) != list(range(len(shapes[0]))):
        known = ", ".join(str(a) for a in range(len(shapes[0])))
        message = f"`axes` must name each axis of `{p.source}` once ({known}; its shape is {shown(shapes[0])})"
        p.fail(message, None, "axes")
        return None
    return tuple(shapes[0][a] for a in axes), {"axes": axes}


def concat(p: Place, shapes: list[Shape]) -> Result:
    if not shapes:
        return None
    axis = p.axis(shapes[0], 0)
    if axis is None:
        return None
    rest = [(*s[:axis], *s[axis + 1 :]) for s in shapes]
    if any(len(s) != len(shapes[0]) for s in shapes) or any(r != rest[0] for r in rest):
        listed = ", ".join(shown(s) for s in shapes)
        message = f"inputs of a concat layer differ along its axis {axis} only; these have {listed}"
        p.fail(message, None, "inputs")
        return None
    total = sum(s[axis] for s in shapes)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :]), {"axis": axis}


def slice_of(p: Place, shapes: list[Shape]) -> Result:
    if not shapes:
        return None
    axis = p.axis(shapes[0], 0)
    if axis is None:
        return None
    extent = shapes[0][axis]
    start, stop = p.whole("from", 0, 0), p.whole("to", extent)
    if start is None or stop is None:
        return None
    if stop > extent or start >= stop:
        p.fail(
            f"elements {start} to {stop - 1} are not in axis {axis} of `{p.source}`, which has {extent}",
            None,
            "to" if stop > extent or p.settings.get("from") is None else "from",
        )
        return None
    return (*shapes[0][:axis], stop - start, *shapes[0][axis + 1 :]), {"axis": axis, "range": (start, stop)}


def pad(p: Place, shapes: list[Shape]) -> Result:
    before = p.list("before")
    after = p.list("after") if p.settings.get("after") is not None else before
    value = p.number("value", "0", None, None)
    if not shapes or before is None or after is None or value is None:
        return None
    for key, numbers in (("before", before), ("after", after)):
        if len(numbers) != len(shapes[0]):
            message = f"`{key}` has {len(numbers)} numbers, but `{p.source}` has the shape {shown(shapes[0])}"
            p.fail(message, None, key)
            return None
    shape = tuple(e + b + a for e, b, a in zip(shapes[0], before, after, strict=True))
    return shape, {"before": before, "value": value}


def same_shape(p: Place, shapes: list[Shape]) -> Result:
    """add, multiply: inputs of one shape."""
    if not shapes:
        return None
    if any(s != shapes[0] for s in shapes):
        listed = ", ".join(shown(s) for s in shapes)
        article = "an" if p.kind == "add" else "a"
        p.fail(f"{article} {p.kind} layer reads inputs of one shape; these have {listed}", None, "inputs")
        return None
    return shapes[0], {}


def broadcast(shapes: list[Shape]) -> Shape | None:
    """The shape of an elementwise expression as in NumPy; None where shapes do not go together."""
    rank = max(len(s) for s in shapes)
    out: list[int] = []
    for a in range(rank):
        extents = {s[a - rank + len(s)] for s in shapes if a - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            return None
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def elementwise(p: Place, shapes: list[Shape]) -> Result:
    return (shapes[0], {}) if shapes else None


def softmax(p: Place, shapes: list[Shape]) -> Result:
    if not shapes:
        return None
    if not shapes[0]:
        p.fail(f"a {p.kind} layer needs an axis; `{p.source}` is a single number")
        return None
    axis = p.axis(shapes[0], len(shapes[0]) - 1)
    return None if axis is None else (shapes[0], {"axis": axis})


def dropout(p: Place, shapes: list[Shape]) -> Result:
    rate = p.number("rate", "0", 0.0, 1.0, below=True)
    return None if not shapes or rate is None else (shapes[0], {"rate": rate})


def noise(p: Place, shapes: list[Shape]) -> Result:
    std = p.number("std", "0.1", 0.0, None, above=True)
    return None if not shapes or std is None else (shapes[0], {"std": std})


def augment(p: Place, shapes: list[Shape]) -> Result:
    return (shapes[0], {"draws": p.word("draws", "element")}) if shapes else None


def random_flip(p: Place, shapes: list[Shape]) -> Result:
    if not shapes:
        return None
    axis = p.axis(shapes[0], len(shapes[0]) - 1)
    return None if axis is None else (shapes[0], {"axis": axis})


def random_crop(p: Place, shapes: list[Shape]) -> Result:
    padding = p.whole("padding")
    if not shapes or padding is None:
        return None
    if len(shapes[0]) != 3:
        message = f"a random_crop layer reads channels, height and width; `{p.source}` has the shape {shown(shapes[0])}"
        p.fail(message)
        return None
    if padding > 16 or padding >= min(shapes[0][1:]):
        most = min(16, min(shapes[0][1:]) - 1)
        p.fail(f"`padding` must be at most {most}: less than height and width, and no more than 16", None, "padding")
        return None
    return shapes[0], {"padding": padding}


# ------------------------------------------------------------------------------------- normalisation


def batch_norm(p: Place, shapes: list[Shape]) -> Result:
    keep = p.number("momentum", "0.9", 0.0, 1.0)
    epsilon = p.number("epsilon", "1e-5", 0.0, None, above=True)
    if not shapes or keep is None or epsilon is None:
        return None
    if not shapes[0]:
        p.fail(f"batch_norm needs channels; `{p.source}` is a single number")
        return None
    # The file says which part of the running mean is kept, the IR which part is new; exactly.
    new = float(1 - Fraction(repr(keep)))
    return shapes[0], {"momentum": new, "epsilon": epsilon}


def layer_norm(p: Place, shapes: list[Shape]) -> Result:
    axes, epsilon = p.whole("axes", 1), p.number("epsilon", "1e-5", 0.0, None, above=True)
    if not shapes or axes is None or epsilon is None:
        return None
    if axes > len(shapes[0]):
        p.fail(f"`{p.source}` has {len(shapes[0])} axes (shape {shown(shapes[0])}), not {axes}", None, "axes")
        return None
    return shapes[0], {"axes": axes, "epsilon": epsilon, "affine": p.flag("affine", True)}


def group_norm(p: Place, shapes: list[Shape]) -> Result:
    groups = p.whole("groups", 1)
    epsilon = p.number("epsilon", "1e-5", 0.0, None, above=True)
    if not shapes or groups is None or epsilon is None:
        return None
    least = 2 if p.kind == "instance_norm" else 1
    if len(shapes[0]) < least:
        what = "channels and positions" if least == 2 else "channels"
        p.fail(f"a {p.kind} layer reads {what}; `{p.source}` has the shape {shown(shapes[0])}")
        return None
    if p.kind == "group_norm" and shapes[0][0] % groups:
        message = f"`{p.source}` has {shapes[0][0]} channels, which cannot be split into {groups} groups of one size"
        p.fail(message, None, "groups")
        return None
    return shapes[0], {"groups": groups, "epsilon": epsilon, "affine": p.flag("affine", True)}


# ----------------------------------------------------------------------------------------- sequences


def _sequence(p: Place, shapes: list[Shape]) -> Shape | None:
    if not shapes:
        return None
    if len(shapes[0]) != 2:
        article = "an" if p.kind in ("lstm", "rnn") else "a"
        message = f"{article} {p.kind} layer reads steps and features; `{p.source}` has the shape {shown(shapes[0])}"
        p.fail(message, "for example [20, 64]: 20 steps of 64 numbers")
        return None
    return shapes[0]


def embedding(p: Place, shapes: list[Shape]) -> Result:
    count, size = p.whole("count"), p.whole("size")
    if not shapes or count is None or size is None:
        return None
    return (*shapes[0], size), {"count": count, "size": size}


def one_hot(p: Place, shapes: list[Shape]) -> Result:
    count = p.whole("count")
    if not shapes or count is None:
        return None
    return (*shapes[0], count), {"count": count, "lenient": p.flag("lenient", False)}


def learned(p: Place, shapes: list[Shape]) -> Result:
    shape = p.list("shape", 1)
    if shape is None:
        return None
    if len(shape) < 2 and init_name(p.settings.get("init")) in WITH_FANS:
        p.fail("this initialiser needs two axes or more; `normal` and others do not", None, "init")
        return None
    return shape, {}


def positions(p: Place, shapes: list[Shape]) -> Result:
    shape = _sequence(p, shapes)
    return None if shape is None else (shape, {"encoding": p.word("encoding", "sinusoidal")})


def attention(p: Place, shapes: list[Shape]) -> Result:
    heads = p.whole("heads", 1)
    beside = [key for key in BESIDE if p.settings.get(key) is not None]
    ins = shapes[: len(shapes) - len(beside)]
    article = "an" if p.kind == "attention" else "a"
    for s in ins:
        if len(s) != 2:
            p.fail(f"{article} {p.kind} layer reads steps and features; one of its inputs has the shape {shown(s)}")
            return None
    if not ins or heads is None:
        return None
    if len(ins) == 2:
        p.fail(f"{article} {p.kind} layer reads one input, or three: query, key and value", None, "inputs")
        return None
    query, key, value = ins if len(ins) == 3 else ins * 3
    if key[0] != value[0]:
        p.fail(f"key and value have different steps: {shown(key)} and {shown(value)}", None, "inputs")
        return None
    for name, given in zip(beside, shapes[len(ins) :], strict=True):
        fits = (heads, query[0], key[0])
        if not given or given != fits[3 - len(given) :]:
            wanted = " or ".join(shown(fits[k:]) for k in (2, 1, 0))
            p.fail(f"the shape of a {name} is {wanted} here, not {shown(given)}", None, name)
            return None
    attrs: dict[str, Attr] = {"heads": heads, "causal": p.flag("causal", False)}
    attrs |= {name: True for name in beside}
    return _projected(p, query, heads, attrs) if p.kind == "attention" else _plain(p, query, key, value, attrs)


def _split(p: Place, size: int, heads: int, key: str) -> bool:
    """Whether the heads can share so many features; an error if not."""
    if size % heads:
        p.fail(f"{size} features cannot be split among {heads} heads", None, key)
    return size % heads == 0


def _projected(p: Place, query: Shape, heads: int, attrs: dict[str, Attr]) -> Result:
    size = p.whole("size", query[1])
    if size is None or not _split(p, size, heads, "size" if p.settings.get("size") is not None else "heads"):
        return None
    return query, {**attrs, "size": size, "bias": p.flag("bias", True)}


def _plain(p: Place, query: Shape, key: Shape, value: Shape, attrs: dict[str, Attr]) -> Result:
    heads = attrs["heads"]
    assert isinstance(heads, int)
    if query[1] != key[1]:
        p.fail(f"query and key have different features: {shown(query)} and {shown(key)}", None, "inputs")
        return None
    if not all(_split(p, features, heads, "heads") for features in dict.fromkeys((key[1], value[1]))):
        return None
    scale = p.number("scale", repr(1 / math.sqrt(key[1] // heads)), None, None)
    return None if scale is None else ((query[0], value[1]), {**attrs, "scale": float(scale)})


def recurrent(p: Place, shapes: list[Shape]) -> Result:
    units = p.whole("units")
    shape = _sequence(p, shapes)
    if shape is None or units is None:
        return None
    both, sequence = p.flag("bidirectional", False), p.flag("sequence", False)
    attrs: dict[str, Attr] = {
        "units": units,
        "sequence": sequence,
        "bidirectional": both,
        "bias": p.flag("bias", True),
    }
    if p.kind == "rnn":
        attrs["function"] = p.word("function", "tanh")
    if p.kind == "gru":
        attrs["reset"] = p.word("reset", "after")
    features = units * (2 if both else 1)
    return ((shape[0], features) if sequence else (features,)), attrs


__all__ = ["MOST", "Place", "Result", "Shape", "broadcast", "number", "shown"]
