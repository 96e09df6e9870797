"""lower_epilogues: the statements of a contraction's epilogue, and those of a kernel of Maps.

Assumes: the groups of fuse_epilogues and horizontal_fusion.
Guarantees: stored results are the formals `y`, `y1`, ...; operands of fused maps `e0`, `e1`, ... (without a contraction
`x0`, `x1`, ...); a value that is not stored is a local `v0`, `v1`, ... where several maps read it, else it is inlined
into its only reader. A map whose result takes the array of an operand reads and writes it in place.
Does not: choose what is fused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.expr.ast import Expr, Num, Ref, substitute
from compiler.ir.space import Affine
from compiler.passes.fusion.fuse_epilogues import Epilogue
from compiler.passes.kernels.nest_builder import Walk
from compiler.passes.kernels.tensor_phase import Phase, Touched, axes_of


@dataclass
class End:
    """Statements (after the sums `acc`, `acc1`, ...), the arrays that they access (the first is `y`), their scalars by
    name."""

    scalars: dict[str, float]
    arrays: list[Touched] = field(default_factory=list)
    statements: list[l2.Statement] = field(default_factory=list)
    sums: list[l2.TileSum] = field(default_factory=list)


def lower_end(
    p: Phase,
    node: l1.Contract | l1.Gather | l1.Move,
    out_map: tuple[Affine, ...],
    epilogue: Epilogue | None,
    in_place: Mapping[str, str],
    beside: Sequence[l1.Contract] = (),
    tiles: Sequence[l1.TileSum] = (),
) -> End:
    """The epilogue of `node` and of the reductions `beside` it, and sums over `tiles`. `in_place`: map -> the tensor
    whose array it writes. Makes the arrays of the results in the phase."""
    maps = epilogue.maps if epilogue is not None else ()
    kept = epilogue.kept if epilogue is not None else frozenset({node.out.name})
    scalars = dict(node.scalars) if isinstance(node, l1.Contract) else {}
    lowered = Lowered(p, maps, kept, in_place, out_map, "e", End(scalars))
    for k, reduction in enumerate((node, *beside)):
        lowered.reduced(reduction, k)
    lowered.section(maps)
    for k, x in enumerate(tiles):
        lowered.over_tiles(x, k)
    return lowered.ended()


def accumulator(number: int) -> str:
    """The local of a reduction in the epilogue."""
    return f"acc{number}" if number else "acc"


def lower_group(p: Phase, group: Epilogue, in_place: Mapping[str, str]) -> End:
    """A kernel of maps over one space, with dims `d0`, `d1`, ...; otherwise as lower_end."""
    return Lowered(p, group.maps, group.kept, in_place, axes_of(group.maps[0].out), "x", End({})).finish()


@dataclass
class Lowered:
    """Maps while they are lowered: `walked` is how their results are walked, `prefix` that of operands' names, `values`
    the expression for each tensor of the kernel, `there` the formal that overwrites a tensor in place. `lasting`:
    results that others than maps beside them read, so that they have a local."""

    p: Phase
    maps: tuple[l1.Map, ...]
    kept: frozenset[str]
    in_place: Mapping[str, str]
    walked: tuple[Affine, ...]
    prefix: str
    end: End
    values: dict[str, Expr] = field(default_factory=dict)
    lasting: frozenset[str] = frozenset()
    operands: dict[tuple[str, tuple[Affine, ...]], str] = field(default_factory=dict)
    there: dict[str, str] = field(default_factory=dict)
    stored: int = 0
    local: int = 0

    def finish(self) -> End:
        """The epilogue with all maps."""
        self.section(self.maps)
        return self.ended()

    def ended(self) -> End:
        """The epilogue, with its first result first."""
        self.end.arrays.sort(key=lambda touched: touched.walk.formal != "y")
        return self.end

    def section(self, maps: Sequence[l1.Map]) -> None:
        """The next maps, which are walked alike."""
        kept = [m for m in maps if m.out.name in self.kept]
        for k, writer in enumerate(kept):
            target = self.in_place.get(writer.out.name)
            if target is not None:
                self.there[target] = _output(self.stored + k)
                if any(target in m.ins for m in self.maps if m is not writer):
                    self._local(target, Ref(self.there[target]), writer.span)  # before it is written
        for m in maps:
            self._map(m)

    def value(self, name: str, walked: tuple[Affine, ...]) -> Expr:
        """A tensor that terms read."""
        return self.values[name] if name in self.values else Ref(self._operand(name, walked))

    def term(self, node: l1.Contract) -> Expr:
        """A term of a contraction."""
        names = add_scalars(node.scalars, self.end)
        for k, operand in enumerate(zip(node.ins, node.in_maps, strict=True)):
            names[f"x{k}"] = self.value(*operand)
        return substitute(node.body, names)

    def over_tiles(self, node: l1.TileSum, number: int) -> None:
        """A sum over tiles, number `number` of the kernel."""
        names = dict[str, Expr]()
        for k, (name, axes) in enumerate(zip(node.ins, node.maps, strict=True)):
            names[f"x{k}"] = self.value(name, tuple(Affine() if a is None else self.walked[a] for a in axes))
        weight = substitute(node.weight, names)
        assert isinstance(weight, Ref) or weight == Num(1.0), "weights of rows are an array"
        self.p.arrays[node.out.name] = self.p.temporary(node.out, node.span)
        value, of_rows = substitute(node.body, names), weight.name if isinstance(weight, Ref) else ""
        self.end.sums.append(l2.TileSum(f"t{number}", node.of, value, of_rows))

    def reduced(self, node: l1.Contract | l1.Gather | l1.Move, number: int) -> None:
        """The result of a reduction, number `number` of the kernel."""
        if node.out.name in self.kept:
            self.result(node.out, Ref(accumulator(number)), l2.Mode.WRITE, node.span)
        else:
            self.values[node.out.name] = Ref(accumulator(number))

    def result(self, out: l1.Tensor, value: Expr, mode: l2.Mode, span: Span) -> None:
        """A tensor of the kernel: stored where it is kept, a local where several maps read it."""
        if out.name in self.kept:
            formal = _output(self.stored)
            self.stored += 1
            target = self.in_place.get(out.name)
            array = self.p.arrays[target] if target is not None else self.p.temporary(out, span)
            self.p.arrays[out.name] = array
            self.end.arrays.append(self.p.touched(Walk(formal, out, self.walked), mode))
            self.end.statements.append(l2.Assign(formal, value, span))
            self.values[out.name] = Ref(formal)
        elif sum(out.name in m.ins for m in self.maps) == 1 and out.name not in self.lasting:
            self.values[out.name] = value
        else:
            self._local(out.name, value, span)

    def _local(self, name: str, value: Expr, span: Span) -> None:
        local = f"v{self.local}"
        self.local += 1
        self.end.statements.append(l2.Assign(local, value, span))
        self.values[name] = Ref(local)

    def _map(self, m: l1.Map) -> None:
        names: dict[str, Expr] = add_scalars(m.scalars, self.end)
        for k, (name, axes) in enumerate(zip(m.ins, m.maps, strict=True)):
            if name in self.values:
                names[f"x{k}"] = self.values[name]
            elif name in self.there:
                names[f"x{k}"] = Ref(self.there[name])
            else:
                names[f"x{k}"] = Ref(
                    self._operand(name, tuple(Affine() if a is None else self.walked[a] for a in axes))
                )
        target = self.in_place.get(m.out.name)
        updated = target is not None and any(target in other.ins for other in self.maps)
        key = (m.body, tuple(names.items()))
        if key not in self.p.values:
            self.p.values[key] = substitute(m.body, names)
        self.result(m.out, self.p.values[key], l2.Mode.UPDATE if updated else l2.Mode.WRITE, m.span)

    def _operand(self, name: str, walked: tuple[Affine, ...]) -> str:
        """The formal of a tensor computed before the kernel."""
        if (name, walked) not in self.operands:
            formal = self.operands[name, walked] = f"{self.prefix}{len(self.operands)}"
            self.end.arrays.append(self.p.touched(Walk(formal, self.p.tensors[name], walked)))
        return self.operands[name, walked]


def _output(number: int) -> str:
    return f"y{number}" if number else "y"


def add_scalars(scalars: Iterable[tuple[str, float]], end: End) -> dict[str, Expr]:
    """Adds a node's scalars to those of the kernel; one whose name already has another value gets a new name."""
    names: dict[str, Expr] = {}
    for name, value in scalars:
        column = name
        while end.scalars.get(column, value) != value:
            column += "_"
        end.scalars[column] = value
        names[name] = Ref(column)
    return names
