"""Legality of level 2: programs, and merged programs.

Assumes: nothing; the program may be anything that the constructors accept.
Guarantees: every breach is named: code (verify/kernel.py), and
  arrays     unique names; parts lie in arrays of their type, role and layout; an extent that is
             found by connecting comes from an i64 array; constants fit
  rows       one column per formal, as long as the table; bound arrays exist and have the formal's
             type; reals are in the program's precision (float64 arrays are allowed beside it: wide
             accumulators)
  bounds     no access of a nest that does not depend on data leaves its array
  launches   rows in range, 0 <= offset < every, phases named once
  hazards    rows of one launch run together: none writes an array that another one touches; an
             array that is added to is only added to (an oracle of its own, row by row: it shares
             no code with the analysis that joins launches, ir/level2/dependence.py)
  chains     loops in whose steps no two samples meet, in one step or in several
             (ir/level2/batch_independence.py)
  merged     one template per digest, and digests right; phase for phase and row for row, the
             merged program launches what the unmerged one launches: bind(template, row) == the
             unmerged kernel's row, up to names
Does not: change anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.ir.digest import digest
from compiler.ir.level2.batch_independence import chain_violations
from compiler.ir.level2.dependence import Parts, parts_of
from compiler.ir.space import DType
from compiler.verify.kernel import code_violations
from compiler.verify.violations import repeated

Code = l2.Kernel | l2.Template
_SHOWN = 3  # rows named per kind of violation


def program_violations(program: l2.Program) -> list[str]:
    """Every breach of the spec by an unmerged program."""
    return list(_violations(program, [(k, k.rows) for k in program.kernels]))


def merged_violations(merged: l2.Merged, program: l2.Program | None = None) -> list[str]:
    """Every breach of the spec by a merged program; with `program`, every difference from it
    too."""
    found = list(_violations(merged, list(zip(merged.templates, merged.tables, strict=False))))
    if len(merged.templates) != len(merged.tables):
        found.append(f"{len(merged.templates)} templates have {len(merged.tables)} tables")
    seen: dict[str, int] = {}
    for i, template in enumerate(merged.templates):
        key = digest(template)
        if template.index != i:
            found.append(f"template {i} is numbered {template.index}")
        if template.digest != key:
            found.append(f"template {i} ({template.name}) does not have the digest of its text")
        if key in seen:
            found.append(f"templates {seen[key]} and {i} are the same")
        seen[key] = i
    if not found:
        found += [v for phase in merged.phases for v in chain_violations(merged, phase)]
    if program is not None and not found:
        found += _differences(merged, program)
    return found


def _violations(program: l2.Program | l2.Merged, codes: Sequence[tuple[Code, l2.Rows]]) -> Iterator[str]:
    arrays = {a.name: a for a in program.arrays}
    parts = parts_of(program.arrays)
    yield from _array_violations(program, arrays)
    sound: list[bool] = []
    for code, rows in codes:
        ok = True
        for v in (*code_violations(code), *_row_violations(code, rows, arrays, program.precision)):
            ok = False
            yield f"{code.name}: {v}"
        sound.append(ok)
        if ok:
            yield from (f"{code.name}: {v}" for v in _bound_violations(code, rows, arrays))
    yield from (f"phase `{name}` stands twice" for name in repeated(p.name for p in program.phases))
    for phase in program.phases:
        yield from (f"phase `{phase.name}`: {v}" for v in _loop_violations(phase, codes, arrays))
        for x in phase.launches:
            if not 0 <= x.template < len(codes):
                yield f"phase `{phase.name}` launches kernel {x.template} of {len(codes)}"
                continue
            code, rows = codes[x.template]
            found = _launch_violations(phase.name, x, code, rows, sound[x.template], parts)
            yield from (f"phase `{phase.name}`, {code.name}: {v}" for v in found)


def _launch_violations(
    phase: str, launch: l2.Launch, code: Code, rows: l2.Rows, sound: bool, parts: Parts
) -> Iterator[str]:
    if not 0 <= launch.lo < launch.hi <= rows.count:
        yield f"rows {launch.lo} to {launch.hi} of {rows.count}"
    elif sound:
        yield from _hazards(code, rows, launch.lo, launch.hi, parts)
    if not 0 <= launch.offset < launch.every:
        yield f"every {launch.every} steps at {launch.offset}"
    elif phase in (*l2.CONNECT_PHASES, *l2.INIT_PHASES) and launch.every != 1:
        yield f"runs once, not every {launch.every} steps"


def _loop_violations(
    phase: l2.Phase, codes: Sequence[tuple[Code, l2.Rows]], arrays: Mapping[str, l2.Array]
) -> Iterator[str]:
    launches = phase.launches
    end = 0
    steps = [0] * len(launches)
    for x in phase.loops:
        if not end <= x.first < x.last <= len(launches) or x.steps < 1:
            yield f"the loop of {x.steps} steps over launches {x.first} to {x.last} begins before {end} or has no end"
            return
        end = x.last
        steps[x.first : x.last] = [x.steps] * (x.last - x.first)
        if any(launch.every != 1 for launch in launches[x.first : x.last]):
            yield f"the loop over launches {x.first} to {x.last} has some that are not of every step"
    for launch, count in zip(launches, steps, strict=True):
        bound = codes[launch.template][1].arrays.values() if 0 <= launch.template < len(codes) else ()
        for name in dict.fromkeys(n for names in bound for n in names[launch.lo : launch.hi]):
            a = arrays.get(name)
            if a is None or not a.by_step or a.within not in arrays:
                continue
            last = a.ring or count
            if not count:
                yield f"`{name}` has parts for the steps of a loop, but is used in none"
            elif not all(0 <= a.first_at(t) <= arrays[a.within].physical_size - a.physical_size for t in (0, last - 1)):
                yield f"`{name}` has no part in `{a.within}` for each of {count} steps"


# ------------------------------------------------------------------------------------------- arrays


def _array_violations(program: l2.Program | l2.Merged, arrays: Mapping[str, l2.Array]) -> Iterator[str]:
    if program.precision not in (DType.F32, DType.F64):
        yield f"the precision is {program.precision.value}"
    if len(arrays) != len(program.arrays):
        twice = repeated(a.name for a in program.arrays)
        yield f"arrays stand twice: {', '.join(twice[:_SHOWN])}"
    for a in program.arrays:
        if a.size_from is not None:
            source = arrays.get(a.size_from)
            if source is None or source.dtype is not DType.I64 or source.size_from is not None:
                yield f"array `{a.name}` takes its size from `{a.size_from}`, not row pointers"
            if a.shape != (-1,):
                yield f"array `{a.name}` has the shape {a.shape}, but a size from connecting"
        elif any(n < 0 for n in a.shape):
            yield f"array `{a.name}` has the shape {a.shape}"
        if a.within and not _lies_within(a, arrays):
            yield f"array `{a.name}` is no part of `{a.within}`"
        if (a.by_step or a.ring) and not (a.within and a.by_step and a.ring >= 0):
            yield f"array `{a.name}` has {a.by_step} elements a step in a ring of {a.ring}, but no place in another"
        if a.layout is not None and (a.layout.lanes < 1 or not a.shape):
            yield f"array `{a.name}` has {a.layout.lanes} lanes and {len(a.shape)} axes"
    yield from _constant_violations(program, arrays)


def _lies_within(part: l2.Array, arrays: Mapping[str, l2.Array]) -> bool:
    """Whether the whole has its own place, elements of the same type and role, and holds all of a part."""
    whole = arrays.get(part.within)
    return (
        whole is not None
        and not whole.within
        and (whole.dtype, whole.role, whole.layout) == (part.dtype, part.role, part.layout)
        and 0 <= part.first <= whole.physical_size - part.physical_size
    )


def _constant_violations(program: l2.Program | l2.Merged, arrays: Mapping[str, l2.Array]) -> Iterator[str]:
    for name, contents in program.constants.items():
        if name not in arrays:
            yield f"there are constants for `{name}`, which is not an array"
        elif contents.size != arrays[name].physical_size:
            size = arrays[name].physical_size
            yield f"constants of `{name}` have {contents.size} elements of {size}"
        elif contents.dtype != np.dtype(arrays[name].dtype.numpy):
            yield f"constants of `{name}` are {contents.dtype}, not {arrays[name].dtype.value}"


# --------------------------------------------------------------------------------------------- rows


def _row_violations(code: Code, rows: l2.Rows, arrays: Mapping[str, l2.Array], precision: DType) -> Iterator[str]:
    formals = {f.name for f in code.formals}
    for extra in sorted((rows.arrays.keys() | rows.scalars.keys()) - formals):
        yield f"there is a column `{extra}`, but no such formal"
    if rows.paths and len(rows.paths) != rows.count:
        yield f"{len(rows.paths)} paths stand for {rows.count} rows"
    sizes = {a.size_from for a in arrays.values()} | {a.name for a in arrays.values() if a.size_from}
    for formal in code.formals:
        if formal.dtype.is_real and formal.dtype.computed not in (precision, DType.F64):
            yield f"`{formal.name}` is {formal.dtype.value} in a program of {precision.value}"
        if isinstance(formal, l2.ArrayFormal):
            bound = rows.arrays.get(formal.name, ())
            if len(bound) != rows.count:
                yield f"`{formal.name}` is bound in {len(bound)} of {rows.count} rows"
            for name in sorted({n for n in bound if n not in arrays})[:_SHOWN]:
                yield f"`{formal.name}` is bound to `{name}`, which is not an array"
            wrong = {n for n in bound if n in arrays and arrays[n].dtype is not formal.dtype}
            for name in sorted(wrong)[:_SHOWN]:
                types = f"{formal.dtype.value} is bound to {arrays[name].dtype.value}"
                yield f"`{formal.name}`, `{name}`: {types}"
            continue
        values = rows.scalars.get(formal.name, ())
        if len(values) != rows.count:
            yield f"column `{formal.name}` has {len(values)} of {rows.count} values"
        yield from _column_violations(formal.name, formal.dtype, values, sizes)


def _column_violations(name: str, dtype: DType, values: Any, sizes: set[str | None]) -> Iterator[str]:
    if isinstance(values, np.ndarray):
        if values.dtype != (np.float64 if dtype.is_real else np.int64) or values.ndim != 1:
            yield f"column `{name}` ({dtype.value}) is an array {values.shape} of {values.dtype}"
        return
    for value in values:
        match value:
            case l2.StreamKey():
                ok = dtype is DType.U64
            case l2.SizeOf(array):
                ok = dtype is DType.I64 and array in sizes
            case float():
                ok = dtype.is_real
            case int():
                ok = not isinstance(value, bool)
            case _:
                ok = isinstance(value, np.integer | np.floating)
        if not ok:
            yield f"column `{name}` ({dtype.value}) holds {value!r}"
            return


def _column(rows: l2.Rows, x: int | str) -> npt.NDArray[np.int64] | None:
    """A literal or a column as one number per row; None when it is known only after connecting."""
    if isinstance(x, int):
        return np.full(rows.count, x, np.int64)
    values = rows.scalars[x]
    if isinstance(values, np.ndarray):
        return values.astype(np.int64)
    if all(isinstance(v, int | np.integer) for v in values):
        return np.array([int(v) for v in values if isinstance(v, int | np.integer)], np.int64)
    return None


def _bound_violations(code: Code, rows: l2.Rows, arrays: Mapping[str, l2.Array]) -> Iterator[str]:
    body = code.body.nest if isinstance(code.body, l2.Contract) else code.body
    literals = dict(code.body.literals) if isinstance(code.body, l2.Contract) else {}
    if not isinstance(body, l2.Nest):
        return
    last: dict[str, npt.NDArray[np.int64]] = {}
    empty = np.zeros(rows.count, np.bool_)
    for d in body.dims:
        extent = _column(rows, d.extent)
        if extent is not None:
            last[d.name] = extent - 1
            empty |= extent < 1
    for formal, access in code.strided.items():
        reach = _reach(access, rows, last)
        if reach is None:
            continue
        low, high, never = reach
        names = rows.arrays[formal]
        size = np.fromiter((arrays[n].physical_size for n in names), np.int64, rows.count)
        if "chosen" in literals and formal == f"x{literals['chosen']}":
            size *= literals["down"] * literals["along"]  # a window of the tensor has one element in the array
        bad = ~(empty | never) & (size >= 0) & ((low < 0) | (high >= size))
        for r in np.flatnonzero(bad)[:_SHOWN].tolist():
            yield (f"row {r} reaches elements {low[r]} to {high[r]} of `{names[r]}` ({formal}), which has {size[r]}")


def _reach(
    access: l2.Strided, rows: l2.Rows, last: Mapping[str, npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None:
    """Smallest and largest address per row, and where there is none; None when it depends on
    data."""
    low = np.zeros(rows.count, np.int64)
    high = np.zeros(rows.count, np.int64)
    never = np.zeros(rows.count, np.bool_)
    for axis in access.axes:
        const, stride = _column(rows, axis.const), _column(rows, axis.stride)
        extent = None if axis.extent is None else _column(rows, axis.extent)
        if const is None or stride is None or (axis.extent is not None and extent is None):
            return None
        known = all(name in last for name, _ in axis.terms)
        if not known and extent is None:
            return None
        if known:
            first = const + sum((c * last[n] for n, c in axis.terms if c < 0), start=np.int64(0))
            final = const + sum((c * last[n] for n, c in axis.terms if c > 0), start=np.int64(0))
            first, final = -(-first // axis.div), final // axis.div
        if extent is not None:
            first = np.maximum(first, 0) if known else np.zeros_like(const)
            final = np.minimum(final, extent - 1) if known else extent - 1
        never |= first > final
        low += np.minimum(first * stride, final * stride)
        high += np.maximum(first * stride, final * stride)
    return low, high, never


# ------------------------------------------------------------------------------------------ hazards


class _Rows:
    """Which rows access an array, or one that has elements in common with it. Two that lie apart in one whole may both
    meet a third: they do not meet each other."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._own, self._met = parts, dict[str, set[int]](), dict[str, set[int]]()

    def include(self, name: str, row: int) -> None:
        self._own.setdefault(name, set()).add(row)
        for x in (name, *self._parts.get(name, ())):
            self._met.setdefault(x, set()).add(row)

    def of(self, name: str) -> set[int]:
        met = (self._own.get(x, set()) for x in self._parts.get(name, ()))
        return self._met.get(name, set()).union(*met)


def _hazards(code: Code, rows: l2.Rows, lo: int, hi: int, parts: Parts) -> Iterator[str]:
    """Arrays that one row writes and another row (or another formal of the same row of a nest)
    touches."""
    written, added, found = _Rows(parts), _Rows(parts), set[str]()
    within = isinstance(code.body, l2.Nest | l2.Contract)

    def taken(name: str, row: int) -> bool:
        others = written.of(name)
        return bool(others) and (within or others != {row})

    bound = [(f.mode, r, name) for f in code.arrays for r, name in enumerate(rows.arrays[f.name][lo:hi])]
    for mode, row, name in bound:
        if mode is l2.Mode.ACCUMULATE:
            added.include(name, row)
        elif mode is not l2.Mode.READ:
            found |= {name} if taken(name, row) else set()
            written.include(name, row)
    for mode, row, name in bound:
        if (mode is not l2.Mode.ACCUMULATE and added.of(name)) or (mode is l2.Mode.READ and taken(name, row)):
            found.add(name)
    for name in sorted(found)[:_SHOWN]:
        yield f"`{name}` is written in one place and used in another of the same launch"


# ------------------------------------------------------------------------------------------- merged


def _differences(merged: l2.Merged, program: l2.Program) -> Iterator[str]:
    """Where the merged program launches other rows than the unmerged one."""
    same = ("name", "precision", "order", "arrays")
    for name in same:
        if getattr(merged, name) != getattr(program, name):
            yield f"`{name}` differs from the unmerged program's"
    if [p.name for p in merged.phases] != [p.name for p in program.phases]:
        yield "the phases are not those of the unmerged program"
        return
    digests = [digest(k) for k in program.kernels]
    for merged_phase, phase in zip(merged.phases, program.phases, strict=True):
        if [(x.steps, x.name) for x in merged_phase.loops] != [(x.steps, x.name) for x in phase.loops]:
            yield f"phase `{phase.name}` does not have the loops of the unmerged program"
            return
        left = [(x, x.hi - x.lo) for x in merged_phase.launches]
        right = [(x, x.hi - x.lo) for x in phase.launches]
        i = j = 0
        done_left = done_right = 0
        while i < len(left) and j < len(right):
            x, y = left[i][0], right[j][0]
            n = min(left[i][1] - done_left, right[j][1] - done_right)
            template, kernel = merged.templates[x.template], program.kernels[y.template]
            if template.digest != digests[y.template] or (x.every, x.offset) != (y.every, y.offset):
                yield f"phase `{phase.name}` runs `{template.name}` where `{kernel.name}` is due"
                return
            a, b = x.lo + done_left, y.lo + done_right
            yield from _row_differences(template, merged.tables[x.template], a, kernel, b, n)
            done_left, done_right = done_left + n, done_right + n
            if done_left == left[i][1]:
                i, done_left = i + 1, 0
            if done_right == right[j][1]:
                j, done_right = j + 1, 0
        if i < len(left) or j < len(right):
            yield f"phase `{phase.name}` does not launch as many rows as the unmerged program"


def _row_differences(template: l2.Template, table: l2.Rows, a: int, kernel: l2.Kernel, b: int, n: int) -> Iterator[str]:
    """Rows [a, a + n) of a table against rows [b, b + n) of a kernel, formal by formal."""
    for f, g in zip(template.formals, kernel.formals, strict=True):
        if isinstance(f, l2.ArrayFormal):
            same = table.arrays[f.name][a : a + n] == kernel.rows.arrays[g.name][b : b + n]
        else:
            left, right = table.scalars[f.name][a : a + n], kernel.rows.scalars[g.name][b : b + n]
            same = (
                bool(np.array_equal(left, right, equal_nan=True))
                if isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
                else list(left) == list(right)
            )
        if not same:
            yield f"{kernel.name}: `{g.name}` differs in rows {b} to {b + n} after merging"
