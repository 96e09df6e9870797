"""init_values: initial contents of arrays, as rows of the init phase (numbers, distributions, formulas) or constants.

Assumes: values in canonical units.
Guarantees: random numbers are counter-based (stream = array name, index = element, step 0), so that adding a population
does not change another's draws; numbers given inline or in files become constants.
Does not: depend on the purpose of the array.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.source import Span
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, rewrite, substitute
from compiler.expr.interp import evaluate
from compiler.files.array_files import headers, read_array
from compiler.ir.space import DType, Role
from compiler.passes.program.build_program import ProgramBuilder, Prototype


def read_shaped(value: l0.FromFile, name: str, shape: tuple[int, ...], stored: DType) -> npt.NDArray[np.generic]:
    """The array of a file, which must have the shape of `name`. Raises ModelError E0701/E0702/E0703."""
    data = _read(value)
    if data.shape != shape:
        message = f"`{name}` has the shape {list(shape)}, but the array in the file {list(data.shape)}"
        raise ModelError([Diagnostic("E0703", message, value.span)])
    return _converted(name, data, stored, value.span)


def _converted(name: str, data: npt.NDArray[np.float64], stored: DType, at: Span) -> npt.NDArray[np.generic]:
    """Numbers as they are stored. Raises ModelError E0703 where one is NaN, or too large for the type."""
    with np.errstate(all="ignore"):
        given: npt.NDArray[np.generic] = data.astype(stored.numpy)
        wrong = np.isnan(data) | (np.isfinite(data) & ~np.isfinite(given.astype(np.float64)))
    if wrong.any():
        place = int(np.argmax(wrong))
        number = data.ravel()[place]
        why = "is not a number" if np.isnan(number) else f"is {number:g}, too large for {np.dtype(stored.numpy).name}"
        raise ModelError([Diagnostic("E0703", f"value {place} of `{name}`, counted from 0, {why}", at)])
    return given


def numbers_of(value: l0.FromFile | l0.Listed) -> npt.NDArray[np.float64]:
    """Numbers given inline, or the array of a file, flat, in canonical units. Raises ModelError E0701/E0702/E0703."""
    return _read(value).ravel() if isinstance(value, l0.FromFile) else np.array(value.values, np.float64)


def _read(value: l0.FromFile) -> npt.NDArray[np.float64]:
    path = Path(value.path)

    def fail(code: str, message: str, help: str | None = None) -> ModelError:
        return ModelError([Diagnostic(code, message, value.span, help)])

    if not path.is_file():
        raise fail("E0701", f"the file `{value.path}` does not exist")
    try:
        if value.array is not None and value.array not in (found := headers(path)):
            raise fail("E0702", f"`{path.name}` has no array `{value.array}`", "it has: " + ", ".join(found))
        data = read_array(path, value.array)
    except (OSError, ValueError) as problem:
        raise fail("E0703", f"`{value.path}` cannot be read: {problem}") from problem
    if data.dtype.kind not in "fiub":
        raise fail("E0703", f"`{path.name}` holds {data.dtype}, not numbers")
    return np.asarray(data, np.float64) * value.scale


_ARGS: Final = MappingProxyType(
    {
        **dict.fromkeys(("uniform", "permutation"), ("low", "high")),
        **dict.fromkeys(("normal", "lognormal"), ("mean", "std")),
        "exponential": ("mean",),
    }
)


def _columns(kind: str, args: Mapping[str, float]) -> tuple[str, ...]:
    """The `args` that a draw reads as columns."""
    return (*_ARGS[kind], *(name for name in ("min", "max") if name in args))


def drawn(
    kind: str,
    args: Mapping[str, float],
    key: str = "key",
    index: str = "i",
    of: str = "",
    step: int | None = None,
    number: int = 0,
) -> tuple[Expr, dict[str, float]]:
    """The expression of one draw over columns, and these: `low` is called so, or follows from the name `of`. `step`:
    the draw is that of this step (default: the current one), where it has a `number`."""

    def call(name: str) -> Expr:
        return Call(name, (Ref(key), Ref(index), Num(number), *(() if step is None else (Num(step),))))

    names = {c: derived(of, Way.GIVEN, c) if of else c for c in _columns(kind, args)}
    columns = {name: args[c] for c, name in names.items()}

    def column(name: str) -> Expr:
        return Ref(names[name])

    match kind:
        case "uniform":
            span = column("high") - column("low")
            return column("low") + span * call("uniform"), columns
        case "permutation":
            place = Call("float", (Call("shuffled", (Ref(key), Num(0), Ref("n"), Ref(index))),))
            steps = Call("float", (Call("max", (Ref("n") - 1, Num(1))),))
            return column("low") + (column("high") - column("low")) * (place / steps), columns
        case "exponential":
            x: Expr = column("mean") * call("exponential")
        case "lognormal" | "normal":
            x = column("mean") + column("std") * call("normal")
            if kind == "lognormal":
                x = Call("exp", (x,))
            if args.get("keep_sign"):
                wrong = x * column("mean") < 0.0
                x = Cond(wrong, Num(0.0), x)
        case _:
            raise AssertionError(kind)
    for bound, func in (("min", "max"), ("max", "min")):
        if bound in args:
            x = Call(func, (x, column(bound)))
    return x, columns


def _given(
    name: str, value: l0.FromFile | l0.Listed, extent: int | l2.SizeOf, stored: DType
) -> npt.NDArray[np.generic]:
    """Numbers given one per element. Raises ModelError E0703 where their count is not the number of elements."""
    data = numbers_of(value)
    if isinstance(extent, l2.SizeOf) or len(data) != extent:
        wanted = extent if isinstance(extent, int) else "one value per synapse"
        message = f"`{name}` needs {wanted} values, but {len(data)} are given"
        raise ModelError([Diagnostic("E0703", message, value.span)])
    return _converted(name, data, stored, value.span)


def initialise(
    builder: ProgramBuilder,
    name: str,
    value: l0.Value,
    instance: l1.Instance | None,
    role: Role,
    unit: str,
    size: int | l2.SizeOf | None = None,
    span: Span | None = None,
    whole: DType | None = None,
    stream: str | None = None,
) -> str:
    """Makes sure array `name` exists and starts as `value`; returns its name. With `whole` the elements are integers of
    that type, rounded to nearest. `stream`: of its draws, if not named after the array or by the value."""
    real = builder.precision
    stored = whole or real
    extent: int | l2.SizeOf = size if size is not None else instance.size if instance is not None else 0
    where = span or (instance.span if instance is not None else value.span)
    given: npt.NDArray[np.generic] | None = None
    if isinstance(value, l0.FromFile | l0.Listed):
        given = _given(name, value, extent, stored)
    if name not in builder.arrays:
        builder.vector(name, stored, extent, Role.STATE if isinstance(value, l0.Driven) else role, unit, where)
    if isinstance(value, l0.Driven):  # written in each step before it is read (lower_drives)
        return name
    if given is not None:
        builder.constants[name] = given
        return name
    columns: dict[str, l2.ColumnValue] = {"n": extent}
    match value:
        case l0.Const(number):
            columns["value"] = float(number)
            kernel = builder.rows_of(_filled, f"{name}: initial value (constant)", where, 0, stored, real)
        case l0.Distribution(kind, args, own):
            numbers = dict(args)
            used = _columns(kind, numbers)
            columns |= {"key": l2.StreamKey(own or stream or name), **{c: numbers[c] for c in used}}
            title, signed = f"{name}: initial value ({kind})", bool(numbers.get("keep_sign"))
            kernel = builder.rows_of(_drawn, title, where, 0, kind, tuple(used), signed, stored, real, whole)
        case _:
            raise AssertionError(value)
    kernel.add_row({"x": name}, columns, name).launch("init")
    return name


def from_formula(
    builder: ProgramBuilder,
    name: str,
    formula: l0.Formula,
    numbers: Mapping[str, float],
    arrays: Mapping[str, str],
    extent: int | l2.SizeOf,
    role: Role,
    unit: str,
) -> str:
    """The array `name` computed element by element from `numbers` and from `arrays` of the same extent."""
    e = formula.expr
    used = sorted(refs(e) & arrays.keys())
    if not used:
        constant = l0.Const(float(evaluate(e, dict(numbers))), formula.span)
        return initialise(builder, name, constant, None, role, unit, size=extent, span=formula.span)
    real = builder.precision
    if name not in builder.arrays:
        builder.vector(name, real, extent, role, unit, formula.span)
    # Operands are named by number: formulas of one form share their text.
    names: dict[str, Expr] = {user: Ref(f"p{k}") for k, user in enumerate(used)}
    scalars = sorted(refs(e) & numbers.keys() - arrays.keys())
    names |= {user: Ref(f"c{k}") for k, user in enumerate(scalars)}
    kernel = builder.kernel(f"{name}: initial value (formula)", formula.span)
    kernel.write("x", real, name)
    for k, user in enumerate(used):
        kernel.read(f"p{k}", real, arrays[user])
    kernel.column("n", extent)
    for k, user in enumerate(scalars):
        kernel.column(f"c{k}", numbers[user], real)
    value = l2.Assign("x", substitute(e, names), formula.span)
    kernel.add_row(l2.Nest((l2.Dim("i", "n"),), (value,)), name).launch("init")
    return name


def _filled(stored: DType, real: DType) -> Prototype:
    return _map(stored, Ref("value"), (l2.ScalarFormal("value", real),))


def _drawn(
    kind: str, columns: tuple[str, ...], keep_sign: bool, stored: DType, real: DType, whole: DType | None
) -> Prototype:
    """A kernel that draws from a distribution whose arguments are `columns`."""
    args = dict.fromkeys(columns, 0.0)
    body, before = drawn(kind, {**args, "keep_sign": keep_sign})[0], tuple[l2.Assign, ...]()
    if keep_sign:  # reads its draw twice
        once = drawn(kind, {c: x for c, x in args.items() if c in _ARGS[kind]})[0]
        body = rewrite(body, lambda e: Ref("drawn") if e == once else e, top_down=True)
        before = (l2.Assign("drawn", once),)
    body = body if whole is None else Call("int", (Call("round", (body,)),))
    scalars = (l2.ScalarFormal("key", DType.U64), *(l2.ScalarFormal(c, real) for c in columns))
    return _map(stored, body, scalars, before)


def _map(
    stored: DType, value: Expr, scalars: tuple[l2.ScalarFormal, ...], before: tuple[l2.Assign, ...] = ()
) -> Prototype:
    """`x` of each element, from columns; `before`: what is computed first."""
    formals: tuple[l2.Formal, ...] = (
        l2.ArrayFormal("x", stored, l2.Mode.WRITE, l2.ELEMENT),
        l2.ScalarFormal("n", DType.I64),
        *scalars,
    )
    return Prototype(formals, l2.Nest((l2.Dim("i", "n"),), (*before, l2.Assign("x", value))))
