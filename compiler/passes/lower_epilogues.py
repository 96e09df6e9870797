"""lower_epilogues: what the kernel of a contraction does with each of its sums.

Assumes: the groups of fuse_epilogues.
Guarantees: results that are stored are the formals `y`, `y1`, ...; operands of fused maps `e0`, `e1`, ...; a value that
is not stored is a local `v0`, `v1`, ... where several maps read it, else it stands in its only reader. A map that
writes a variable reads and writes it in place.
Does not: decide what is fused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.expr.ast import Expr, Ref, substitute
from compiler.ir.graph import Contract, Map, Tensor
from compiler.ir.program import Assign, Mode, Statement
from compiler.ir.space import Affine, DType
from compiler.passes.fuse_epilogues import Epilogue
from compiler.passes.nest_builder import Walk
from compiler.passes.tensor_phase import Phase
from compiler.source import Span


@dataclass(frozen=True)
class Touched:
    """One array of the end, as its kernel walks it."""

    walk: Walk
    array: str
    dtype: DType
    mode: Mode


@dataclass
class End:
    """Statements after the sum `acc`, the arrays that they touch (the first is `y`), their numbers by name."""

    scalars: dict[str, float]
    arrays: list[Touched] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


def lower_end(p: Phase, node: Contract, epilogue: Epilogue | None, in_place: Mapping[str, str]) -> End:
    """`in_place`: map -> the variable that it writes. Makes the arrays of the results in the phase."""
    end = End(dict(node.scalars))
    maps = epilogue.maps if epilogue is not None else ()
    kept = epilogue.kept if epilogue is not None else frozenset({node.out.name})
    values: dict[str, Expr] = {}
    operands: dict[tuple[str, tuple[int | None, ...]], str] = {}
    stored = local = 0

    def keep(out: Tensor, value: Expr, mode: Mode, span: Span) -> None:
        nonlocal stored, local
        readers = sum(out.name in m.ins for m in maps)
        if out.name in kept:
            formal = _output(stored)
            stored += 1
            array = in_place.get(out.name) or p.temporary(out, span)
            p.arrays[out.name] = array
            dtype = p.builder.arrays[array].dtype
            end.arrays.append(Touched(Walk(formal, out, node.out_map), array, dtype, mode))
        elif readers == 1:
            values[out.name] = value
            return
        else:
            formal = f"v{local}"
            local += 1
        end.statements.append(Assign(formal, value, span))
        values[out.name] = Ref(formal)

    if node.out.name in kept:
        keep(node.out, Ref("acc"), Mode.WRITE, node.span)
    else:
        values[node.out.name] = Ref("acc")
    for m in maps:
        variable = in_place.get(m.out.name)
        names: dict[str, Expr] = _scalars(m, end)
        for k, (name, axes) in enumerate(zip(m.ins, m.maps, strict=True)):
            if name == variable:
                names[f"x{k}"] = Ref(_output(stored))
                continue
            if name not in values and (name, axes) not in operands:
                formal = operands[name, axes] = f"e{len(operands)}"
                walked = tuple(Affine() if a is None else node.out_map[a] for a in axes)
                tensor = p.tensors[name]
                walk = Walk(formal, tensor, walked)
                end.arrays.append(Touched(walk, p.arrays[name], p.dtype(tensor), Mode.READ))
            names[f"x{k}"] = values[name] if name in values else Ref(operands[name, axes])
        updated = variable is not None and variable in m.ins
        keep(m.out, substitute(m.body, names), Mode.UPDATE if updated else Mode.WRITE, m.span)
    end.arrays.sort(key=lambda touched: touched.walk.formal != "y")
    return end


def _output(number: int) -> str:
    return f"y{number}" if number else "y"


def _scalars(m: Map, end: End) -> dict[str, Expr]:
    """The map's numbers join those of the kernel; one whose name is taken by another value gets a new name."""
    names: dict[str, Expr] = {}
    for name, value in m.scalars:
        column = name
        while end.scalars.get(column, value) != value:
            column += "_"
        end.scalars[column] = value
        names[name] = Ref(column)
    return names
