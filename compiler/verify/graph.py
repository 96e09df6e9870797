"""Legality of level 1: tensor graphs.

Assumes: nothing.
Guarantees: every breach is named.
  tensors    each name is defined once, before its use; shapes are positive
  maps       one index map per operand and axis; the followed axes have the operand's extent,
             others extent 1; the body reads only its operands and scalars
  contracts  distinct dims of positive extent; index maps have one entry per axis over these dims;
             the body reads operands, dims and scalars; the combine is known; with gather_only, the result's
             axes are distinct dims
  gathers    rows are those of a tensor without a batch, chosen by integers, one for each element of
             the index
  moves      an offset for each axis of each operand, which has the axes of the result; none along the batch
  attention  operands as its docstring says, of one batch and one number of heads; the result has the shape of what
             it is
  scans      a state, its start, its value after a step and after all have one shape; rows of a whole
             are those of its parts in all steps; the body has Maps, Contracts and Reindexes
  effects    a store's target is a variable or a weight of the value's shape; an update's gradient
             has the weight's shape, its statements read `param`, `gradient`, `step`, their params,
             state and locals
Does not: check types of elements beyond "real", "int" and "bf16", or differentiate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import refs
from compiler.ir.space import Affine, plain_dim
from compiler.verify.violations import repeated, statements, unknown

COMBINES: Final = frozenset({"add", "max", "min"})


def graph_violations(graph: l1.TensorGraph, *, gather_only: bool = False) -> list[str]:
    """Every breach of the spec by one phase's graph; `gather_only`: as it must be after
    decompose."""
    found: list[str] = []
    known: dict[str, l1.Tensor] = {}
    kept: set[str] = set()
    for i, node in enumerate(graph.nodes):
        made = l1.results(node)
        label = f"{graph.phase} node {i} ({type(node).__name__}{' ' + made[0].name if made else ''})"
        found += (f"{label}: {v}" for v in _node(node, known, kept, gather_only))
        for out in made:
            if out.name in known:
                found.append(f"{label}: `{out.name}` is defined twice")
            if any(n < 1 for n in out.shape) or (out.batched and not out.shape):
                found.append(f"{label}: `{out.name}` has the shape {out.shape}")
            if out.dtype not in ("real", "int", "bf16"):
                found.append(f"{label}: `{out.name}` has elements of type `{out.dtype}`")
            known[out.name] = out
            if isinstance(node, l1.Weight | l1.Variable):
                kept.add(out.name)
    found += (f"{graph.phase}: output `{o}` is not defined" for o in graph.outputs if o not in known)
    return found


def _node(node: l1.Node, known: Mapping[str, l1.Tensor], kept: set[str], gather_only: bool) -> Iterator[str]:
    for name in l1.operands(node):
        if name not in known:
            yield f"`{name}` is used before it is defined"
            return
    match node:
        case l1.Map():
            yield from _map(node, known)
        case l1.Contract():
            yield from _contract(node, known, gather_only)
        case l1.Gather() | l1.ScatterAdd():
            yield from _lookup(node, known)
        case l1.Move():
            yield from _shifted(node, known)
        case l1.Attention() | l1.TileSum():
            yield from _attention(node, known) if isinstance(node, l1.Attention) else _tile_sum(node, known)
        case l1.Reindex() | l1.StepsFirst():
            yield from _move(node, known)
        case l1.Scan():
            yield from _scan(node, known, gather_only)
        case l1.Store() | l1.Update():
            yield from _effect(node, known, kept)
        case l1.BatchMask() | l1.Constant():
            yield from _numbers(node)


def _numbers(node: l1.BatchMask | l1.Constant) -> Iterator[str]:
    out = node.out
    if isinstance(node, l1.BatchMask):
        if len(out.shape) != 1:
            yield f"a batch mask has one axis, not {len(out.shape)}"
    elif len(node.values) != math.prod(out.shape) or out.batched:
        yield f"`{out.name}` {out.shape} has {len(node.values)} values"


def _move(node: l1.Reindex | l1.StepsFirst, known: Mapping[str, l1.Tensor]) -> Iterator[str]:
    match node:
        case l1.Reindex(out, source):
            if math.prod(out.room) != math.prod(known[source].shape):
                yield f"{_shown(known, source)} cannot have the shape {out.shape}"
            elif out.batched and out.shape[0] != known[source].shape[0]:
                yield f"{_shown(known, source)} loses its batch axis in {out.shape}"
        case l1.StepsFirst(out, source, steps, back):
            batch, rows = (out, known[source]) if back else (known[source], out)
            if batch.shape[1:2] != (steps,) or rows.shape != (batch.shape[0] * steps, *batch.shape[2:]):
                yield f"`{batch.name}` {batch.shape} has no {steps} steps with the rows of `{rows.name}` {rows.shape}"


def _rows(whole: l1.Tensor, part: l1.Tensor, steps: int) -> Iterator[str]:
    if not part.shape or whole.shape != (part.shape[0] * steps, *part.shape[1:]):
        yield f"`{whole.name}` {whole.shape} does not have the rows of `{part.name}` {part.shape} {steps} times"


def _scan(scan: l1.Scan, known: Mapping[str, l1.Tensor], gather_only: bool) -> Iterator[str]:
    inner = dict(known)
    for out in (*(g.part for g in scan.given), *(c.state for c in scan.carried), *(n.out for n in scan.body)):
        if out.name in inner:
            yield f"`{out.name}` is defined twice"
        if not out.name.startswith(f"{scan.name}."):
            yield f"`{out.name}` is not named `{scan.name}.<...>`"
        inner[out.name] = out
    there = {*known, *(g.part.name for g in scan.given), *(c.state.name for c in scan.carried)}
    for node in scan.body:
        if not there.issuperset(l1.operands(node)):
            yield f"{node.out.name}: an operand is used before it is defined"
            return
        yield from (f"{node.out.name}: {found}" for found in _node(node, inner, set(), gather_only))
        there.add(node.out.name)
    if missing := [n for n in (*(c.after for c in scan.carried), *(s.part for s in scan.stacked)) if n not in inner]:
        yield f"the body does not define `{missing[0]}`"
        return
    for c in scan.carried:
        shapes = [t.shape for t in (c.state, known[c.start], inner[c.after], c.last) if t is not None]
        if len(set(shapes)) != 1:
            yield f"the state `{c.state.name}` has the shapes {shapes}"
    for g in scan.given:
        yield from _rows(known[g.whole], g.part, scan.steps)
    for s in scan.stacked:
        yield from _rows(s.whole, inner[s.part], scan.steps)


def _effect(node: l1.Store | l1.Update, known: Mapping[str, l1.Tensor], kept: set[str]) -> Iterator[str]:
    if isinstance(node, l1.Store):
        yield from _store(node.target, node.value, known, kept)
    else:
        yield from _update(node, known, kept)


def _store(target: str, value: str, known: Mapping[str, l1.Tensor], kept: set[str]) -> Iterator[str]:
    if target not in kept:
        yield f"`{target}` is neither a variable nor a weight"
    elif known[target].shape != known[value].shape:
        yield f"{_shown(known, value)} is stored into {_shown(known, target)}"


def _shown(known: Mapping[str, l1.Tensor], name: str) -> str:
    return f"`{name}` {known[name].shape}"


def _scalars(scalars: tuple[tuple[str, float], ...], taken: Iterable[str]) -> Iterator[str]:
    names = [name for name, _ in scalars]
    for name in sorted({*repeated(names), *(set(names) & set(taken))}):
        yield f"scalar `{name}` has a name that is taken"


def _map(node: l1.Map, known: Mapping[str, l1.Tensor]) -> Iterator[str]:
    if len(node.maps) != len(node.ins):
        yield f"{len(node.ins)} operands have {len(node.maps)} maps"
        return
    for name, axes in zip(node.ins, node.maps, strict=True):
        shape = known[name].shape
        if len(axes) != len(shape):
            yield f"`{name}` has {len(shape)} axes and a map of {len(axes)}"
            continue
        for a, (axis, extent) in enumerate(zip(axes, shape, strict=True)):
            if axis is None:
                if extent != 1:
                    yield f"axis {a} of `{name}` follows nothing, but has extent {extent}"
            elif not 0 <= axis < len(node.out.shape) or node.out.shape[axis] != extent:
                yield f"axis {a} of {_shown(known, name)} follows axis {axis} of {node.out.shape}"
    operands = [f"x{k}" for k in range(len(node.ins))]
    yield from _scalars(node.scalars, operands)
    yield from unknown(refs(node.body), (*operands, *dict(node.scalars), "step"), "the body")


def _contract(node: l1.Contract, known: Mapping[str, l1.Tensor], gather_only: bool) -> Iterator[str]:
    dims = dict(node.dims)
    if len(dims) != len(node.dims) or any(extent < 1 for extent in dims.values()):
        yield "dims stand twice or have no extent"
    if node.combine not in COMBINES:
        yield f"combine `{node.combine}` is not known"
    if len(node.in_maps) != len(node.ins):
        yield f"{len(node.ins)} operands have {len(node.in_maps)} maps"
        return
    yield from _affine_maps(node.out.name, node.out.shape, node.out_map, dims)
    for name, axes in zip(node.ins, node.in_maps, strict=True):
        yield from _affine_maps(name, known[name].shape, axes, dims)
    operands = [f"x{k}" for k in range(len(node.ins))]
    yield from _scalars(node.scalars, (*operands, *dims))
    yield from unknown(refs(node.body), (*operands, *dims, *dict(node.scalars), "step"), "the body")
    if gather_only:
        used = [plain_dim(m) for m in node.out_map]
        if None in used or len(set(used)) != len(used):
            yield "the result is scattered into"
        for d, extent in zip(used, node.out.shape, strict=False):
            if d is not None and dims.get(d) != extent:
                yield f"dim `{d}` does not have the extent {extent} of its axis"


def _lookup(node: l1.Gather | l1.ScatterAdd, known: Mapping[str, l1.Tensor]) -> Iterator[str]:
    index = known[node.index]
    rows, places = (known[node.table], node.out) if isinstance(node, l1.Gather) else (node.out, known[node.source])
    if index.dtype != "int":
        yield f"`{index.name}` chooses rows, but holds no integers"
    if isinstance(node, l1.Gather) and node.own:
        if rows.shape[:-1] != index.shape or (places.shape, places.batched) != (index.shape, rows.batched):
            yield f"`{places.name}` {places.shape} has no element of a row of {_shown(known, rows.name)} for each index"
        return
    if not rows.shape or rows.batched:
        yield f"`{rows.name}` {rows.shape} has no rows without a batch"
    if places.shape != (*index.shape, *rows.shape[1:]) or places.batched != index.batched:
        yield f"`{places.name}` {places.shape} has no row of `{rows.name}` for each element of `{index.name}`"


def _shifted(node: l1.Move, known: Mapping[str, l1.Tensor]) -> Iterator[str]:
    shape, batched = node.out.shape, node.out.batched
    if not node.ins or len(node.ins) != len(node.offsets):
        yield f"{len(node.ins)} operands have {len(node.offsets)} offsets"
        return
    for name, offset in zip(node.ins, node.offsets, strict=True):
        t = known[name]
        if not len(t.shape) == len(offset) == len(shape):
            yield f"{_shown(known, name)} at {offset} has other axes than {shape}"
        elif t.batched != batched or (batched and (offset[0] != 0 or t.shape[0] != shape[0])):
            yield f"{_shown(known, name)} at {offset} has other samples than {shape}"


def _attention(node: l1.Attention, known: Mapping[str, l1.Tensor]) -> Iterator[str]:
    back = node.of not in ("context", "norms")
    if len(node.ins) != 3 + len(node.beside) + 3 * back or not {*node.beside} <= {"offset", "mask"}:
        yield f"attention of `{node.of}` has {len(node.ins)} operands"
        return
    shapes = [known[n].shape for n in node.ins]
    (batch, steps, heads, d), (_, keys, *_), (*_, e) = shapes[:3]
    wanted: list[tuple[int, ...]] = [(batch, steps, heads, d), (batch, keys, heads, d), (batch, keys, heads, e)]
    wanted += [(batch, *(heads, steps, keys)[4 - len(s) :]) for s in shapes[3 : 3 + len(node.beside)]]
    made: dict[str, tuple[int, ...]] = {"context": (batch, steps, heads, e), "norms": (batch, steps, heads, 2)}
    made |= dict(zip(("query", "key", "value"), wanted, strict=False))
    if back:
        wanted += [made["context"], made["norms"], made["context"]]
    for name, shape, fits in zip(node.ins, shapes, wanted, strict=True):
        if shape != fits:
            yield f"`{name}` {shape} is not shaped {fits}"
    if node.out.shape != made.get(node.of) or not 1 <= node.factors <= 3:
        yield f"`{node.of}` with factors {node.factors} is no result of attention of the shape {node.out.shape}"


def _tile_sum(node: l1.TileSum, known: Mapping[str, l1.Tensor]) -> Iterator[str]:
    product, given = known.get(node.product), {f"x{k}" for k in range(len(node.ins))}
    if product is None or len(product.shape) < 2:
        yield f"`{node.product}` is no result with rows and columns"
        return
    for name, axes in zip(node.ins, node.maps, strict=True):
        shape = tuple(1 if a is None else product.shape[a] for a in axes)
        if shape != known[name].shape:
            yield f"{_shown(known, name)} is read as if it were shaped {shape}"
    if names := (refs(node.body) | refs(node.weight)) - given:
        yield f"a sum reads `{min(names)}`, which is no operand"
    wanted = () if node.of == "weight" else product.shape[-1:]
    if node.of not in ("sum", "mean", "square", "weight") or node.out.shape[:-1] != wanted or not node.out.shape:
        yield f"`{node.of}` of tiles has no result of the shape {node.out.shape}"


def _affine_maps(name: str, shape: tuple[int, ...], axes: tuple[Affine, ...], dims: Mapping[str, int]) -> Iterator[str]:
    if len(axes) != len(shape):
        yield f"`{name}` has {len(shape)} axes and a map of {len(axes)}"
    for m in axes:
        if m.div < 1 or any(c == 0 for _, c in m.terms) or len(dict(m.terms)) != len(m.terms):
            yield f"`{name}` is reached by a map with terms that are 0 or repeated, or divided by 0"
        for dim, _ in m.terms:
            if dim not in dims:
                yield f"`{name}` is reached along `{dim}`, which is not a dim"


def _update(node: l1.Update, known: Mapping[str, l1.Tensor], kept: set[str]) -> Iterator[str]:
    if node.weight not in kept:
        yield f"`{node.weight}` is not a weight"
    elif known[node.weight].shape != known[node.gradient].shape:
        yield f"{_shown(known, node.gradient)} is not shaped as {_shown(known, node.weight)}"
    params, state = [n for n, _ in node.params], [n for n, _ in node.state]
    reads = [n for n, _ in node.reads]
    for name, tensor in node.reads:
        if known[tensor].shape != ():
            yield f"`{name}` reads {_shown(known, tensor)}, which is not a single number"
    names = ["param", "gradient", "step", *params, *state, *reads]
    if len(set(names)) != len(names):
        yield "names of params and state are not distinct"
    yield from statements(node.statements, {*names}, fixed={"gradient", "step", *params, *reads})
