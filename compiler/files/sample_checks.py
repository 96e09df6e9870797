"""Checks of the numbers in samples: ranges of integers, and finite floats.

Assumes: a network, and the training that says what is compared under a mask.
Guarantees: integers are in range: within the rows of an embedding, the classes of a one_hot layer or of a loss, and 32
bits. Floats are finite, except those that are never used: in an input that only masked losses read, the elements that
their masks exclude. Where only formulas with `isnan` read an input, it may hold anything, and an `offset` of attention
may be -inf.
Does not: read files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.expr.ast import Call, children, refs
from compiler.layers import KIND, MAP
from compiler.layers.shared.elements import whole_elements
from compiler.losses import LOSS_KIND, Answers

Array = npt.NDArray[Any]

_PART: Final = 1 << 20  # numbers that are checked at once
_INT32: Final = (-(1 << 31), (1 << 31) - 1)

NOT_FINITE: Final = "leave such samples out, or replace the number; a `mask` of the loss may leave out targets"
"""The help for numbers that are not finite."""


@dataclass(frozen=True)
class _Range:
    """Integers from `low` to `high`, or `ignored`; `has`: the part of the model that requires it; `lets`: it is a loss
    that may `ignore` a number; `some`: of which elements of a sample (None: of all)."""

    low: int
    high: int
    has: str
    ignored: int | None = None
    lets: bool = False
    some: Array | None = field(default=None, compare=False)


@dataclass(frozen=True)
class _Masked:
    """`array` of the mask; `exact`: the mask's axes are the first ones of the input, so that each of its elements
    masks one part; otherwise only whole samples are masked."""

    array: str
    exact: bool


@dataclass(frozen=True)
class BadSample:
    """`range`: for an integer out of this range; otherwise the number is not finite."""

    message: str
    range: bool


@dataclass(frozen=True)
class SampleChecks:
    """By array of the data: `ranges` of integers; for floats the shape of a sample, and the masks of all its readers
    (none: it must be finite); `infinite`: arrays that may hold -inf."""

    ranges: Mapping[str, tuple[_Range, ...]]
    shapes: Mapping[str, tuple[int, ...]]
    masks: Mapping[str, tuple[_Masked, ...]]
    infinite: frozenset[str] = frozenset()

    def integers(self, array: str, values: Array, rows: Array) -> BadSample | None:
        """The first of an array's integers, as stored in the file, that is out of range. `rows`: their samples."""
        for rule in self.ranges.get(array, ()):
            outside = (values < rule.low) | (values > rule.high)
            if rule.ignored is not None:
                outside &= values != rule.ignored
            if rule.some is not None:
                outside &= rule.some.reshape(values.shape[1:])
            if outside.any():
                at = np.argwhere(outside)[0]
                found = int(values[tuple(at)])
                message = f"`{array}` is {found} {_place(rows[at[0]], at[1:])}, but {rule.has}"
                if rule.lets and rule.ignored is None and found < 0:
                    message += f" (`ignore: {found}` in the loss leaves out what has no class)"
                return BadSample(message, True)
        return None

    def reals(self, arrays: Mapping[str, Array], looked_at: Iterable[str], rows: Array) -> BadSample | None:
        """The first number of `looked_at` that is used and not finite. `arrays`: all, in the program's types,
        (samples, features); `rows`: their samples."""
        for array in looked_at:
            if array not in self.shapes:
                continue
            values = arrays[array]
            step = max(_PART // max(values.shape[1], 1), 1)
            for first in range(0, len(values), step):
                part = values[first : first + step]
                if np.isfinite(part).all():
                    continue
                bad = ~np.isfinite(part)
                if array in self.infinite:
                    bad &= ~np.isneginf(part)
                if self.masks[array]:
                    bad &= self._computed(array, arrays, slice(first, first + len(part)))
                if bad.any():
                    row, column = (int(i) for i in np.argwhere(bad)[0])
                    place = _place(rows[first + row], np.unravel_index(column, self.shapes[array] or (1,)))
                    kind = "" if values.dtype.itemsize == 8 else f" (as {values.dtype})"
                    return BadSample(f"`{array}` is {part[row, column]:g}{kind} {place}", False)
        return None

    def _computed(self, array: str, arrays: Mapping[str, Array], part: slice) -> npt.NDArray[np.bool_]:
        """(samples, features): the elements that some mask includes."""
        values = arrays[array][part]
        out = np.zeros(values.shape, bool)
        for mask in self.masks[array]:
            counts = arrays[mask.array][part] != 0
            if mask.exact:
                out |= np.repeat(counts, values.shape[1] // counts.shape[1], axis=1)
            else:
                out |= counts.any(axis=1, keepdims=True)
        return out


def _place(row: Any, index: Iterable[Any]) -> str:
    """Row and column, or the index in a sample of more axes; from 0."""
    places = [int(i) for i in index]
    text = f"at row {int(row)}"
    if len(places) == 1:
        return f"{text}, column {places[0]}"
    return f"{text}, place [{', '.join(map(str, places))}]" if places else text


def sample_checks(network: l0.Network, arrays: Mapping[str, str], train: l0.Train | None = None) -> SampleChecks:
    """The checks for the arrays that feed the inputs. `arrays`: by input; `train`: where losses read inputs, too."""
    ranges: dict[str, list[_Range]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    masks: dict[str, tuple[_Masked, ...]] = {}
    infinite = set()
    terms = () if train is None else train.loss.each
    for item in network.inputs:
        array = arrays.get(item.name)
        if array is None:
            continue
        if item.dtype != "real":
            due = [*_of_layers(network, item.name), *_of_classes(network, terms, item.name)]
            due.append(_Range(*_INT32, "whole numbers have 32 bits"))
            ranges.setdefault(array, []).extend(due)
            continue
        uses = _uses(network, item.name)
        if uses == {"isnan"}:  # formulas define what happens to NaN
            continue
        if uses == {"offset"}:
            infinite.add(array)
        under = () if uses else _masks(network, terms, item.name, item.shape, arrays)
        known = array in shapes
        shapes[array] = item.shape
        masks[array] = () if known and not (masks[array] and under) else (*masks.get(array, ()), *under)
    return SampleChecks({a: tuple(r) for a, r in ranges.items()}, shapes, masks, frozenset(infinite))


def _of_layers(network: l0.Network, name: str) -> list[_Range]:
    out = []
    read = whole_elements(network.inputs, network.layers)
    for layer in network.layers:
        limit = KIND[layer.kind].limit(layer)
        elements = None if limit is None else read.read(layer.inputs[0]).get(name)
        if limit is not None and elements is not None:
            some = np.zeros(read.sizes[name], bool)
            some[elements] = True
            out.append(_Range(0, limit[0] - 1, limit[1], some=None if some.all() else some))
    return out


def _of_classes(network: l0.Network, terms: Iterable[l0.Loss], name: str) -> list[_Range]:
    shapes = {i.name: i.shape for i in network.inputs} | {layer.name: layer.shape for layer in network.layers}
    out = []
    for loss in terms:
        if LOSS_KIND[loss.kind].answers in (Answers.CLASSES, Answers.LABELS) and loss.target == name:
            last = shapes[loss.prediction][-1] - 1
            has = f"`{loss.prediction}` has {last + 1} scores, for the classes 0 to {last}"
            out.append(_Range(0, last, has, loss.ignore, LOSS_KIND[loss.kind].answers is Answers.CLASSES))
        for key, read in loss.beside:
            if read == name:
                of = loss.prediction if key == "input_lengths" else loss.target
                out.append(_Range(0, shapes[of][0], f"`{of}` has {shapes[of][0]} of them"))
    return out


def _uses(network: l0.Network, name: str) -> set[str]:
    """How layers use an input: their kind, "isnan" where a formula tests it, or the role in attention."""
    out = set()
    for layer in network.layers:
        attrs = dict(layer.attrs)
        beside = [key for key in KIND[layer.kind].beside if attrs.get(key) is True]
        first = len(layer.inputs) - len(beside)
        asks = () if KIND[layer.kind] is not MAP or layer.function is None else _asked(layer.function)
        out |= {"isnan" if k in asks else layer.kind for k, n in enumerate(layer.inputs[:first]) if n == name}
        out |= {key for n, key in zip(layer.inputs[first:], beside, strict=True) if n == name}
    return out


def _asked(function: l0.FunctionDef) -> set[int]:
    """Indices of the arguments that a formula tests with `isnan`."""
    names: set[str] = set()
    stack = [function.body]
    while stack:
        e = stack.pop()
        stack += children(e)
        if isinstance(e, Call) and e.func == "isnan":
            names |= refs(e)
    return {k for k, name in enumerate(function.args) if name in names}


def _masks(
    network: l0.Network, terms: Iterable[l0.Loss], name: str, shape: tuple[int, ...], arrays: Mapping[str, str]
) -> tuple[_Masked, ...]:
    """The masks of all losses that read an input; () where one has none, or reads it as its mask."""
    inputs = {i.name: i.shape for i in network.inputs}
    shapes = inputs | {layer.name: layer.shape for layer in network.layers}
    out = []
    for loss in terms:
        if name not in loss.reads:
            continue
        if not loss.mask or loss.mask == name:
            return ()
        read = loss.inputs if loss.kind == "expression" else (loss.prediction,)
        exact = len(shape) == max(len(shapes[n]) for n in read) and shape[: len(inputs[loss.mask])] == inputs[loss.mask]
        out.append(_Masked(arrays[loss.mask], exact))
    return tuple(out)
