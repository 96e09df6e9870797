"""emit: the C11 text of a merged program.

Assumes: a legal Merged (verify/verify.py).
Guarantees: the text is a function of the templates, the precision and the order alone: equal for any number and values
of rows. Every kernel names its part of the model; `spans` maps lines of the text to the model.
Does not: compile (build.py), or print tables (they are data).

Strategies. A `Contract` is rendered from `templates/strategy_<name>.c.j2`. The file is the body for one row (its
columns are loaded) and may use:
  lit                          its literals by name (`lit.tile`)
  f                            C identifiers by formal name: columns (numbers) and array pointers (`f.x` is `x_`)
  x, other                     the operand that the literal `vector` names, and the other one
  real, bytes                  the name of the real type, and its size in bytes (4 or 8)
  lanes                        the extent of the nest's LANE dim, 0 when there is none
  dims, extent(name)           (name, extent as C) of the nest's dims, in order; the extent of one of them
  par, lane                    the names of its PAR dims (the axes of the output, in order) and of its LANE dim or ""
  at_dims(*places, group)      `dims` of the output at these places; that of axis `group` (1) only where there are five
  plain                        whether the epilogue only stores the accumulator in `y`
  joined(a, b)                 whether the epilogue's formals walk two adjacent dims as one: a = 0 and b continues
  walked(dim, written)         the formals that the epilogue reads (or, with `written`, writes), and that continue
                               along `dim`
  id                           `k3`: a prefix for names at file scope
  at(formal, **dims)           the C lvalue of a formal's element, dims given as C texts (default: the dim's own name)
  address(formal, **dims)      the element offset alone
  inside(formal, **dims)       the guard of the access as a C truth value, or "" when it has none
  prologue(depth, **dims)      the nest's prologue at one point
  term(**dims)                 the nest's term as a C expression of formals' elements read in place
  combine(acc, value)          `acc += value` or the like, as a statement
  identity                     the value that accumulators start from
  epilogue(acc, depth, **dims) what consumes `acc` (a C expression) at one point and stores it: one statement, or
                               a `{ }` block that is indented by `depth` levels
  each(var, first, end, acc, depth, dims, kind)
                               a loop of that kind (stmt.Kind) over `var` with that at each point: statements
  form(pattern, *parts)        `form("sums[i + {}]", f.n)`: columns in a text (in one of `~` they are not loaded)
  order                        "fast" | "reproducible" | "bitwise"
  scratch                      the expression `(real *)ctx->scratch`; Contract.scratch bytes of it may be used
Tiles that strategies share (nl_tiles, nl_dots, ...) are in templates/tiles.c.j2, once in a program that uses them. A
block between `{% set helpers %}` and `{% endset %}` is put at file scope before the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, of_row
from backends.c_family.cprint import Body, Dialect, PrintError, Symbol
from backends.c_family.device_library import file_names
from backends.c_family.point_nest import NestBuilder
from backends.c_family.records import record_of
from backends.c_family.rule_rows import connect, skeleton
from backends.c_family.skeletons import noting
from backends.c_family.source_map import kernels_of, printed
from backends.cpu.kernels.column_sums import nest_lines
from backends.cpu.kernels.kernel import SKELETONS, function
from backends.cpu.kernels.propagate import propagate
from backends.cpu.kernels.row_pointers import with_rows
from backends.cpu.kernels.shared_functions import shared_functions
from backends.kernel_ir.copies import without_copies
from backends.kernel_ir.descriptor import Compiled
from backends.kernel_ir.expr import Operand, call, code, form
from backends.kernel_ir.inline import inlined
from backends.kernel_ir.stmt import (
    Block,
    Do,
    For,
    Frame,
    If,
    Kind,
    Leave,
    Set,
    Stmt,
    Text,
    names_of,
    text_of,
    used,
    when,
)
from backends.kernel_ir.tree import Code
from compiler.core.source import Span
from compiler.expr.ast import Ref, refs
from compiler.ir.space import DType, Role
from compiler.strategies.cost.tiles import DOTS, ROWS_GRADIENTS, TILES

PHASES = 16
"""That a program has room for, at least."""


@dataclass(frozen=True)
class Emitted:
    """`text`: the C file; `header`: netloom.h; `spans`: model spans by line of the text (from 1); `kernels`: their
    descriptors, by template."""

    text: str
    header: str
    spans: Mapping[int, Span]
    kernels: Compiled


def _nothing(_: Compiled) -> Mapping[str, object]:
    return {}


def emit(
    program: l2.Merged, skeleton: str = "module.c.j2", more: Callable[[Compiled], Mapping[str, object]] = _nothing
) -> Emitted:
    """The C file and header of a program. `skeleton`: the file around the kernels, which may read what `more` tells of
    the columns of its rows. Raises BackendError (E0903) for programs without a C text."""
    dialect = Dialect(program.precision, row_real="double", pointer="nl_at(ctx, {})")
    blocks, made = kernels_of(program, dialect, "C", lambda k: brief(k, used(_statements(k))))
    kernels = printed(blocks)
    shared = shared_functions(blocks)
    names = file_names(program, kernels, names_of(s for b in blocks for s in b), "c", shared)
    text = SKELETONS.render(
        skeleton,
        phases=max(PHASES, len(program.phases)),
        bytes=program.precision.bytes,
        shared=bool(shared),
        tile_shapes=TILES,
        dot_shapes=DOTS,
        gradient_shapes=ROWS_GRADIENTS,
        functions=[x.function for x in made],
        **names,
        **{"loops": program.has_loops, **more(made)},
    )
    header = SKELETONS.render(
        "module.h.j2",
        source=f"{program.name}.c",
        loops=program.has_loops,
        roles=[str(r) for r in Role],
        kernels=len(program.templates),
    )
    return Emitted(text, header, kernels.within(text), made)


def brief(k: Kernel, statements: Sequence[Stmt]) -> list[Stmt]:
    """Without long subscripts, copies, and names of what is read once."""
    return inlined(with_rows(k, without_copies(statements)), k.reads)


def _statements(k: Kernel) -> list[Stmt]:
    """The function of one template, behind what it needs at file scope."""
    helpers: list[Stmt] = []
    match k.template.body:
        case l2.Nest() as nest:
            body = nest_lines(k, nest)
        case l2.Contract() as contract:
            helpers, body = emit_contract(k, contract)
        case l2.Propagate() as p:
            return propagate(k, p)
        case l2.Connect() as c:
            body = [connect(k, c, SKELETONS.statements())]
        case l2.RecordEvents() | l2.RecordTrace() as r:
            body = _record(k, r)
        case l2.EmitScheduled():
            body = [skeleton(k, SKELETONS.statements(), "emit_scheduled.c.j2")]
    return [*helpers, *function(k, body)]


def _record(k: Kernel, r: l2.RecordTrace | l2.RecordEvents) -> list[Stmt]:
    """Where the next steps may find no room, the step loop returns."""
    x = record_of(k, r)
    full = If(x.full, [Do(call("nl_overflow", "ctx")), Leave("continue")])
    return [*x.first, full, x.loop, x.counted, when(x.soon, Set(code("ctx->full"), 1))]


# ----------------------------------------------------------------------------------------- strategies


class ContractNames(NestBuilder):
    """The names available to a strategy's file; see the header of this module."""

    def __init__(self, k: Kernel, contract: l2.Contract) -> None:
        self.k, self.nest, self.apart = k, contract.nest, contract.apart
        self.dim_names = [d.name for d in contract.nest.dims]
        self.par = [d for d in contract.nest.dims if d.kind is l2.DimKind.PAR]

    def _scope(self, dims: Mapping[str, Operand]) -> dict[str, Symbol]:
        """Where dims have these meanings."""
        unknown = set(dims) - set(self.dim_names)
        if unknown:
            raise PrintError(f"the strategy names unknown dims {sorted(unknown)}", self.k.template.span)
        return self.k.scope | {n: Symbol(_given(dims.get(n, n)), DType.I64) for n in self.dim_names}

    def _access(self, formal: str) -> l2.Strided:
        if formal not in self.k.template.strided:
            raise PrintError(f"`{formal}` has no element access", self.k.template.span)
        return self.k.template.strided[formal]

    def at_dims(self, *places: str, group: int = 1) -> dict[str, str]:
        found = [x for n, x in enumerate(places) if n != group or len(self.par) == 5]
        return {d.name: x for d, x in zip(self.par, found, strict=False)}

    def address(self, formal: str, **dims: Operand) -> Code:
        return self.k.addresses(self._scope(dims)).offset(self._access(formal))

    def at(self, formal: str, **dims: Operand) -> Code:
        return self.k.pointers[formal][self.address(formal, **dims)]

    def inside(self, formal: str, **dims: Operand) -> Code | None:
        return self.k.addresses(self._scope(dims)).inside(self._access(formal))

    def joined(self, a: str, b: str) -> bool:
        """Whether every formal of the epilogue walks dims `a` and `b`, which are adjacent in storage, or neither."""
        used = self._read() | self._written()
        walked = [access.dims for f, access in self.k.strided if f.name in used]
        return not self.apart and all((a in dims) == (b in dims) for dims in walked) and not used & {a, b}

    def _written(self) -> set[str]:
        return {s.target for s in self.nest.epilogue if not isinstance(s, l2.Emit)}

    def _read(self) -> set[str]:
        return {n for s in self.nest.epilogue if not isinstance(s, l2.Emit) for n in refs(s.value)}

    def walked(self, dim: str, written: bool = True) -> list[str]:
        """The formals that the epilogue reads, or with `written` reads or writes, and that continue along `dim`."""
        used = self._read() | self._written() if written else self._read() - self._written()
        along = [f.name for f, access in self.k.strided if any(d == dim for x in access.axes for d, _ in x.terms)]
        return [name for name in along if name in used]

    def _body(self, dims: Mapping[str, Operand]) -> Body:
        scope = self._scope(dims)
        elements = self.k.elements(self.k.addresses(scope), self.nest.fill)
        return Body(self.k.dialect, scope, elements, self.k.namer)

    def prologue(self, depth: int = 0, **dims: Operand) -> Code:
        return text_of(self._body(dims).finish(self.nest.prologue), depth)

    def term(self, **dims: Operand) -> Code:
        """The term with its element reads inline; formals must not be guarded."""
        assert self.nest.term is not None
        body = self._body(dims)
        scope = dict(body.scope)
        for name in refs(self.nest.term):
            if name in body.elements:
                e = body.elements[name]
                scope[name] = Symbol(e.value, e.type)
        return self.k.dialect.expr(self.nest.term, scope, self.k.dialect.precision)

    def combine(self, acc: Operand, value: Operand) -> Code:
        return text_of([self.combined(code(acc), code(value), self.k.dialect.precision)])

    def epilogue(self, acc: Operand, depth: int = 0, **dims: Operand) -> Code:
        inner = brief(self.k, self.ended(acc, self._body(dims)))
        return text_of(inner if len(inner) == 1 else [Block("", inner)], depth)

    def each(
        self, var: str, first: Operand, end: Operand, acc: Operand, depth: int, dims: Mapping[str, Operand], kind: str
    ) -> Code:
        """A loop over `var` with the epilogue at each of its points, as statements."""
        loop = For(code(var), _given(first), _given(end), self.ended(acc, self._body(dims)), kind=Kind[kind])
        return text_of(brief(self.k, [loop]), depth)


def _given(x: Operand) -> Code:
    """An expression from a skeleton, as an operand."""
    return code(x if isinstance(x, Code) else str(x))


def emit_contract(k: Kernel, contract: l2.Contract) -> tuple[list[Stmt], list[Stmt]]:
    """(file-scope helpers, statements of one row) of a contraction, from its strategy's file."""
    file = f"strategy_{contract.strategy}.c.j2"
    if file not in SKELETONS.statements().list_templates():
        raise PrintError(f"there is no strategy `{contract.strategy}` for this target", k.template.span)
    names, formals, vector = ContractNames(k, contract), k.identifiers, dict(contract.literals).get("vector", 0)
    lanes = [d.extent for d in contract.nest.dims if d.kind is l2.DimKind.LANE]
    precision = k.dialect.precision
    printed = set[str]()
    module = (
        SKELETONS.statements()
        .get_template(file)
        .make_module(
            {
                **noting(printed),
                **{n: getattr(names, n) for n in vars(ContractNames) if not n.startswith("_")},
                "form": form,
                "lit": dict(contract.literals),
                "f": formals,
                "x": formals.get(f"x{vector}"),
                "other": formals.get(f"x{1 - vector}"),
                "column": of_row(k),
                "real": k.dialect.real,
                "bytes": precision.bytes,
                "lanes": lanes[0] if lanes else 0,
                "dims": [(d.name, k.extent(d.extent)) for d in contract.nest.dims],
                "par": [d.name for d in names.par],
                "lane": next((d.name for d in contract.nest.dims if d.kind is l2.DimKind.LANE), ""),
                "plain": contract.nest.epilogue == (l2.Assign("y", Ref(contract.nest.acc)),),
                "extent": lambda n: next(k.extent(d.extent) for d in contract.nest.dims if d.name == n),
                "id": f"k{k.template.index}",
                "identity": names.identity(precision),
                "order": str(k.template.order),
                "scratch": f"({k.dialect.real} *)ctx->scratch",
            }
        )
    )
    helpers = str(getattr(module, "helpers", "")).strip("\n")
    noted = frozenset(printed)
    shown: list[Stmt] = [Frame(helpers, noted), Text("")] if helpers else []
    return shown, [Frame(str(module).strip("\n"), noted)]
