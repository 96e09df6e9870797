"""Contractions by a strategy: the functions of one template.

Assumes: a Contract in row-major layout with one of `strategies`.
Guarantees: a product (matmul, implicit_gemm, tensor_cores) is two functions, parts of a kernel that all products of its
kind share (templates/shared.cu.j2), since the sums cost much code and differ by data alone: one fills in the operands,
as numbers, the other runs the epilogue, printed from the nest as everywhere. What is literal in the kernel is in its
name: how many indices of each operand are guarded and what they are divided by.
Does not: choose tiles or splits: they are columns, from which work.py takes the number of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from backends.access import Kernel, scaled
from backends.cprint import Line, PrintError, Symbol
from backends.cuda import direct
from backends.cuda.kernel import BLOCK, Function, with_end
from backends.cuda.nest import NestPrinter
from backends.cuda.skeletons import render
from compiler.ir.program import ArrayFormal, Axis, Contract, DimKind, Nest, Strided, Template
from compiler.strategies import implicit_gemm, matmul, tensor_cores
from compiler.strategies.implicit_gemm import Sides, sides

PRODUCTS: Final = frozenset({matmul.NAME, implicit_gemm.NAME, *tensor_cores.PASSES})
"""Strategies whose templates share kernels."""
Guards = tuple[tuple[int, ...], tuple[int, ...]]
PRODUCT: Final = "_product"
STORE: Final = "_store"


def strategies() -> frozenset[str]:
    """Strategies that this target has."""
    return PRODUCTS | direct.STRATEGIES


def _access(template: Template, formal: str) -> Strided:
    access = next(f.access for f in template.formals if f.name == formal and isinstance(f, ArrayFormal))
    assert isinstance(access, Strided)
    return access


def sides_of(template: Template, nest: Nest) -> Sides:
    """Which dims of a product are batch, M, N and K."""
    used = [frozenset(d for a in _access(template, x).axes for d, _ in a.terms) for x in ("x0", "x1")]
    par, red = (tuple(d.name for d in nest.dims if (d.kind is DimKind.RED) == summed) for summed in (False, True))
    found = sides(par, red, (used[0], used[1]))
    if found is None:
        raise PrintError("an axis of the output indexes no operand", template.span)
    return found


# -------------------------------------------------------------------------------------- shared kernels


def _guarded(access: Strided) -> list[Axis]:
    return [a for a in access.axes if a.extent is not None or a.div != 1]


def _guards(template: Template, contract: Contract) -> Guards:
    """The divisors of the guarded indices of the operand of the rows, and of that of the columns."""
    rows = sides_of(template, contract.nest).rows
    first, second = (tuple(a.div for a in _guarded(_access(template, f"x{x}"))) for x in (rows, 1 - rows))
    return first, second


def shared_name(template: Template, contract: Contract) -> str:
    """The kernel of a product: `implicit_gemm_guarded_1_1_plain`."""
    if contract.strategy == matmul.NAME:
        return matmul.NAME
    parts = ["_".join(["guarded", *map(str, divs)]) if divs else "plain" for divs in _guards(template, contract)]
    return "_".join([contract.strategy, *parts])


@dataclass(frozen=True)
class Shared:
    """A kernel of several products: its templates with their sides, and the divisors of the guarded indices of its two
    operands."""

    name: str
    strategy: str
    users: tuple[Kernel, ...]
    sides: tuple[Sides, ...]
    guards: Guards

    @property
    def passes(self) -> int:
        """Of tensor cores, or 0."""
        return tensor_cores.PASSES.get(self.strategy, 0)


def shared_kernels(kernels: Iterable[Kernel]) -> list[Shared]:
    """The kernels of all products, in the order of their first templates."""
    found: dict[str, Shared] = {}
    for k in kernels:
        contract = k.template.body
        if not isinstance(contract, Contract) or contract.strategy not in PRODUCTS:
            continue
        name, own = shared_name(k.template, contract), sides_of(k.template, contract.nest)
        x = found.get(name) or Shared(name, contract.strategy, (), (), _guards(k.template, contract))
        found[name] = replace(x, users=(*x.users, k), sides=(*x.sides, own))
    return list(found.values())


def shared_names(shared: Sequence[Shared]) -> Mapping[str, Any]:
    """What the skeletons of shared kernels ask for. `room`: guards of an operand and dims of a side, at most."""
    found = [x for s in shared for x in s.sides]
    tiles = implicit_gemm.TILES
    return {
        "shared": shared,
        "strategies": {s.strategy for s in shared},
        "tensor_cores": any(s.passes for s in shared),
        "square": tensor_cores.SQUARE,
        "room": {
            "guards": max((len(g) for s in shared for g in s.guards), default=0) or 1,
            "dims": max((len(d) for x in found for d in (x.batch + x.m, x.batch + x.n, x.k)), default=0),
        },
        "stage": matmul.STAGE_BYTES,
        "matmul_tiles": [{"size": x, "groups": BLOCK * 16 // x**2} for x in matmul.TILES],
        "gemm_tiles": [{**vars(x), "groups": BLOCK * 16 // (x.m * x.n)} for x in tiles],
        "gemm_room": max(BLOCK * 16, *(x.k * (x.m + x.n + 16) for x in tiles)),
    }


# ------------------------------------------------------------------------------------------- printing


@dataclass(frozen=True)
class Step:
    """A dim of one side of an operand: its extent, and how far an index of it goes: `by` elements in memory, `at` along
    each guarded axis."""

    extent: str
    by: str
    at: tuple[int, ...]


@dataclass(frozen=True)
class Guard:
    """A guarded index of an operand: where it starts, its extent, and (for divided ones) its elements in memory."""

    first: str
    extent: str
    stride: str


@dataclass(frozen=True)
class Operand:
    """How an operand is read. `deep_first`: neighbours in memory are neighbours along K."""

    pointer: str
    first: str
    guards: tuple[Guard, ...]
    side: tuple[Step, ...]
    deep: tuple[Step, ...]
    deep_first: bool


class _Printer:
    """The texts that the skeletons ask for."""

    def __init__(self, k: Kernel, contract: Contract) -> None:
        self.k = k
        self.nest = NestPrinter(k, contract.nest)
        self.dims = {d.name: d for d in contract.nest.dims}
        self.sides = sides_of(k.template, contract.nest)

    def _access(self, formal: str) -> Strided:
        return _access(self.k.template, formal)

    def _number(self, value: int | str) -> str:
        return str(value) if isinstance(value, int) else self.k.scope[value].text

    def extent(self, dims: Sequence[str]) -> str:
        return self.nest.extent([self.dims[d] for d in dims])

    def split(self, index: str, dims: Sequence[str]) -> list[str]:
        """Declarations of the dims of a flat index."""
        return [x.text for x in self.nest._split(index, [self.dims[d] for d in dims])]

    def _scaled(self, factor: int | str, axis: Axis) -> str:
        text = self._number(factor)
        return self._number(axis.stride) if text == "1" else scaled(text, axis, self._number)

    def _step(self, access: Strided, dim: str) -> Step:
        terms = [(a, c) for a in access.axes for d, c in a.terms if d == dim]
        by = " + ".join(self._scaled(c, a) for a, c in terms if a.div == 1) or "0"
        at = tuple(sum(c for d, c in a.terms if d == dim) for a in _guarded(access))
        return Step(self.k.extent(self.dims[dim].extent), by, at)

    def _guard(self, axis: Axis) -> Guard:
        extent = "0x7fffffff" if axis.extent is None else f"(nl_i32){self._number(axis.extent)}"
        stride = self._number(axis.stride) if axis.div != 1 else "0"
        return Guard(f"(nl_i32){self._number(axis.const)}", extent, stride)

    def operand(self, number: int) -> Operand:
        """The operand of the rows (0) or of the columns (1)."""
        formal = f"x{self.sides.rows if number == 0 else 1 - self.sides.rows}"
        access = self._access(formal)
        last = [a for a in access.axes if a.stride == 1]
        consts = [self._scaled(a.const, a) for a in access.axes if a.div == 1 and a.const != 0]
        return Operand(
            self.k.pointers[formal],
            " + ".join(consts) or "0",
            tuple(self._guard(a) for a in _guarded(access)),
            tuple(self._step(access, d) for d in (*self.sides.batch, *(self.sides.m, self.sides.n)[number])),
            tuple(self._step(access, d) for d in self.sides.k),
            bool(last) and all(d in self.sides.k for a in last for d, _ in a.terms),
        )

    def by_m(self) -> bool:
        """Whether neighbours of the output in memory are neighbours along M."""
        last = [d for a in self._access("y").axes if a.stride == 1 for d, _ in a.terms]
        return not any(d in self.sides.n for d in last)

    def epilogue(self, value: str) -> list[Line]:
        body = self.nest._body()
        nest, precision = self.nest.nest, self.k.dialect.precision
        acc = self.k.namer(nest.acc)
        body.scope[nest.acc] = Symbol(acc, precision)
        first = Line(f"const {self.k.dialect.real} {acc} = {value};")
        return [first, *body.run(nest.epilogue), *body.stores()]


def contract_functions(k: Kernel, contract: Contract) -> list[Function]:
    """The functions of one contraction."""
    if contract.strategy not in strategies() or contract.nest.prologue or contract.nest.fill != 0:
        raise PrintError(f"there is no strategy `{contract.strategy}` for this kernel", k.template.span)
    if contract.strategy in direct.STRATEGIES:
        return direct.direct_functions(k, contract)
    p = _Printer(k, contract)
    product = render(
        "product.cu.j2",
        operands=(p.operand(0), p.operand(1)),
        extents=[p.extent(x) for x in (p.sides.m, p.sides.n, p.sides.k)],
        by_m=p.by_m(),
        column=lambda name: k.scope[name].text,
    )
    fast, slow = (p.sides.m, p.sides.n) if p.by_m() else (p.sides.n, p.sides.m)
    batch = p.split("nl_s.batch", p.sides.batch)
    text = render("store.cu.j2", batch=batch, fast=p.split("nl_fast", fast), slow=p.split("nl_slow", slow), block=BLOCK)
    return [
        Function(PRODUCT, tuple(Line(x) for x in product.strip("\n").split("\n")), given="nl_product &nl_p"),
        Function(STORE, with_end(text, p.epilogue("nl_s.at[nl_e]")), given="const nl_sums &nl_s"),
    ]
