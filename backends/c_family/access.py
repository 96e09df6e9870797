"""Names of one template: the row structure, the columns, and the elements of arrays.

Assumes: a legal template (verify/verify.py); the names in its affine accesses are dims, columns or integer locals.
Guarantees: every formal that a kernel reads has one field, every name one identifier.
Does not: print loops, loads of columns or files (the backends do).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.addresses import Addresses, inner_last
from backends.c_family.cprint import STEP, Dialect, Element, Scope, Symbol
from backends.c_family.names import Namer, operation
from backends.kernel_ir.descriptor import CompiledKernel
from backends.kernel_ir.expr import cast, code, form, name
from backends.kernel_ir.stmt import Let, Stmt, Struct, names_of
from backends.kernel_ir.tree import Code, Index, Member, Place
from backends.kernel_ir.types import Typed
from compiler.core.symbols import Sym
from compiler.ir.space import DType

_SYNONYMS: Final = {"list": "spikes", "count": "spike_count"}


@dataclass
class Kernel:
    """A template during printing. `scope` holds the columns; `pointers` the array formals' C pointers."""

    template: l2.Template
    dialect: Dialect
    namer: Namer
    scope: dict[str, Symbol]
    pointers: dict[str, Code]
    fields: dict[str, Code]

    @property
    def function(self) -> str:
        """`k3_neuron_update`: the number and the operation (the part of the kernel's name after the path)."""
        what = operation(self.template.name)
        return f"k{self.template.index}_{what}" if what else f"k{self.template.index}"

    @property
    def row_type(self) -> str:
        return f"k{self.template.index}_row"

    @property
    def strided(self) -> list[tuple[l2.ArrayFormal, l2.Strided]]:
        """The arrays whose elements the dims of a nest tell."""
        return [(f, f.access) for f in self.template.arrays if isinstance(f.access, l2.Strided)]

    @property
    def identifiers(self) -> dict[str, Code]:
        """Those of all formals, by name; `list` and `count` also under their usual synonyms."""
        names = dict(self.pointers)
        names |= {f.name: self.scope[f.name].code for f in self.template.formals if isinstance(f, l2.ScalarFormal)}
        return {name: names[other] for name, other in _SYNONYMS.items() if other in names} | names

    def formal(self, name: str) -> l2.ArrayFormal:
        return {f.name: f for f in self.template.arrays}[name]

    def reads(self, place: Index, kind: Typed) -> bool:
        """Whether that is an element of an array formal that is only read, with elements of this type."""
        formal = place.formal if isinstance(place, Place) else ""
        read = (f for f in self.template.arrays if f.mode is l2.Mode.READ)
        found = (f for f in read if f.name == formal or self.pointers[f.name] == place.array)
        return any(self.dialect.type_name(f.dtype) == str(kind) for f in found)

    def extent(self, extent: int | str) -> Code:
        """A literal, or the column of a name."""
        return code(extent) if isinstance(extent, int) else self.scope[extent].code

    def addresses(self, scope: Scope) -> Addresses:
        """How accesses are printed where names, but for locals, have these meanings."""
        return Addresses(lambda n: scope[n].code if n in scope else self.namer(n), self.dialect.short)

    def elements(self, at: Addresses, fill: float = 0.0) -> dict[str, Element]:
        """The elements that the dims of a nest tell; `fill`: the value of those out of bounds."""
        return {
            f.name: Element(
                Place(self.pointers[f.name], at.offset(access), f.name),
                f.dtype.computed,
                f.mode,
                at.inside(access),
                fill,
            )
            for f, access in self.strided
        }


def open_kernel(template: l2.Template, dialect: Dialect) -> Kernel:
    """Names for a template: see Namer."""
    shown = _shown(template)
    namer, fields = Namer(shown), Namer(shown)
    scope = {"step": Symbol(STEP, DType.I64)}
    pointers: dict[str, Code] = {}
    for f in template.formals:
        fields(f.name)
        if isinstance(f.name, Sym):
            namer(f.name)  # a local is called as its field
        if isinstance(f, l2.ScalarFormal):
            scope[f.name] = Symbol(namer(f.name), f.dtype)
        else:
            pointers[f.name] = namer.beside(f.name, "p")
            if isinstance(f.access, l2.ByName) and f.dtype.is_real:
                scope[f.name] = Symbol(pointers[f.name], f.dtype)  # as an argument of a lookup
    return Kernel(
        template,
        dialect,
        namer,
        scope,
        pointers,
        {f.name: fields(f.name) for f in template.formals},
    )


def compiled(k: Kernel, read: Collection[str]) -> CompiledKernel:
    """The descriptor of a kernel whose rows have the formals `read`."""
    here = [(n, f.name) for n, f in enumerate(k.template.formals) if f.name in read]
    return CompiledKernel(k.function, tuple(n for n, _ in here), tuple(k.fields[f].text for _, f in here))


def _shown(template: l2.Template) -> dict[str, str]:
    """The names to show for formals and dims that have a meaning, and for the columns that are called after them."""
    words = {f.name: f.meaning for f in template.arrays if f.meaning}
    body = template.body.nest if isinstance(template.body, l2.Contract) else template.body
    dims = {d.name: d.meaning for d in body.dims if d.meaning} if isinstance(body, l2.Nest) else {}
    shown, words = dict(dims), words | dims
    for f in template.formals:
        array, _, rest = f.name.partition("_")
        of = dims.get(rest.removeprefix("by_"))
        if of and (rest.startswith("by_") or array == "n"):
            rest = f"by_{of}" if rest.startswith("by_") else of
        if array in words or of:
            shown[f.name] = f"{words.get(array, array)}_{rest}" if rest else words[array]
    return shown


# ------------------------------------------------------------------------------------------- function


def describe(k: Kernel, f: l2.ArrayFormal | l2.ScalarFormal) -> str:
    """The comment of a row's field: its axes in their order in memory, its unit, and what happens to it; its type,
    where the field is an address."""
    if isinstance(f, l2.ScalarFormal):
        return ""
    kind = "" if k.dialect.cpp else k.dialect.type_name(f.dtype)
    what = {
        l2.Mode.READ: "read",
        l2.Mode.WRITE: "written",
        l2.Mode.UPDATE: "updated",
        l2.Mode.ACCUMULATE: "added to",
    }[f.mode]
    match f.access:
        case l2.Strided() as s:
            shown = Addresses(lambda n: code(k.namer.shown(n)))
            where = "".join(f"[{shown.index(a)}]" for a in inner_last(s))
        case l2.At(end):
            where = f"[{end}]"
        case l2.ByName():
            traced = isinstance(k.template.body, l2.RecordTrace)
            where = (_OF_TRACES if traced else _AXES).get(f.name, "[]")
    return ", ".join(filter(None, [" ".join(filter(None, [kind, where])), f.unit, what]))


_AXES: Final = {
    formal: axes
    for formals, axes in {
        "spikes list": "[slot][event]",
        "spike_count count": "[slot]",
        "row to_row": "[neuron]",
        "col index to_col to_index gone": "[synapse]",
        "words": "[pre][post / 32]",
        "steps ids": "[spike]",
        "buffer": "[event][2]",
        "used cursor": "",
        "query query_grad": "[n][step][head][d]",
        "key key_grad": "[n][key][head][d]",
        "value value_grad": "[n][key][head][e]",
        "context context_grad": "[n][step][head][e]",
        "norms": "[n][step][head][2]",
    }.items()
    for formal in formals.split()
}
"""Of arrays that the structures of kernels use by these names (compiler/ir/level2/program.py)."""
_OF_TRACES: Final = {"members": "[j]", "buffer": "[sample][j]", "used": ""}


def array_type(k: Kernel, f: l2.ArrayFormal) -> str:
    """The type of an element, as a kernel sees it."""
    t = k.dialect.type_name(f.dtype)
    return f"const {t}" if f.mode is l2.Mode.READ else t


def _scalar_type(k: Kernel, f: l2.ScalarFormal) -> str:
    """The type of a column in the row: integers have 64 bits."""
    if f.dtype.is_real:
        return k.dialect.row_real or k.dialect.type_name(f.dtype)
    return "nl_u64" if f.dtype == DType.U64 else "nl_i64"


def columns(k: Kernel, names: Iterable[str]) -> list[Let]:
    """Loads of the columns `names` (formals) of the row into constants, in the order of the formals."""
    wanted = set(names)
    return _declared(_column(k, f) for f in k.template.formals if f.name in wanted)


def _column(k: Kernel, f: l2.ArrayFormal | l2.ScalarFormal) -> tuple[Let, bool]:
    source = _field_of(k, f)
    if isinstance(f, l2.ArrayFormal):
        return _pointer(k, f, source), True
    t = k.dialect.type_name(f.dtype)
    return Let(t, k.scope[f.name].code, source if t == _scalar_type(k, f) else cast(t, source)), False


def _pointer(k: Kernel, f: l2.ArrayFormal, source: Code) -> Let:
    """The pointer of an array. Both ends of a projection may be one array: pointers of At-accesses are not said to be
    alone."""
    dialect, kind = k.dialect, f"{k.dialect.space}{array_type(k, f)} *"
    shared = isinstance(f.access, l2.At) and not (dialect.cpp and f.mode is l2.Mode.READ)
    alone = f"{dialect.restrict} " if dialect.restrict and not shared else ""
    value = form(dialect.pointer, source) if dialect.pointer else cast(kind, form("nl_memory + {}", source))
    return Let(f"{kind}{alone}const", k.pointers[f.name], value, const=False)


def _declared(found: Iterable[tuple[Let, bool]]) -> list[Let]:
    """Declarations, of which neighbours of one type and unit share lines of at most WIDTH characters, unless they stand
    alone."""
    lines, last, width = list[list[Let]](), ("", ""), 0
    for x, alone in found:
        size, key = len(x.declared) + 2, (x.typed, x.note)
        if not alone and key == last and width + size <= WIDTH:
            lines[-1].append(x)
            width += size
        else:
            lines.append([x])
            last, width = ("", "") if alone else key, len(x.typed) - 1 + size
    return [replace(line[0], beside=line[1:]) if line[1:] else line[0] for line in lines]


WIDTH: Final = 112
"""Characters of a line of declarations, before it is indented."""


def row_struct(k: Kernel, used: Collection[str]) -> Stmt:
    """The structure of one row: the formals `used`, in order, 8 bytes each."""
    cpp, fields = k.dialect.cpp, _declared(_field(k, f) for f in k.template.formals if f.name in used)
    fields = fields or [Let("nl_u64", code("unused"))]
    return Struct(f"struct {k.row_type}", fields) if cpp else Struct("typedef struct", fields, code(k.row_type))


def _field(k: Kernel, f: l2.ArrayFormal | l2.ScalarFormal) -> tuple[Let, bool]:
    if isinstance(f, l2.ArrayFormal):
        kind = f"{array_type(k, f)} *" if k.dialect.cpp else "nl_u64"
        return Let(kind, k.fields[f.name], note=describe(k, f)), True
    kind, narrow = _scalar_type(k, f), f.dtype == DType.F32 and not k.dialect.row_real
    if k.dialect.cpp:
        return Let(f"alignas(8) {kind}" if narrow else kind, k.fields[f.name], note=f.unit), False
    return Let(kind, k.fields[f.name], note=f.unit, aligned=8 if narrow else 0), False


def of_row(k: Kernel) -> dict[str, Code]:
    """The columns as fields of the row, for what reads each of them once."""
    return {f.name: _field_of(k, f) for f in k.template.formals if isinstance(f, l2.ScalarFormal)}


def _field_of(k: Kernel, f: l2.ArrayFormal | l2.ScalarFormal) -> Code:
    return Member("->", k.fields[f.name].text, name("self"))


def read(k: Kernel, statements: Iterable[Stmt]) -> set[str]:
    """The formals whose fields statements read, by themselves or through constants."""
    statements = list(statements)
    fields = names_of(statements)
    return mentioned(k, statements) | {f.name for f in k.template.formals if _field_of(k, f).text in fields}


def mentioned(k: Kernel, statements: Iterable[Stmt]) -> set[str]:
    """The formals that statements name."""
    names = names_of(statements)
    return {
        f.name
        for f in k.template.formals
        if (k.scope[f.name].code if isinstance(f, l2.ScalarFormal) else k.pointers[f.name]).text in names
    }
