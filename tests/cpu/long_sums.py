"""A program of long sums in every form in which they are printed, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from backends.protocol import Instance
from compiler.ir.level2.program import (
    Array,
    ArrayFormal,
    Axis,
    Dim,
    DimKind,
    Kernel,
    Launch,
    Mode,
    Nest,
    Order,
    Phase,
    Program,
    Rows,
    ScalarFormal,
    Stage,
    Strided,
    Sum,
)
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType, Role
from compiler.passes.program.long_sums import long_sums
from tests.cpu.programs import assign, expr

RED, LANE = DimKind.RED, DimKind.LANE
POINTS: Final = 3
FORMS: Final[Mapping[str, tuple[str, tuple[int, ...], int]]] = {
    # dims from the outermost in memory on (`p`: points, `l`: lanes), extents, step along the last one
    "row": ("pk", (POINTS, 40_001), 1),
    "plain": ("pjk", (POINTS, 400, 100), 2),
    "columns": ("kp", (20_000, POINTS), 1),
    "batch": ("pjb", (POINTS, 4_001, 16), 1),
    "lanes": ("pkl", (POINTS, 20_000, 16), 1),
    "stages": ("pk", (POINTS, 30_000), 1),
}


def samples(form: str) -> np.ndarray:
    """Equal numbers, whose sums are rounded in the same direction time after time, but for every seventh."""
    _, shape, step = FORMS[form]
    x = np.full((*shape[:-1], shape[-1] * step), 0.3, np.float32)
    x[..., ::7] = 1.7
    return x


def sums(form: str) -> np.ndarray:
    """Of the numbers at each point, in float64."""
    dims, _, step = FORMS[form]
    x = samples(form)[..., ::step].astype(np.float64)
    found: np.ndarray = x.sum(tuple(n for n, d in enumerate(dims) if d not in "pl"))
    return found.reshape(-1)


def _kernel(form: str, order: Order) -> Kernel:
    dims, shape, step = FORMS[form]
    kinds = {"p": DimKind.PAR, "l": LANE}
    extents = {d: n if d in "bl" else f"n_{d}" for d, n in zip(dims, shape, strict=True)}
    steps = [int(np.prod(shape[n + 1 :])) * step for n in range(len(shape))]
    columns = {f"n_{d}": n for d, n in zip(dims, shape, strict=True) if d not in "bl"}
    columns |= {f"by_{d}": by for d, by in zip(dims[:-1], steps, strict=False)}
    axes = [Axis(((d, 1),), stride=f"by_{d}" if f"by_{d}" in columns else step) for d in dims]
    point = [Axis((("p", 1),), stride=16 if "l" in dims else 1)] + [Axis((("l", 1),))] * ("l" in dims)
    formals = [ArrayFormal("x", DType.F32, Mode.READ, Strided(tuple(axes)))]
    formals += [ArrayFormal(n, DType.F32, Mode.WRITE, Strided(tuple(point))) for n in ("y", "z")]
    again = Stage("add", (Sum("twice", expr("x + 0 * y")),), (assign("z", "twice"),))
    staged = form == "stages"
    nest = Nest(
        tuple(Dim(d, extents[d], kinds.get(d, RED)) for d in sorted(dims, key="pjkbl".index)),
        combine="add",
        term=expr("x"),
        epilogue=(assign("y", "acc"), *([] if staged else [assign("z", "other")])),
        beside=() if staged else (Sum("other", expr("2 * x")),),
        then=(again,) if staged else (),
    )
    scalars = [ScalarFormal(n, DType.I64) for n in columns]
    rows = Rows(1, {n: (f"{form}.{n}",) for n in "xyz"}, {n: np.array([v]) for n, v in columns.items()}, (form,))
    return Kernel(f"{form}: sum", (*formals, *scalars), nest, rows, order)


def program(order: Order, capabilities: Capabilities) -> Program:
    """Results `<form>.y`, and `<form>.z`, which is twice that (of stages: the same)."""
    given = {form: samples(form) for form in FORMS}
    results = [(f"{form}.{n}", sums(form).size) for form in FORMS for n in "yz"]
    arrays = [Array(f"{form}.x", DType.F32, x.shape, Role.STATE) for form, x in given.items()]
    arrays += [Array(name, DType.F32, (size,), Role.STATE) for name, size in results]
    launches = tuple(Launch(n, 0, 1) for n in range(len(FORMS)))
    constants = {f"{form}.x": x for form, x in given.items()} | {n: np.zeros(size, np.float32) for n, size in results}
    kernels = tuple(_kernel(form, order) for form in FORMS)
    made = Program("sums", DType.F32, order, tuple(arrays), kernels, (Phase("step", launches),), constants)
    return long_sums(made, capabilities)


def errors(found: Instance) -> dict[str, float]:
    """The largest relative error of each form."""
    result = {}
    for form in FORMS:
        twice, want = 1 if form == "stages" else 2, sums(form)
        both = [found.read(f"{form}.y") / want, found.read(f"{form}.z") / (twice * want)]
        result[form] = float(np.abs(np.subtract(both, 1)).max())
    return result
