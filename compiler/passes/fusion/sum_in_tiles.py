"""sum_in_tiles: sums over all rows of what a product stores, as batch norms have them, begin in the product's kernel.

A kernel that stores its result tile by tile has the elements of a tile in registers when it stores them. So it sums
over the rows of each tile, and what is left to sum are the sums of tiles: an activation is not read again. Of a
variance it has, for each tile, the mean and the sum of squares of what lies off this mean, from which those of all rows
follow (Chan, Golub & LeVeque 1983, "Algorithms for Computing the Sample Variance", equation 2.1), so that large means
cost no accuracy. In sums of x (y - m) with a number m for each column, as the gradient of a batch norm's scale is, m is
taken out where y is bf16: what y lies off its mean is at least 2^-8 of it, or is the error of its rounding, so that at
most 8 of the 24 bits of a tile's sum are lost.

Assumes: gather form; maps are fused; layouts are those that strategies are chosen for.
Guarantees: a sum over all axes but the last of what a product, or the epilogue of one, has becomes a sum over tiles
where the strategy says that its kernel sums (Choice.tiled), and all that it reads is there before that kernel or in it.
Reshapes that do nothing but drop axes of one element, as behind depthwise convolutions, are looked through.
The order of sums is fixed. Refusals are Decisions.
Does not: choose strategies; change anything where the bits of targets are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Expr, Num, Ref
from compiler.expr.functions import ROUNDED
from compiler.ir.space import Affine, along, plain_dim
from compiler.passes.fusion.fuse_epilogues import Epilogue, Readers, epilogues
from compiler.passes.fusion.fuse_sums import reads_plainly, whole_operands
from compiler.passes.program.decisions import Decision
from compiler.passes.tensors.shift_variances import Variance, variance_of
from compiler.strategies.choice import Tiles
from compiler.strategies.pins import AGAIN

NAME: Final = "sum_in_tiles"
MOST_SUMS: Final = 2
"""Of a kernel, or those of one variance: a thread has one of each for all of its columns in registers."""
MOST_BYTES: Final = 6
"""That its epilogue and the sums read of an element of the result: threads read ahead into registers."""
BF16: Final = "bf16"
TILE: Final = "tile"
"""The dim of tiles."""
_X0, _X1, _X2, _X3 = (Ref(f"x{k}") for k in range(4))
_ONE: Final = Num(1.0)
Chosen = Callable[[l1.Contract], Tiles | None]
"""The tiles of a contraction, by its strategy."""


def sum_in_tiles(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], chosen: Chosen
) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph, and a decision for each sum over what a product makes."""
    search = _Search(Readers(nodes), chosen, epilogues(nodes, outputs, {})[0])
    sums = [n for n in nodes if isinstance(n, l1.Contract)]
    variances = [x for x in (variance_of(n, search.makers) for n in sums) if x is not None]
    for x in variances:
        search.look_at(x.total, x)
    others = [n for n in sums if all(n is not x.total for x in variances)]
    for node in sorted(others, key=lambda n: -len(n.ins)):  # one operand alone is no gain where others read it again
        search.look_at(node)
    return tuple(x for n in nodes for x in search.instead(n)), tuple(search.decisions)


@dataclass
class _Search:
    """`made`: what is in the kernel of a product -> the product; `kernels`: product -> the sums in its kernel;
    `refused`: what sums read that are in none; `changed`: what takes the place of a node; `after`: what follows the one
    that makes a tensor; `views`: what is such a tensor without some axes of one element, and which it has."""

    g: Readers
    chosen: Chosen
    fused: Mapping[str, Epilogue]
    makers: dict[str, l1.Node] = field(default_factory=dict)
    made: dict[str, l1.Contract] = field(default_factory=dict)
    kernels: dict[str, list[l1.TileSum]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    changed: dict[str, l1.Node] = field(default_factory=dict)
    after: dict[str, list[l1.Node]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    views: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.g.nodes:
            self.makers |= {t.name: node for t in l1.results(node)}
            if isinstance(node, l1.Contract) and l1.is_sum_of_products(node):
                self.made |= dict.fromkeys((node.out.name, *(m.out.name for m in self.maps(node))), node)
            elif isinstance(node, l1.Reindex) and node.source in self.made:
                ones = _ones(self.g.tensors[node.source].shape, node.out.shape)
                self.views |= {node.out.name: (node.source, ones)} if ones else {}

    def instead(self, node: l1.Node) -> list[l1.Node]:
        """What takes the place of a node."""
        names = [t.name for t in l1.results(node)]
        found = next((self.changed[n] for n in names if n in self.changed), node)
        return [found, *(x for n in names for x in self.after.get(n, ()))]

    def begins(self, name: str) -> int:
        """Where the kernel of a tensor begins."""
        return self.g.place[self.made[name].out.name if name in self.made else name]

    def maps(self, product: l1.Contract) -> tuple[l1.Map, ...]:
        """Of its epilogue."""
        return self.fused[product.out.name].maps if product.out.name in self.fused else ()

    def look_at(self, node: l1.Contract, variance: Variance | None = None) -> None:
        """Begins a sum, and that of a variance with it, in the kernel of a product, or says why not."""
        name, product = node.out.name, self._last(node)
        if product is None:
            node = self._without_views(node)
            product = self._last(node)
        if product is None or name in self.changed or not _is_over_rows(node, product):
            return
        tiles = self.chosen(product)
        known = self.kernels.setdefault(product.out.name, [])
        if tiles is None:
            self._refuse(node, product, "it does not store whole tiles")
            return
        changed, sums = self._instead(node, product, tiles, variance)
        more = [x for x in sums if x not in known]
        reason = self._refusal(product, [*known, *more])
        if reason is None and variance is not None and not self._is_stored(node.ins[0], product):
            reason = "its epilogue moves the mean"
        if reason is None and len(node.ins) == 1 and not known and node.ins[0] in self.refused:
            reason = "another sum reads it again"
        if reason is not None:
            self._refuse(node, product, reason)
            return
        known += more
        for x in more:
            self.after.setdefault(max(x.ins, key=self._number), []).append(x)
        self.changed |= {n.out.name: n for n in changed}
        self.decisions.append(Decision(NAME, name, "summed", f"tile by tile in the kernel of {product.out.name}"))

    def _last(self, node: l1.Contract) -> l1.Contract | None:
        """The product that has the last operand of a node in its kernel."""
        return self.made.get(max(node.ins, key=self.begins)) if node.ins else None

    def _without_views(self, node: l1.Contract) -> l1.Contract:
        """The same sum of what views are views of: over their axes of one element, too."""
        read = zip(node.ins, node.in_maps, strict=True)
        found = [(*self.views.get(n, (n, ())), axes) for n, axes in read]
        every = sorted({a for _, ones, _ in found for a in ones})
        if not every or any(ones and list(ones) != every for _, ones, _ in found):
            return node
        maps = tuple(_with_ones(axes, ones) for _, ones, axes in found)
        dims = (*node.dims, *((_one(a), 1) for a in every))
        return replace(node, dims=dims, ins=tuple(n for n, _, _ in found), in_maps=maps)

    def _refuse(self, node: l1.Contract, product: l1.Contract, reason: str) -> None:
        self.refused.update(node.ins)
        why = f"in the kernel of {product.out.name}: {reason}"
        self.decisions.append(Decision(NAME, node.out.name, "not summed", why))

    def _number(self, name: str) -> int:
        return self.g.place[name] if name not in self.made else self.g.nodes.index(self.makers[name])

    def _is_stored(self, name: str, product: l1.Contract) -> bool:
        """Whether a tensor is a product as it is stored: its mean is near any row of the sums."""
        made = self.makers[name]
        if not isinstance(made, l1.Map):
            return made is product
        return made.body in (_X0, Call(ROUNDED, (_X0,))) and made.ins == (product.out.name,)

    def _refusal(self, product: l1.Contract, sums: list[l1.TileSum]) -> str | None:
        """Why a product's kernel cannot have these sums."""
        name = product.out.name
        late = [n for x in sums for n in x.ins if self.begins(n) > self.g.place[name]]
        if late:
            return f"it needs {late[0]}, which is made later"
        if any(AGAIN in x.out.name for x in sums) != name.endswith(AGAIN):
            return "it is computed again later, so that nothing keeps it"
        if sum(x.of in ("sum", "mean", "square") for x in sums) > MOST_SUMS:
            return "it would have too many sums"
        every: list[l1.Map | l1.TileSum] = [*self.maps(product), *sums]
        read = {n for x in every for n in x.ins if self.made.get(n) is not product}
        whole = [self.g.tensors[n] for n in read if self.g.tensors[n].shape == product.out.shape]
        if sum(2 if t.dtype == BF16 else 4 for t in whole) > MOST_BYTES:
            return "it would read too much of each element"
        return None

    def _instead(
        self, node: l1.Contract, product: l1.Contract, tiles: Tiles, variance: Variance | None
    ) -> tuple[list[l1.Contract], list[l1.TileSum]]:
        """What takes the place of a sum, and of that of a variance; and the sums of tiles that it needs."""
        if variance is None and self._is_off_mean(node):
            one, both = (replace(node, ins=node.ins[:n], in_maps=node.in_maps[:n]) for n in (1, 2))
            plain = self._tile_sum("sum", one, product, tiles, _X0)
            part = self._tile_sum("sum", both, product, tiles, _X0 * _X1)
            ins = (part.out, plain.out, self.g.tensors[node.ins[2]])
            return [_joined(node, tiles, ins, _X0 - _X1 * _X2)], [plain, part]
        if variance is None:
            part = self._tile_sum("sum", node, product, tiles, node.body)
            return [_joined(node, tiles, (part.out,), _X0)], [part]
        weight: Expr = _X1 if len(node.ins) == 2 else _ONE
        square, mean, of_rows = variance.square, variance.ratio.out, self._with_rows(node, product)
        parts = [self._tile_sum(of, of_rows, product, tiles, _X0, weight) for of in ("mean", "square", "weight")]
        middle, spread, count = (x.out for x in parts)
        off = _X2 - _X3
        total = _joined(node, tiles, (middle, count), _X0 * _X1)
        return [total, _joined(square, tiles, (spread, count, middle, mean), _X0 + _X1 * off * off)], parts

    def _tile_sum(
        self, of: str, node: l1.Contract, product: l1.Contract, tiles: Tiles, body: Expr, weight: Expr = _ONE
    ) -> l1.TileSum:
        """The sum `of` tiles of what a node sums over the product's result; an equal one if there is one already."""
        every = [plain_dim(a) for a in next(x for _, x in whole_operands(node) if len(x) == len(product.out.shape))]
        maps = tuple(tuple(None if not a.terms else every.index(plain_dim(a)) for a in axes) for axes in node.in_maps)
        shape = (tiles.count,) if of == "weight" else (tiles.columns, tiles.count)
        out = replace(node.out, name=f"{node.out.name}.tile_{of}{len(node.ins)}", shape=shape)
        made = l1.TileSum(out, product.out.name, of, node.ins, maps, body, weight, node.span)
        known = self.kernels.get(product.out.name, ())
        return next((x for x in known if replace(x, out=out) == made), made)

    def _is_off_mean(self, node: l1.Contract) -> bool:
        """Whether a sum is of products with what is off a number of each column, x0 * (x1 - x2), and x1 is bf16."""
        first, second, *others = (*node.in_maps, None, None)
        of_column = node.body == _X0 * (_X1 - _X2) and others[:1] == [node.out_map]
        return of_column and first == second and self.g.tensors[node.ins[1]].dtype == BF16

    def _with_rows(self, node: l1.Contract, product: l1.Contract) -> l1.Contract:
        """With the weight of each row of the product in place of those of samples, if there are any: rows are not
        divided then."""
        shape, every = product.out.shape[:-1], whole_operands(node)[0][1][:-1]
        if len(node.ins) < 2 or node.in_maps[1] == every:
            return node
        given = self.g.tensors[node.ins[1]]
        name = ".".join([given.name, "rows", *map(str, shape[1:])])
        if name not in self.g.tensors:
            axes = tuple(every.index(a) for a in node.in_maps[1])
            self.g.tensors[name] = replace(given, name=name, shape=shape)
            self.g.place[name] = self.g.place[given.name]
            row = l1.Map(self.g.tensors[name], (given.name,), (axes,), _X0, span=node.span)
            self.after.setdefault(given.name, []).append(row)
        return replace(node, ins=(node.ins[0], name), in_maps=(node.in_maps[0], every))


def _ones(shape: tuple[int, ...], without: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of one element that a shape has beside another one; none where they differ in more."""
    found, at = list[int](), 0
    for axis, extent in enumerate(shape):
        if at < len(without) and extent == without[at]:
            at += 1
        elif extent == 1:
            found.append(axis)
        else:
            return ()
    return tuple(found) if at == len(without) else ()


def _one(axis: int) -> str:
    """The dim of an axis of one element."""
    return f"one{axis}"


def _with_ones(axes: tuple[Affine, ...], ones: tuple[int, ...]) -> tuple[Affine, ...]:
    """Indices with those of axes of one element."""
    found = list(axes)
    for axis in ones:
        found.insert(axis, along(_one(axis)))
    return tuple(found)


def _is_over_rows(node: l1.Contract, product: l1.Contract) -> bool:
    """Whether a node sums over all axes of the product's result but the last one."""
    whole = [axes for name, axes in whole_operands(node) if len(axes) == len(product.out.shape)]
    plain = node.combine == "add" and not node.scalars and node.out.dtype == "real" and reads_plainly(node)
    return bool(plain and whole and len(product.out.shape) > 1 and node.out_map == whole[0][-1:])


def _joined(node: l1.Contract, tiles: Tiles, ins: tuple[l1.Tensor, ...], body: Expr) -> l1.Contract:
    """The sum over tiles in place of a node."""
    column, tile = node.out_map[0], along(TILE)
    walked = {2: (column, tile), 1: (tile,)}
    maps = tuple((column,) if x.shape == node.out.shape else walked[len(x.shape)] for x in ins)
    dims = ((plain_dim(column) or "", tiles.columns), (TILE, tiles.count))
    return replace(node, dims=dims, ins=tuple(x.name for x in ins), in_maps=maps, body=body)
