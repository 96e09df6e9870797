"""Legality of level-2 code: the formals and the body of a kernel or a template, without its rows.

Assumes: nothing; the code may be anything that the constructors accept.
Guarantees: `code_violations` names every breach of the spec below.
  formals    unique names; a Strided access names dims or integer locals, columns or literals; no
             name twice
  names      every name of an expression is a local assigned before, a readable element, a column,
             a dim, `step` or a constant; every function is one of the language or a draw; no
             quantities
  reads      of WRITE elements only after their assignment, of ACCUMULATE elements never; RED dims
             only in terms and in `each`
  writes     to WRITE and UPDATE elements, `+=` to ACCUMULATE and UPDATE ones; every WRITE element
             is assigned
  nests      distinct dims, LANE dims last and literal; RED dims need a combine, a combine needs a
             term; no accumulator reads another of its stage, and no name is two of them; nests of
             several stages have no lanes, and `each` writes another element at each point of the
             RED dims; events are emitted by a map over the one dim `i`
  the rest   formals that a body finds by name are there, with their type
Does not: look at arrays and numbers (program.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import compiler.ir.level2.program as l2
from compiler.connect import RULE
from compiler.expr.ast import Call, Expr, Num, Quantity, Ref, children, refs
from compiler.expr.functions import CONSTANTS, COUNTS, FUNCTIONS, LOOKUP, ROUNDED
from compiler.ir.space import DType
from compiler.verify.violations import distinct

DRAWS: Final[Mapping[str, int]] = {
    **{"uniform": 3, "normal": 3, "exponential": 3},
    **{"poisson": 4, "binomial": 5, "shuffled": 4},
}
ENDS: Final = frozenset({"pre", "post", "syn"})
_INTEGERS: Final = frozenset({DType.I64})
_SIZES: Final = {"n_pre": DType.I64, "n_post": DType.I64}
_DRAWN: Final = {**_SIZES, "key": DType.U64}
_ROW: Final = {"row": DType.I64}
_STORED: Final = {**_ROW, "col": DType.I32}
_DRAWING: Final[Mapping[str, Mapping[str, DType]]] = {"count": _ROW, "fill": _STORED, "mask": {"words": DType.U32}}
"""What a stage makes, and reads of what has been made, of a rule that draws."""
_TURNED: Final = {**_STORED, "to_row": DType.I64, **_SIZES}
_FILLED: Final = {**_TURNED, "to_col": DType.I32, "to_index": DType.I32}
_REWIRED: Final = {**_STORED, "gone": DType.I32, **_DRAWN}
_STAGES: Final[Mapping[tuple[str, str], Mapping[str, DType]]] = {
    ("transpose", "count"): _TURNED,
    ("transpose", "fill"): _FILLED,
    ("transpose", "refill"): {**_FILLED, "to_filled": DType.I32},
    ("rewire", "rewire"): {**_REWIRED, **dict.fromkeys(("multapses", "autapses", "same"), DType.I64)},
}
"""All that other rules read, by rule and stage."""


def code_violations(code: l2.Kernel | l2.Template) -> Iterator[str]:
    """Every breach of the spec by the formals and the body of `code`."""
    yield from distinct("formal", (f.name for f in code.formals))
    check = _Code({f.name: f for f in code.arrays}, {f.name: f for f in code.columns})
    match code.body:
        case l2.Nest() as nest:
            yield from check.nest(nest)
        case l2.Contract() as contract:
            yield from check.contract(contract)
        case l2.Attention() as body:
            columns = ("batch", "heads", "steps", "keys", "d", "e")
            arrays = ("query", "key", "value", *body.beside)
            yield from check.found(dict.fromkeys(columns, DType.I64) | dict.fromkeys((*arrays, "scale")))
        case l2.Propagate() as body:
            yield from check.propagate(body)
        case l2.Connect(rule, stage, probability):
            yield from check.connect(rule, stage)
            if (stage != "scan" and _computed(rule)) != (probability is not None):
                yield f"connect rule `{rule}`, stage `{stage}`, has an expression too many or too few"
            yield from check.probability(probability)
        case l2.RecordEvents() | l2.RecordTrace() | l2.EmitScheduled() as body:
            yield from check.found(body.by_name)
            yield from check.trace(body) if isinstance(body, l2.RecordTrace) else ()


def _computed(rule: str) -> bool:
    """Whether an expression decides which pairs are connected."""
    return rule in RULE and RULE[rule].expression


@dataclass
class _Code:
    """What is known at a place of the code while it is walked from top to bottom."""

    arrays: Mapping[str, l2.ArrayFormal]
    scalars: Mapping[str, l2.ScalarFormal]
    dims: dict[str, l2.DimKind] = field(default_factory=dict)
    locals: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    in_term: bool = False
    in_propagation: bool = False

    # ---------------------------------------------------------------------------------- expressions

    def expression(self, e: Expr, where: str) -> Iterator[str]:
        stack = [e]
        while stack:
            x = stack.pop()
            match x:
                case Ref(name):
                    yield from self.read(name, where)
                case Quantity():
                    yield f"{where} holds a quantity"
                case Call(func, (Ref(table), argument)) if func == LOOKUP:
                    formal = self.arrays.get(table)
                    if formal is None or formal.mode is not l2.Mode.READ or formal.access != l2.ByName():
                        yield f"{where} looks up `{table}`, which is no table"
                    stack.append(argument)
                    continue
                case Call(func, (_,)) if func == ROUNDED:
                    pass
                case Call(func, args):
                    known = FUNCTIONS.get(func)
                    if func in DRAWS and (known is None or known.random):
                        given = func not in COUNTS and len(args) == 4 and isinstance(args[3], Num)
                        if len(args) != DRAWS[func] and not given:
                            yield f"{where} calls `{func}` with {len(args)} arguments"
                    elif known is None or known.random:
                        yield f"{where} calls `{func}`, which no kernel can"
                    elif not known.accepts(len(args)):
                        yield f"{where} calls `{func}` with {len(args)} arguments"
            stack.extend(children(x))

    def read(self, name: str, where: str) -> Iterator[str]:
        if name in self.locals or name in self.scalars:
            return
        if name in self.dims:
            if self.dims[name] is l2.DimKind.RED and not self.in_term:
                yield f"{where} reads the reduced dim `{name}`"
        elif name in self.arrays:
            formal = self.arrays[name]
            yield from self.element(formal, where)
            if formal.mode is l2.Mode.ACCUMULATE:
                yield f"{where} reads `{name}`, which is only added to"
            if formal.mode is l2.Mode.WRITE and name not in self.assigned:
                yield f"{where} reads `{name}` before it is written"
        elif self.in_propagation and name in ENDS:
            return
        elif name != "step" and name not in CONSTANTS:
            yield f"{where} reads `{name}`, which is not known there"

    def element(self, formal: l2.ArrayFormal, where: str) -> Iterator[str]:
        """Whether the element of `formal` is reachable here."""
        access = formal.access
        if self.in_propagation and access == l2.SCALAR and formal.mode is l2.Mode.READ:
            return
        if isinstance(access, l2.ByName) or isinstance(access, l2.At) != self.in_propagation:
            yield f"{where} uses `{formal.name}`, which has no element there"
        if isinstance(access, l2.Strided):
            for name in sorted(access.dims):
                if name in self.dims:
                    if self.dims[name] is l2.DimKind.RED and not self.in_term:
                        yield f"{where} reaches `{formal.name}` along the reduced dim `{name}`"
                elif name not in self.locals:
                    yield f"{where} reaches `{formal.name}` along `{name}`, not known there"

    # ----------------------------------------------------------------------------------- statements

    def statements(self, statements: tuple[l2.Statement, ...], part: str) -> Iterator[str]:
        for i, s in enumerate(statements):
            where = f"{part} statement {i + 1}"
            if isinstance(s, l2.Emit):
                yield from self.expression(s.when, where)
                yield from self.emit(s, where)
                continue
            yield from self.expression(s.value, where)
            formal = self.arrays.get(s.target)
            if formal is None:
                if s.target in self.scalars or s.target in self.dims or s.target == "step":
                    yield f"{where} assigns to `{s.target}`, which is not a local or an element"
                elif isinstance(s, l2.Add):
                    yield f"{where} adds to `{s.target}`, which is not an element"
                self.locals.add(s.target)
                continue
            yield from self.element(formal, where)
            allowed = (l2.Mode.ACCUMULATE,) if isinstance(s, l2.Add) else (l2.Mode.WRITE,)
            if formal.mode not in (*allowed, l2.Mode.UPDATE):
                yield f"{where} writes `{s.target}`, whose mode is `{formal.mode.value}`"
            self.assigned.add(s.target)

    def emit(self, s: l2.Emit, where: str) -> Iterator[str]:
        for name in (s.list, s.count):
            formal = self.arrays.get(name)
            writes = formal is not None and formal.mode in (l2.Mode.WRITE, l2.Mode.UPDATE)
            if formal is None or not writes or not isinstance(formal.access, l2.ByName):
                yield f"{where} emits into `{name}`, which is not a whole array that is written"
            elif formal.dtype is not DType.I32:
                yield f"{where} emits into `{name}`, which is {formal.dtype.value}, not i32"
            self.assigned.add(name)
        yield from self.column(s.slots, where)
        if self.in_propagation or self.dims != {"i": l2.DimKind.PAR}:
            yield f"{where} emits, but not in a map over the one dim `i`"

    def column(self, name: str, where: str) -> Iterator[str]:
        """`name` is an integer column."""
        formal = self.scalars.get(name)
        if formal is None:
            yield f"{where} needs the column `{name}`, which is missing"
        elif formal.dtype not in _INTEGERS:
            yield f"{where} needs `{name}` as i64, not {formal.dtype.value}"

    # --------------------------------------------------------------------------------------- bodies

    def nest(self, nest: l2.Nest) -> Iterator[str]:
        yield from self.loops(nest)
        for formal in self.arrays.values():
            yield from self.axes(formal)
        yield from self.statements(nest.prologue, "prologue")
        yield from self.reduction(nest)
        for formal in self.arrays.values():
            if formal.mode is l2.Mode.WRITE and formal.name not in self.assigned:
                yield f"`{formal.name}` is declared as written, but never is"

    def contract(self, contract: l2.Contract) -> Iterator[str]:
        self.assigned |= {s.target for s in contract.sums}
        yield from self.nest(contract.nest)
        yield from self.tile_sums(contract)
        if contract.nest.beside or contract.nest.staged:
            yield "a contraction by a strategy has one sum"
        if contract.scratch is not None:
            yield from self.column(contract.scratch, "scratch")

    def tile_sums(self, contract: l2.Contract) -> Iterator[str]:
        for s in contract.sums:
            target = self.arrays.get(s.target)
            if target is None or target.mode is not l2.Mode.WRITE or target.access != l2.ByName():
                yield f"`{s.target}` is no whole array that sums over tiles are written to"
            yield from self.expression(s.value, "a sum over tiles")
            yield from (f"a sum over tiles reads `{n}`, no element" for n in refs(s.value) - self.arrays.keys())
            if s.weight and (s.weight not in self.arrays or not contract.flat):
                yield f"`{s.weight}` has no weights of rows"
        for column in ("tile_lines", "tile_rows", "tiles") if contract.sums else ():
            yield from self.column(column, "a sum over tiles")

    def loops(self, nest: l2.Nest) -> Iterator[str]:
        lanes = False
        for d in nest.dims:
            if d.name in self.dims or d.name in self.arrays or d.name in self.scalars:
                yield f"dim `{d.name}` has a name that is taken"
            self.dims[d.name] = d.kind
            if isinstance(d.extent, str):
                yield from self.column(d.extent, f"dim `{d.name}`")
                if d.kind is l2.DimKind.LANE:
                    yield f"the lanes of dim `{d.name}` are not literal"
            elif d.extent < 1:
                yield f"dim `{d.name}` has the extent {d.extent}"
            if lanes and d.kind is not l2.DimKind.LANE:
                yield f"dim `{d.name}` stands inside the lanes"
            lanes = lanes or d.kind is l2.DimKind.LANE

    def reduction(self, nest: l2.Nest) -> Iterator[str]:
        if nest.combine is None:
            if nest.term is not None or nest.beside or nest.epilogue:
                yield "a term or an epilogue stands without a combine"
            if l2.DimKind.RED in self.dims.values():
                yield "there are reduced dims, but no combine"
        for stage in nest.stages:
            yield from self.stage(stage)
        yield from self.each(nest)
        yield from self.blocks(nest)

    def blocks(self, nest: l2.Nest) -> Iterator[str]:
        if nest.blocks is None:
            return
        if nest.blocks.dim not in (d.name for d in nest.red) or "add" not in (s.combine for s in nest.stages):
            yield f"there are no sums over `{nest.blocks.dim}` to be cut into blocks"
        if isinstance(nest.blocks.length, str):
            yield from self.column(nest.blocks.length, "the length of blocks")
        elif nest.blocks.length < 1:
            yield f"blocks have the length {nest.blocks.length}"

    def stage(self, stage: l2.Stage) -> Iterator[str]:
        if stage.combine not in ("add", "max", "min") or not stage.sums:
            yield f"combine `{stage.combine}` is not known, or has no term"
            return
        self.in_term = True
        for s in stage.sums:
            yield from self.expression(s.term, "the term")
        self.in_term = False
        for s in stage.sums:
            if any(s.acc in taken for taken in (self.arrays, self.scalars, self.dims, self.locals)):
                yield f"the accumulator has the name `{s.acc}`, which is taken"
            self.locals.add(s.acc)
        yield from self.statements(stage.epilogue, "epilogue")

    def each(self, nest: l2.Nest) -> Iterator[str]:
        red = {d.name for d in nest.red}
        if nest.staged and (nest.combine is None or any(d.kind is l2.DimKind.LANE for d in nest.dims)):
            yield "stages stand without a combine, or beside lanes"
        self.in_term = True
        yield from self.statements(nest.each, "each")
        self.in_term = False
        for name in sorted({s.target for s in nest.each if isinstance(s, l2.Assign | l2.Add)} & self.arrays.keys()):
            access = self.arrays[name].access
            if isinstance(access, l2.Strided) and not red <= access.dims:
                yield f"`each` writes `{name}` at several points"

    def axes(self, formal: l2.ArrayFormal) -> Iterator[str]:
        if isinstance(formal.access, l2.At):
            yield f"`{formal.name}` is accessed as in a propagation"
        if not isinstance(formal.access, l2.Strided):
            return
        for axis in formal.access.axes:
            where = f"the access of `{formal.name}`"
            for x in (axis.const, axis.extent, axis.stride):
                if isinstance(x, str):
                    yield from self.column(x, where)
            if axis.div < 1:
                yield f"{where} divides by {axis.div}"
            if any(c == 0 for _, c in axis.terms) or len(dict(axis.terms)) != len(axis.terms):
                yield f"{where} has a term that is zero or stands twice"

    def propagate(self, body: l2.Propagate) -> Iterator[str]:
        self.in_propagation = True
        match body.events:
            case l2.Events(events, count, slots, delay, stride):
                yield from self.whole({events: DType.I32, count: DType.I32})
                for column in (slots, delay, stride):
                    yield from self.column(column, "the propagation")
            case l2.Every(n):
                yield from self.column(n, "the propagation")
        if body.by not in ("pre", "post"):
            yield f"events cannot belong to `{body.by}`"
        yield from self.relation(body.relation, body.by)
        for formal in self.arrays.values():
            if isinstance(formal.access, l2.At):
                yield from self.at_end(formal, formal.access)
        gathers = isinstance(body.events, l2.Every) and isinstance(body.relation, l2.Csr | l2.Dense | l2.OneToOne)
        if body.gather and not gathers:
            yield "only every neuron gathers, from synapses that are found by both ends"
        yield from self.statements(body.statements, "propagation")

    def at_end(self, formal: l2.ArrayFormal, access: l2.At) -> Iterator[str]:
        if access.end not in ENDS:
            yield f"`{formal.name}` is accessed at `{access.end}`"
        if access.ring is None:
            if access.past:
                yield f"`{formal.name}` is of the past, but no ring"
            return
        delay, slots, size = access.ring
        if access.past and formal.mode is not l2.Mode.READ:
            yield f"`{formal.name}` is of the past, but its mode is `{formal.mode.value}`"
        for column in (slots, size, *(() if delay in self.arrays else (delay,))):
            yield from self.column(column, f"the ring of `{formal.name}`")

    def whole(self, wanted: Mapping[str, DType]) -> Iterator[str]:
        """Whole arrays that are read."""
        for name, dtype in wanted.items():
            formal = self.arrays.get(name)
            if formal is None or not isinstance(formal.access, l2.ByName):
                yield f"the relation or the events need the whole array `{name}`"
            elif formal.dtype is not dtype or formal.mode is not l2.Mode.READ:
                yield f"`{name}` is {formal.mode.value} {formal.dtype.value}, not r {dtype.value}"

    def relation(self, relation: l2.Relation, by: str) -> Iterator[str]:
        match relation:
            case l2.Csr(row, col, index, shared):
                yield from self.whole({row: DType.I64, col: DType.I32} | ({index: DType.I32} if index else {}))
                if shared and (index is None or by != "pre"):
                    yield "synapses that share numbers are rows by source with an index"
            case l2.Dense(n_pre, n_post):
                for column in (n_pre, n_post):
                    yield from self.column(column, "the relation")
            case l2.OneToOne():
                pass
            case l2.Bitmask(words, n_post):
                yield from self.whole({words: DType.U32})
                yield from self.column(n_post, "the relation")
                yield from self.unnumbered("a bitmask")
            case l2.Procedural(rule, row, probability):
                yield from self.whole({row: DType.I64})
                yield from self.procedural(rule, probability)
            case l2.Toeplitz(kernel, stride):
                if min(*kernel, *stride) < 1:
                    yield f"the kernel is {kernel}, the stride {stride}"
                yield from self.found(relation.by_name)
        if by == "post" and isinstance(relation, l2.Bitmask | l2.Procedural | l2.Toeplitz):
            yield f"a {type(relation).__name__} relation is walked by target"

    def procedural(self, rule: str, probability: Expr | None) -> Iterator[str]:
        if rule not in RULE:
            yield f"connect rule `{rule}` is not known"
        else:
            wanted = {("connect_key" if n == "key" else n): t for n, t in {**_DRAWN, **RULE[rule].formals}.items()}
            yield from self.found(wanted)
        if _computed(rule) != (probability is not None):
            yield f"connect rule `{rule}` has an expression too many or too few"
        yield from _Code(self.arrays, self.scalars, in_propagation=True).probability(probability)
        if rule in RULE and not RULE[rule].ordered:
            yield from self.unnumbered("rows that are drawn out of order")

    def probability(self, probability: Expr | None) -> Iterator[str]:
        if probability is not None:
            self.dims |= dict.fromkeys(("i", "j", *l2.PLACES), l2.DimKind.PAR)
            yield from self.expression(probability, "the probability")

    def trace(self, body: l2.RecordTrace) -> Iterator[str]:
        self.dims["i"] = l2.DimKind.PAR
        if "ring_slots" in self.scalars:
            self.dims["slot"] = l2.DimKind.PAR
        yield from self.expression(body.value, "its value")

    def unnumbered(self, what: str) -> Iterator[str]:
        """Synapses of this relation have no number."""
        for f in self.arrays.values():
            if isinstance(f.access, l2.At) and f.access.end == "syn":
                yield f"`{f.name}` is accessed at `syn`, but the synapses of {what} have no number"

    def connect(self, rule: str, stage: str) -> Iterator[str]:
        wanted = {**_ROW, "n_pre": DType.I64} if stage == "scan" else _STAGES.get((rule, stage))
        if wanted is None and rule in RULE and stage in _DRAWING:
            wanted = {**_DRAWING[stage], **_DRAWN, **RULE[rule].formals}
        if wanted is None:
            yield f"connect rule `{rule}`, stage `{stage}`, is not known"
        else:
            yield from self.found(wanted)

    def found(self, wanted: Mapping[str, DType | None]) -> Iterator[str]:
        """The formals that a body finds by name; None: any type."""
        for name, dtype in wanted.items():
            formal = self.arrays.get(name) or self.scalars.get(name)
            if formal is None:
                yield f"its body needs a formal `{name}`"
            elif dtype is not None and formal.dtype is not dtype:
                yield f"its body needs `{name}` as {dtype.value}, not {formal.dtype.value}"
