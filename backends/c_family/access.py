"""Names and addresses of one template: the row structure, the columns, and the offsets of elements.

Assumes: a legal template (verify/verify.py); the names in its affine accesses are dims, columns or integer locals.
Guarantees: every formal that a kernel reads has one field, every name one identifier; index texts are 64-bit integer
arithmetic.
Does not: print loops, loads of columns or files (the backends do).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.cprint import STEP, Dialect, Symbol
from backends.c_family.names import Namer, operation
from backends.kernel_ir.descriptor import CompiledKernel
from backends.kernel_ir.expr import ZERO, Operand, binary, cast, code, every, form, names_in, raw, total
from backends.kernel_ir.stmt import Block, Stmt, Text, names_of
from backends.kernel_ir.tree import ATOM, Code, Printed
from compiler.ir.space import DType

NameText = Callable[[str], Code]


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
    def arrays(self) -> list[l2.ArrayFormal]:
        return [f for f in self.template.formals if isinstance(f, l2.ArrayFormal)]

    @property
    def strided(self) -> list[tuple[l2.ArrayFormal, l2.Strided]]:
        """The arrays whose elements the dims of a nest tell."""
        return [(f, f.access) for f in self.arrays if isinstance(f.access, l2.Strided)]

    def formal(self, name: str) -> l2.ArrayFormal:
        """The array formal called `name`."""
        return {f.name: f for f in self.arrays}[name]

    def extent(self, extent: int | str) -> Code:
        """A literal, or the column of a name."""
        return code(extent) if isinstance(extent, int) else self.scope[extent].code


def open_kernel(template: l2.Template, dialect: Dialect) -> Kernel:
    """Names for a template: see Namer."""
    shown = _shown(template)
    namer, fields = Namer(shown), Namer(shown)
    scope = {"step": Symbol(STEP, DType.I64)}
    pointers: dict[str, Code] = {}
    for f in template.formals:
        fields(f.name)
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
    """The names to show for formals that have a meaning, and for the columns that are called after them."""
    words = {f.name: f.meaning for f in template.formals if isinstance(f, l2.ArrayFormal) and f.meaning}
    shown: dict[str, str] = {}
    for f in template.formals:
        array, _, rest = f.name.partition("_")
        if array in words:
            shown[f.name] = f"{words[array]}_{rest}" if rest else words[array]
    return shown


# ------------------------------------------------------------------------------------------ addresses


def axis_numerator(axis: l2.Axis, name: NameText) -> Code:
    """const + sum(coefficient * dim) of an axis."""
    parts = list[Operand]()
    for dim, coefficient in axis.terms:
        x = name(dim)
        parts.append(-x if coefficient == -1 else x if coefficient == 1 else coefficient * x.inside(ATOM))
    return total([*parts, name(axis.const) if isinstance(axis.const, str) else axis.const])


def axis_index(axis: l2.Axis, name: NameText) -> Code:
    numerator = axis_numerator(axis, name)
    return numerator if axis.div == 1 else numerator.inside(ATOM) / axis.div


def axis_inside(axis: l2.Axis, name: NameText) -> Code | None:
    """A truth value: the index is inside the extent and the division is exact; None: always."""
    tests = list[Code]()
    if axis.div != 1:
        tests.append(form("({})", binary(axis_numerator(axis, name).inside(ATOM) % axis.div, "==", 0)))
    if axis.extent is not None:
        extent = code(axis.extent) if isinstance(axis.extent, int) else name(axis.extent)
        index = cast("nl_u64", axis_index(axis, name).inside(ATOM))
        tests.append(form("({})", index < cast("nl_u64", extent.inside(ATOM))))
    return every(tests)


def scaled(index: Code, axis: l2.Axis, name: NameText) -> Code:
    """index * stride."""
    if axis.stride == 1 or index == ZERO:
        return index
    stride = code(axis.stride) if isinstance(axis.stride, int) else name(axis.stride)
    return index.inside(ATOM) * stride.inside(ATOM)


def offset(access: l2.Strided, name: NameText) -> Code:
    """The element offset of an access, inline."""
    return total(scaled(axis_index(a, name), a, name) for a in access.axes)


def inside(access: l2.Strided, name: NameText) -> Code | None:
    """The guard of an access, inline."""
    return every(axis_inside(a, name) for a in access.axes)


# ------------------------------------------------------------------------------------------- function


def describe(k: Kernel, f: l2.ArrayFormal | l2.ScalarFormal) -> str:
    """The comment of a row's field: its meaning."""
    kind = k.dialect.type_name(f.dtype)
    if isinstance(f, l2.ScalarFormal):
        return ""
    what = {
        l2.Mode.READ: "read",
        l2.Mode.WRITE: "written",
        l2.Mode.UPDATE: "updated",
        l2.Mode.ACCUMULATE: "added to",
    }[f.mode]
    match f.access:
        case l2.Strided() as s:
            inner_last = sorted(s.axes, key=lambda a: a.stride == 1)
            where = "".join(f"[{axis_index(a, lambda n: code(k.namer.shown(n)))}]" for a in inner_last) or "[0]"
        case l2.At(end):
            where = f"[{end}]"
        case l2.ByName():
            where = "[]"
    return f"{kind} {where}, {f'{f.unit}, ' if f.unit else ''}{what}"


def array_type(k: Kernel, f: l2.ArrayFormal) -> str:
    """The type of an element, as a kernel sees it."""
    t = k.dialect.type_name(f.dtype)
    return f"const {t}" if f.mode is l2.Mode.READ else t


def scalar_type(k: Kernel, f: l2.ScalarFormal, real: str) -> str:
    """The type of a column in the row: `real` ("": its own), and integers of 64 bits."""
    if f.dtype.is_real:
        return real or k.dialect.type_name(f.dtype)
    return "nl_u64" if f.dtype == DType.U64 else "nl_i64"


def columns(k: Kernel, names: Iterable[str], real: str, pointer: Callable[[l2.ArrayFormal, Code], Code]) -> list[Stmt]:
    """Loads of the columns `names` (formals) of the row into constants, in the order of the formals. `real`: as in
    `scalar_type`; `pointer`: the declaration for the field of an array."""
    wanted = set(names)
    found: list[tuple[str, Code, str]] = []
    for f in k.template.formals:
        if f.name not in wanted:
            continue
        source = code(f"self->{k.fields[f.name]}")
        if isinstance(f, l2.ScalarFormal):
            t = k.dialect.type_name(f.dtype)
            value = source if t == scalar_type(k, f, real) else cast(t, source)
            found.append(("const " + t, raw("{} = {}", k.scope[f.name].code, value), ""))
        else:
            declared = pointer(f, source)
            found.append(("", Printed(declared.text, declared.names | {k.dialect.type_name(f.dtype)}), ""))
    return declarations(found)


def declarations(declared: Iterable[tuple[str, Operand, str]]) -> list[Stmt]:
    """Statements that declare `(type, declarator, unit)`: neighbours of one type and unit share lines of at most WIDTH
    characters. A statement of its own has no type."""
    lines: list[tuple[str, str, list[Operand]]] = []
    width = 0
    for kind, x, unit in declared:
        size = len(str(x)) + 2
        if kind and lines and lines[-1][:2] == (kind, unit) and width + size <= WIDTH:
            lines[-1][2].append(x)
            width += size
        else:
            lines.append((kind, unit, [x]))
            width = len(kind) + size
    return [_declaration(*line) for line in lines]


def _declaration(kind: str, unit: str, declared: Sequence[Operand]) -> Stmt:
    shown = ", ".join(map(str, declared))
    text = f"{kind} {shown};" if kind else shown
    return Text(text + (f" /* {unit} */" if unit else ""), names_in(*declared).union(kind.split()))


WIDTH: Final = 112
"""Characters of a line of declarations, before it is indented."""


def row_struct(k: Kernel, used: Collection[str], real: str = "double") -> list[Stmt]:
    """The C structure of one row: the formals `used`, in order, 8 bytes each. `real`: as in `scalar_type`."""
    fields: list[tuple[str, Operand, str]] = []
    for f in k.template.formals:
        if f.name not in used:
            continue
        if isinstance(f, l2.ArrayFormal):
            fields.append(("", f"nl_u64 {k.fields[f.name]}; /* {describe(k, f)} */", ""))
        else:
            narrow = " __attribute__((aligned(8)))" if f.dtype == DType.F32 and not real else ""
            fields.append((scalar_type(k, f, real), f"{k.fields[f.name]}{narrow}", f.unit))
    if not fields:
        fields.append(("nl_u64", "unused", ""))
    return [Block("typedef struct", declarations(fields), f"}} {k.row_type};")]


def mentioned(k: Kernel, statements: Iterable[Stmt]) -> set[str]:
    """The formals that statements name."""
    names = names_of(statements)
    return {
        f.name
        for f in k.template.formals
        if (k.scope[f.name].code if isinstance(f, l2.ScalarFormal) else k.pointers[f.name]).text in names
    }
