"""Loop nests by points, as targets with many threads print them: what one thread does at its point.

Assumes: a legal Nest: PAR (and LANE) iterations are independent.
Guarantees: a point of the PAR dims is a flat index, the last dim varying fastest (these targets store tensors
row-major; a LANE dim is one more PAR dim); RED dims run inside a point, in order. The text calls nl_take (the last
index of a flat one) and nl_rest (a remainder that is never negative) of the target's file.
Does not: give points to threads, or share one among several (the backends do).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, axis_index, axis_numerator, scaled
from backends.c_family.cprint import (
    Body,
    Element,
    EmitPrinter,
    Line,
    PrintError,
    Scalar,
    Symbol,
    indent,
    infer_locals,
    is_real,
    literal,
    refuse_emit,
    type_of,
)
from compiler.expr.ast import Num, refs, substitute
from compiler.expr.simplify import simplify
from compiler.ir.space import DType

IDENTITY: Final = {"add": 0.0, "max": float("-inf"), "min": float("inf")}


def is_windowed(axis: l2.Axis) -> bool:
    """Whether the index is a sum that may be out of bounds or not divisible."""
    return axis.div != 1 or axis.extent is not None


class PointNest:
    """Prints what happens at a point of one nest of one kernel."""

    def __init__(self, k: Kernel, nest: l2.Nest) -> None:
        self.k, self.nest = k, nest
        self.par = [d for d in nest.dims if d.kind is not l2.DimKind.RED]
        self.red = [d for d in nest.dims if d.kind is l2.DimKind.RED]
        self.vars = {d.name: k.namer.own(d.name) for d in nest.dims}
        self.scope: dict[str, Symbol] = dict(k.scope)
        self.scope |= {n: Symbol(v, DType.I64) for n, v in self.vars.items()}
        self.elements = {
            f.name: self._element(f, f.access)
            for f in k.template.formals
            if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.Strided)
        }

    def _name(self, name: str) -> str:
        """The text of a dim, a column or a local of the prologue inside an index."""
        return self.scope[name].text if name in self.scope else self.k.namer(name)

    def _short(self, name: str) -> str:
        """The same in 32 bits, for indices of guarded axes; a target that takes them must make sure that they fit."""
        return f"(nl_i32){self._name(name)}"

    def _element(self, f: l2.ArrayFormal, access: l2.Strided) -> Element:
        """Addresses are 64-bit."""
        parts, tests = [], []
        for axis in access.axes:
            if not is_windowed(axis):
                parts.append(scaled(axis_index(axis, self._name), axis, self._name))
                continue
            index = axis_index(axis, self._short)
            parts.append(scaled(f"(nl_i64)({index})", axis, self._name))
            if axis.div != 1:
                tests.append(f"(({axis_numerator(axis, self._short)}) % {axis.div} == 0)")
            if axis.extent is not None:
                extent = str(axis.extent) if isinstance(axis.extent, int) else self._name(axis.extent)
                tests.append(f"((nl_u32)({index}) < (nl_u32){extent})")
        place = f"{self.k.pointers[f.name]}[{' + '.join(p for p in parts if p != '0') or '0'}]"
        return Element(place, f.dtype.computed, f.mode, " & ".join(tests) or None, self.nest.fill)

    def body(self, emit: EmitPrinter = refuse_emit, known: Mapping[str, Symbol] | None = None) -> Body:
        """The body at a point. `known`: formals that need not be loaded."""
        return Body(self.k.printer, {**self.scope, **(known or {})}, self.elements, self.k.namer, emit)

    def _check_order(self) -> None:
        """Concurrent additions of reals have no order."""
        for s in (*self.nest.prologue, *self.nest.epilogue):
            if not isinstance(s, l2.Add) or not self.elements[s.target].direct:
                continue
            if is_real(self.elements[s.target].type) and self.k.template.order is not l2.Order.FAST:
                raise PrintError(f"sums into `{s.target}` from many threads have no fixed order here", s.span)

    def extent(self, dims: Sequence[l2.Dim]) -> str:
        """The product of extents, as a 64-bit expression."""
        parts = [self.k.extent(d.extent) for d in dims]
        if not parts:
            return f"1{self.k.dialect.wide.lower()}"
        return " * ".join([f"(nl_i64){parts[0]}" if parts[0].isdigit() else parts[0], *parts[1:]])

    def split(self, index: str, dims: Sequence[l2.Dim]) -> list[Line]:
        """The dims of a flat index; the last one varies fastest."""
        if not dims:
            return []
        if len(dims) == 1:
            return [Line(f"const nl_i64 {self.vars[dims[0].name]} = {index};")]
        rest = self.k.namer.fresh("rest")
        lines = [Line(f"nl_u64 {rest} = {index};")]
        for d in reversed(dims[1:]):
            lines.append(Line(f"const nl_i64 {self.vars[d.name]} = nl_take({rest}, {self.k.extent(d.extent)});"))
        return [*lines, Line(f"const nl_i64 {self.vars[dims[0].name]} = {rest};")]

    def _acc_type(self) -> DType:
        assert self.nest.term is not None
        virtual: dict[str, Symbol] = {n: Symbol(n, e.type) for n, e in self.elements.items()}
        known = {**virtual, **self.scope}
        real = self.k.dialect.precision
        types = infer_locals(self.nest.prologue, known, self.elements, real)
        t: Scalar = type_of(self.nest.term, {**known, **{n: Symbol(n, t) for n, t in types.items()}}, real)
        if t == "bool" or t == DType.U8:
            return DType.I32
        if not is_real(t) and self.nest.combine != "add":
            raise PrintError("only sums may run over integers", self.k.template.span)
        return t

    def _joined(self, a: str, b: str, t: DType) -> str:
        """combine(a, b) as an expression."""
        assert self.nest.combine is not None
        return f"{a} + {b}" if self.nest.combine == "add" else self.k.printer.call(self.nest.combine, t, a, b)

    def _term(self, scope: dict[str, Symbol], acc: str, t: DType) -> list[Line]:
        """Loads and the combination of one term."""
        assert self.nest.term is not None
        body = Body(self.k.printer, dict(scope), self.elements, self.k.namer)
        loads = body.load(refs(self.nest.term))
        text = self.k.printer.expr(self.nest.term, body.scope, t)
        line = f"{acc} += {text};" if self.nest.combine == "add" else f"{acc} = {self._joined(acc, text, t)};"
        return [*loads, Line(line, span=self.k.template.span)]

    def _start(self, body: Body) -> tuple[list[Line], DType, str]:
        """The prologue and the accumulator's declaration."""
        lines = body.run(self.nest.prologue)
        t = self._acc_type()
        acc = self.k.namer.own(self.nest.acc)
        return [*lines, Line(f"{self.k.dialect.type_name(t)} {acc} = {self._nothing(t)};")], t, acc

    def _nothing(self, t: DType) -> str:
        """The identity element of the combination."""
        assert self.nest.combine is not None
        return literal(IDENTITY[self.nest.combine], t)

    def sequential(self) -> tuple[str, list[Line]]:
        """(the point's flat index, the lines of a point): a sum by one thread, in order."""
        body = self.body()
        start, t, acc = self._start(body)
        loop = self._term(body.scope, acc, t)
        sparse = self._sparse()
        for d in reversed(self.red):
            v, (first, step) = self.vars[d.name], sparse.get(d.name, ("0", 1))
            count = f"{v}++" if step == 1 else f"{v} += {step}"
            head = Line(f"for (nl_i64 {v} = {first}; {v} < {self.k.extent(d.extent)}; {count}) {{")
            loop = [head, *indent(loop), Line("}")]
        body.scope[self.nest.acc] = Symbol(acc, t)
        e = self.k.namer.fresh("e")
        inner = [*self.split(e, self.par), *start, *loop, *body.finish(self.nest.epilogue)]
        return e, inner

    def _sparse(self) -> dict[str, tuple[str, int]]:
        """Dims that are summed over in steps of a divisor, with the first term: the others read 0 because the index is
        not divisible, and add nothing (the gradient of a pooling). Skipping them changes no bit."""
        found: dict[str, tuple[str, int]] = {}
        if self.nest.combine != "add" or self.nest.fill != 0 or self.nest.term is None:
            return found
        red = {d.name for d in self.red}
        for f in self.k.template.formals:
            if (
                not isinstance(f, l2.ArrayFormal)
                or not isinstance(f.access, l2.Strided)
                or f.name not in refs(self.nest.term)
            ):
                continue
            if simplify(substitute(self.nest.term, {f.name: Num(0.0)})) != Num(0.0):
                continue
            for axis in f.access.axes:
                summed = [(d, c) for d, c in axis.terms if d in red]
                if axis.div == 1 or len(summed) != 1 or abs(summed[0][1]) != 1:
                    continue
                (dim, sign), rest = summed[0], tuple(t for t in axis.terms if t[0] not in red)
                index = axis_numerator(replace(axis, terms=rest), self._short)
                found.setdefault(dim, (f"nl_rest({'-' if sign > 0 else ''}({index}), {axis.div})", axis.div))
        return found
