"""Names and addresses of one template: the row structure, the columns, and the offsets of elements.

Assumes: a legal template (verify/verify.py); the names in its affine accesses are dims, columns or integer locals.
Guarantees: every formal that a kernel reads has one field, every name one identifier; index texts are 64-bit integer
arithmetic.
Does not: print loops, loads of columns or files (the backends do).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.cprint import Dialect, Line, Printer, Symbol, indent
from backends.c_family.names import Namer
from compiler.ir.space import DType

NameText = Callable[[str], str]


@dataclass
class Kernel:
    """A template during printing. `scope` holds the columns; `pointers` the array formals' C pointers."""

    template: l2.Template
    printer: Printer
    namer: Namer
    scope: dict[str, Symbol]
    pointers: dict[str, str]
    fields: dict[str, str]

    @property
    def dialect(self) -> Dialect:
        return self.printer.dialect

    @property
    def function(self) -> str:
        """`k3_neuron_update`: the number and the operation (the part of the kernel's name after the path)."""
        what = self.template.name.rsplit(": ", 1)[-1]
        what = re.sub(r"\W+", "_", what.split("(")[0].strip(), flags=re.ASCII).strip("_").lower()
        return f"k{self.template.index}_{what}" if what else f"k{self.template.index}"

    @property
    def row_type(self) -> str:
        return f"k{self.template.index}_row"

    def formal(self, name: str) -> l2.ArrayFormal:
        """The array formal called `name`."""
        for f in self.template.formals:
            if f.name == name and isinstance(f, l2.ArrayFormal):
                return f
        raise KeyError(name)

    def extent(self, extent: int | str) -> str:
        return str(extent) if isinstance(extent, int) else self.scope[extent].text


def open_kernel(template: l2.Template, dialect: Dialect, used: set[str]) -> Kernel:
    """Names for a template: see Namer."""
    shown = _shown(template)
    namer, fields = Namer(shown), Namer(shown)
    scope = {"step": Symbol("step", DType.I64)}
    pointers: dict[str, str] = {}
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
        Printer(dialect, used),
        namer,
        scope,
        pointers,
        {f.name: fields(f.name) for f in template.formals},
    )


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


def _sum(parts: Sequence[str]) -> str:
    text = " + ".join(p for p in parts if p and p != "0")
    return text.replace("+ -", "- ") or "0"


def axis_numerator(axis: l2.Axis, name: NameText) -> str:
    """const + sum(coefficient * dim) of an axis."""
    parts = []
    for dim, coefficient in axis.terms:
        text = name(dim)
        if coefficient == -1:
            text = f"-{_atom(text)}"
        elif coefficient != 1:
            text = f"{coefficient} * {_atom(text)}"
        parts.append(text)
    if isinstance(axis.const, str):
        parts.append(name(axis.const))
    elif axis.const:
        parts.append(str(axis.const))
    return _sum(parts)


def _atom(text: str) -> str:
    return text if re.fullmatch(r"[\w\[\]]+", text) else f"({text})"


def axis_index(axis: l2.Axis, name: NameText) -> str:
    numerator = axis_numerator(axis, name)
    return numerator if axis.div == 1 else f"{_atom(numerator)} / {axis.div}"


def axis_inside(axis: l2.Axis, name: NameText) -> str | None:
    """A truth value: the index is inside the extent and the division is exact; None: always."""
    tests = []
    if axis.div != 1:
        tests.append(f"({_atom(axis_numerator(axis, name))} % {axis.div} == 0)")
    if axis.extent is not None:
        extent = str(axis.extent) if isinstance(axis.extent, int) else name(axis.extent)
        tests.append(f"((nl_u64){_atom(axis_index(axis, name))} < (nl_u64){_atom(extent)})")
    return " & ".join(tests) or None


def scaled(index: str, axis: l2.Axis, name: NameText) -> str:
    """index * stride."""
    if axis.stride == 1 or index == "0":
        return index
    stride = str(axis.stride) if isinstance(axis.stride, int) else name(axis.stride)
    return f"{_atom(index)} * {_atom(stride)}"


def offset(access: l2.Strided, name: NameText) -> str:
    """The element offset of an access, inline."""
    return _sum([scaled(axis_index(a, name), a, name) for a in access.axes])


def inside(access: l2.Strided, name: NameText) -> str | None:
    """The guard of an access, inline."""
    return " & ".join(t for a in access.axes if (t := axis_inside(a, name))) or None


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
            where = "".join(f"[{axis_index(a, k.namer.shown)}]" for a in inner_last) or "[0]"
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


def columns(k: Kernel, names: Iterable[str], real: str, pointer: Callable[[l2.ArrayFormal, str], str]) -> list[Line]:
    """Loads of the columns `names` (formals) of the row into constants, in the order of the formals. `real`: as in
    `scalar_type`; `pointer`: the declaration for the field of an array."""
    wanted = set(names)
    lines: list[tuple[str, str, str]] = []
    for f in k.template.formals:
        if f.name not in wanted:
            continue
        source = f"self->{k.fields[f.name]}"
        if isinstance(f, l2.ScalarFormal):
            t = k.dialect.type_name(f.dtype)
            cast = "" if t == scalar_type(k, f, real) else f"({t})"
            lines.append(("const " + t, f"{k.scope[f.name].text} = {cast}{source}", ""))
        else:
            lines.append(("", pointer(f, source), ""))
    return declarations(lines)


def declarations(declared: Iterable[tuple[str, str, str]]) -> list[Line]:
    """Statements that declare `(type, declarator, unit)`: neighbours of one type and unit share lines of at most WIDTH
    characters. A statement of its own has no type."""
    lines: list[tuple[str, str]] = []
    last = ("", "")
    for kind, text, unit in declared:
        if kind and (kind, unit) == last and len(lines[-1][0]) + len(text) + 2 <= WIDTH:
            lines[-1] = f"{lines[-1][0][:-1]}, {text};", lines[-1][1]
        else:
            lines.append((f"{kind} {text};" if kind else text, f" /* {unit} */" if unit else ""))
        last = (kind, unit)
    return [Line(text + unit) for text, unit in lines]


WIDTH: Final = 112
"""Characters of a line of declarations, before it is indented."""


def row_struct(k: Kernel, used: Collection[str], real: str = "double") -> list[Line]:
    """The C structure of one row: the formals `used`, in order, 8 bytes each. `real`: as in `scalar_type`."""
    fields: list[tuple[str, str, str]] = []
    for f in k.template.formals:
        if f.name not in used:
            continue
        if isinstance(f, l2.ArrayFormal):
            fields.append(("", f"nl_u64 {k.fields[f.name]}; /* {describe(k, f)} */", ""))
        else:
            narrow = " __attribute__((aligned(8)))" if f.dtype == DType.F32 and not real else ""
            fields.append((scalar_type(k, f, real), k.fields[f.name] + narrow, f.unit))
    if not fields:
        fields.append(("nl_u64", "unused", ""))
    return [Line("typedef struct {"), *indent(declarations(fields)), Line(f"}} {k.row_type};")]


def mentioned(k: Kernel, lines: Iterable[Line]) -> set[str]:
    """The formals whose identifiers occur in the lines."""
    words = set(re.findall(r"\w+", "\n".join(x.text for x in lines)))
    return {
        f.name
        for f in k.template.formals
        if (k.scope[f.name].text if isinstance(f, l2.ScalarFormal) else k.pointers[f.name]) in words
    }
