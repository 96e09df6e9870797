"""pooling_gradient: reductions over windows that lie side by side, and gradients that choose an element in each.

Assumes: Contracts in gather form.
Guarantees: `tiles` are the indices of an operand whose every element is in one window of a reduction. Where a gradient
adds to each element of that tensor what its own window has for it, `scattered` is the same Contract with the dims of
the reduction: it walks a window and writes every element once, and reads what belongs to the window as the reduction
does. Terms outside the window of an element read `fill` in gather form, and are 0.
Does not: choose what is fused (fuse_rows).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Expr, Num, Ref, refs, substitute
from compiler.expr.simplify import simplify
from compiler.ir.space import Affine, along, plain_dim


def tiles(node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> tuple[Affine, ...]:
    """The indices of the operand whose elements are each one term of a reduction over windows; none without one."""
    extents = dict(node.dims)
    for name, axes in zip(node.ins, node.in_maps, strict=True):
        sides = [_sides(a) for a in axes]
        walked = [d for pair in sides if pair is not None for d in pair if d]
        if None in sides or sorted(walked) != sorted(extents) or all(plain_dim(a) for a in axes):
            continue
        shape = tensors[name].shape
        if all(_covers(a, extents, n) for a, n in zip(axes, shape, strict=True)):
            return axes
    return ()


def _sides(axis: Affine) -> tuple[str, str] | None:
    """The window and the place in it that an index has, ("n", "") of a plain one."""
    if plain := plain_dim(axis):
        return plain, ""
    if axis.const or axis.div != 1 or len(axis.terms) != 2:
        return None
    (inner, by), (outer, step) = sorted(axis.terms, key=lambda t: t[1])
    return (outer, inner) if by == 1 and step > 1 else None


def _covers(axis: Affine, extents: Mapping[str, int], size: int) -> bool:
    """Whether windows, or single elements, meet each index once."""
    step = max(c for _, c in axis.terms)
    outer, inner = _sides(axis) or ("", "")
    return extents[outer] * step == size and (not inner or extents[inner] == step)


def scattered(first: l1.Contract, node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> l1.Contract | None:
    """`node` with the dims of `first`; None where it does not add up so."""
    walked = tiles(first, tensors)
    out = [plain_dim(a) for a in node.out_map]
    whole = next(n for n, axes in zip(first.ins, first.in_maps, strict=True) if axes == walked)
    if node.combine != "add" or node.fill != 0 or node.out.shape != tensors[whole].shape:
        return None
    names: dict[str, str] = {}
    windows: dict[Affine, Affine] = {}
    for dim, axis in zip(out, walked, strict=True):
        outer, inner = _sides(axis) or ("", "")
        if dim is None or not outer:
            return None
        if not inner:
            names[dim] = outer
            continue
        found = {d for m in node.in_maps for a in m if dim in dict(a.terms) for d, c in a.terms if c == -1}
        if len(found) != 1:
            return None
        (own,) = found
        names[own] = inner
        windows[Affine(((dim, 1), (own, -1)), 0, max(c for _, c in axis.terms))] = along(outer)
    placed = [[_placed(a, names, windows) for a in axes] for axes in node.in_maps]
    moved = {x for x, axes in zip(range(len(placed)), node.in_maps, strict=True) if any(a in windows for a in axes)}
    outside: dict[str, Expr] = {f"x{k}": Num(0.0) for k in moved}
    summed = {d for d, _ in node.dims} - set(out)
    if not summed <= names.keys() or simplify(substitute(node.body, outside)) != Num(0.0):
        return None
    if refs(node.body) & {d for d in out if d and d not in names}:
        return None
    maps = [tuple(a for a in axes if a is not None) for axes in placed]
    if any(len(m) != len(axes) for m, axes in zip(maps, node.in_maps, strict=True)):
        return None
    body = substitute(node.body, {old: Ref(new) for old, new in names.items()})
    return replace(node, dims=first.dims, out_map=walked, in_maps=tuple(maps), body=body)


def _placed(axis: Affine, names: Mapping[str, str], windows: Mapping[Affine, Affine]) -> Affine | None:
    """An index with the dims of the reduction."""
    key = replace(axis, terms=tuple(sorted(axis.terms, key=lambda t: -t[1])))
    if key in windows:
        return windows[key]
    plain = plain_dim(axis)
    if plain is not None and plain in names:
        return along(names[plain])
    return None if axis.terms else axis
