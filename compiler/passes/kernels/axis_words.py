"""axis_words: what the axes of tensors are called in emitted text.

Assumes: nodes in topological order.
Guarantees: a word depends on the structure of the graph, never on sizes: an axis is called as the dim of the layer
that makes it (`n`, `k`, `oh`, `t`, `h`), else as the one that reads it; what follows elementwise, or by a copy, has
the words of its operand, a gradient those of its tensor. The first axis of a batch is `n`; the features of its samples,
where these are all that they have, and no layer calls them otherwise, are `f`.
Does not: name the dims of a nest (nest_builder).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.ir.space import Affine, plain_dim

Words = tuple[str, ...]
"""By axis; "": unknown."""

NUMBERED: Final = re.compile(r"[de]\d+")
"""A dim that says no more than which axis it follows."""


def axis_words(nodes: Iterable[l1.Node]) -> dict[str, Words]:
    every = [node for node, _ in l1.with_bodies(nodes)]
    tensors, words = l1.tensors_of(every), dict[str, Words]()
    for node in every:  # what a layer makes is named by it, whoever else reads it
        if isinstance(node, l1.Contract):
            words[node.out.name] = _joined(words.get(node.out.name, ()), _dims(node.out_map))
    for node in every:
        if isinstance(node, l1.Contract):
            for name, axes in zip(node.ins, node.in_maps, strict=True):
                words[name] = _joined(words.get(name, ()), _dims(axes))
    for t in tensors.values():
        words[t.name] = _joined(words.get(t.name, ()), _of_batch(t))
    for node in every:
        for out in l1.results(node):
            found = _joined(_inherited(node, words), _sized(words.get(out.name.removesuffix(".grad"), ()), out))
            words[out.name] = _joined(words[out.name], found)
    return words | {t.name: _joined(words[t.name], ("n", "f")) for t in tensors.values() if _is_plain(t)}


def dim_words(walks: Iterable[tuple[str, Sequence[str | None]]], words: Mapping[str, Words]) -> dict[str, str]:
    """Words for the dims that say no more than their axis, all distinct. `walks`: tensors, with the dims that their
    axes follow."""
    walks, found = list(walks), dict[str, str]()
    taken = {d for _, dims in walks for d in dims if d is not None and not NUMBERED.fullmatch(d)}
    for name, dims in walks:
        for d, word in zip(dims, words.get(name, ()), strict=False):
            if d is not None and word and d not in found and word not in taken and NUMBERED.fullmatch(d):
                found[d] = word
                taken.add(word)
    return found


def _joined(first: Words, other: Words) -> Words:
    """The first ones, and others where there are none."""
    return tuple(a or b for a, b in zip(first, other, strict=True)) if first and other else first or other


def _dims(axes: Sequence[Affine]) -> Words:
    dims = (plain_dim(a) or "" for a in axes)
    return tuple("" if NUMBERED.fullmatch(d) else d for d in dims)


def _of_batch(t: l1.Tensor) -> Words:
    return tuple("" if k or not t.batched else "n" for k in range(len(t.shape)))


def _is_plain(t: l1.Tensor) -> bool:
    return t.batched and len(t.shape) == 2


def _sized(found: Words, out: l1.Tensor) -> Words:
    return found if len(found) == len(out.shape) else ()


def _inherited(node: l1.Node, words: Mapping[str, Words]) -> Words:
    """The words that a result has from operands."""
    match node:
        case l1.Map():
            found: Words = ()
            for name, axes in zip(node.ins, node.maps, strict=True):
                own = dict(zip(axes, words.get(name, ()), strict=False))
                found = _joined(found, tuple(own.get(a, "") for a in range(len(node.out.shape))))
            return found
        case l1.Contract():
            named = dim_words(
                ((n, [plain_dim(a) for a in axes]) for n, axes in zip(node.ins, node.in_maps, strict=True)), words
            )
            return tuple(named.get(plain_dim(a) or "", "") for a in node.out_map)
        case l1.Gather():
            index, table = words.get(node.index, ()), words.get(node.table, ())
            return _sized((*index, *(() if node.own else table[1:])), node.out)
        case l1.Move():
            return _sized(words.get(node.ins[0], ()), node.out)
        case _:
            return ()
