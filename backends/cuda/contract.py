"""Contractions by a strategy: the functions of one template, one for each tile shape.

Assumes: a Contract in row-major layout whose strategy has a file templates/strategy_<name>.cu.j2.
Guarantees: addresses are split into a part for each side of the matrix product, worked out once in a block, and a part
along K, worked out once in a step; what the two of them decide together (guards, exact division) is decided at the
load. The epilogue is printed from the nest, as everywhere.
Does not: choose tiles or splits: they are columns, from which work.py takes the function and the number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backends.access import Kernel, axis_numerator, scaled
from backends.cprint import Line, PrintError, Symbol
from backends.cuda import direct
from backends.cuda.kernel import BLOCK, Function, with_end
from backends.cuda.nest import NestPrinter
from backends.cuda.skeletons import environment, exists, render
from compiler.ir.program import ArrayFormal, Axis, Contract, DimKind, Nest, Strided, Template
from compiler.strategies import matmul
from compiler.strategies.implicit_gemm import TILES, Sides, sides

SUFFIXES: Final = ("", "_tall", "_square")
"""Of the functions, by tile shape (compiler/strategies/implicit_gemm.py)."""
MATMUL_SUFFIXES: Final = ("", "_large")
"""Of matmul's functions, by tile (compiler/strategies/matmul.py)."""
_GROUPS: Final = (4, 2, 1)
"""Threads that share an output of a tile, by tile shape: 256 threads have 16 outputs each, or parts of them."""


def strategies() -> frozenset[str]:
    """Strategies that this target has a file for."""
    names = [n for n in environment().list_templates() if n.startswith("strategy_")]
    return frozenset(n.removeprefix("strategy_").removesuffix(".cu.j2") for n in names)


@dataclass(frozen=True)
class Operand:
    """How an operand is read. `side` and `deep`: (address, guarded indices) of the two parts; `deep_first`: neighbours
    in memory are neighbours along K; `inside`, `more`: the guard of a load, and what division adds to its address."""

    side: tuple[str, list[str]]
    deep: tuple[str, list[str]]
    deep_first: bool
    inside: list[str]
    more: str
    pointer: str


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


class _Printer:
    """The texts that the skeleton asks for."""

    def __init__(self, k: Kernel, contract: Contract) -> None:
        self.k = k
        self.nest = NestPrinter(k, contract.nest)
        self.dims = {d.name: d for d in contract.nest.dims}
        self.sides = sides_of(k.template, contract.nest)

    def _access(self, formal: str) -> Strided:
        return _access(self.k.template, formal)

    def _name(self, name: str) -> str:
        return self.nest.scope[name].text

    def extent(self, dims: Sequence[str]) -> str:
        return self.nest.extent([self.dims[d] for d in dims])

    def split(self, index: str, dims: Sequence[str]) -> list[str]:
        """Declarations of the dims of a flat index."""
        return [x.text for x in self.nest._split(index, [self.dims[d] for d in dims])]

    def _part(self, axis: Axis, deep: bool) -> Axis:
        terms = tuple((d, c) for d, c in axis.terms if (d in self.sides.k) == deep)
        return Axis(terms, 0 if deep else axis.const, 1, None, axis.stride)

    def operand(self, formal: str) -> Operand:
        access = self._access(formal)
        sums: dict[bool, list[str]] = {False: [], True: []}
        guarded: dict[bool, list[str]] = {False: [], True: []}
        tests, more = [], []
        for axis in access.axes:
            number = len(guarded[False])
            is_guarded = axis.extent is not None or axis.div != 1
            for deep in (False, True):
                part = self._part(axis, deep)
                index = axis_numerator(part, self._name)
                if is_guarded:
                    guarded[deep].append(index)
                if axis.div == 1 and index != "0":
                    sums[deep].append(scaled(index, part, self._name))
            if is_guarded:
                at = f"(side.at[{number}] + deep.at[{number}])"
                if axis.div != 1:
                    tests.append(f"{at} % {axis.div} == 0")
                    at = f"({at} / {axis.div})"
                    more.append(f"(nl_i64){scaled(at, axis, self._name)}")
                if axis.extent is not None:
                    tests.append(f"(nl_u32){at} < (nl_u32){self.k.extent(axis.extent)}")
        last = [a for a in access.axes if a.stride == 1]
        deep_first = bool(last) and all(d in self.sides.k for a in last for d, _ in a.terms)

        def address(deep: bool) -> tuple[str, list[str]]:
            return " + ".join(sums[deep]) or "0", guarded[deep]

        return Operand(
            address(False),
            address(True),
            deep_first,
            tests,
            " + ".join(more),
            self.k.pointers[formal],
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
    """One function for each tile shape."""
    if contract.strategy in direct.STRATEGIES:
        return direct.direct_functions(k, contract)
    if contract.strategy == matmul.NAME:
        return _matmul_functions(k, contract)
    file = f"strategy_{contract.strategy}.cu.j2"
    if not exists(file) or contract.nest.prologue or contract.nest.fill != 0:
        raise PrintError(f"there is no strategy `{contract.strategy}` for this target", k.template.span)
    p = _Printer(k, contract)
    rows, columns = p.operand(f"x{p.sides.rows}"), p.operand(f"x{1 - p.sides.rows}")
    by_m = p.by_m()
    end = p.epilogue("sum(nl_slow)")
    made = []
    for suffix, tile, groups in zip(SUFFIXES, TILES, _GROUPS, strict=True):
        text = render(
            file,
            tile=tile,
            groups=groups,
            rows=rows,
            columns=columns,
            by_m=by_m,
            sides=p.sides,
            split=p.split,
            extent=p.extent,
            splits=k.scope["s_splits"].text,
            depth=k.scope["s_depth"].text,
            end="@end",
            pointer=k.pointers,
        )
        made.append(Function(suffix, with_end(text, end)))
    return made


@dataclass(frozen=True)
class Matrix:
    """An operand of a product of two matrices, with its strides along its side of the output and along K."""

    pointer: str
    by_side: str
    by_deep: str


def _matmul_functions(k: Kernel, contract: Contract) -> list[Function]:
    """One function for each tile: the sums come from the module, only the epilogue is the kernel's own."""
    if contract.nest.prologue or contract.nest.fill != 0:
        raise PrintError(f"there is no strategy `{contract.strategy}` for this kernel", k.template.span)
    p = _Printer(k, contract)

    def matrix(formal: str, side: str) -> Matrix:
        steps = {a.terms[0][0]: a.stride for a in _access(k.template, formal).axes}
        texts = {d: str(x) if isinstance(x, int) else k.scope[x].text for d, x in steps.items()}
        return Matrix(k.pointers[formal], texts[side], texts[p.sides.k[0]])

    end = p.epilogue("nl_sums[nl_e]")
    return [
        Function(
            suffix,
            with_end(
                render(
                    "strategy_matmul.cu.j2",
                    tile=tile,
                    groups=BLOCK * 16 // tile**2,
                    block=BLOCK,
                    rows=matrix(f"x{p.sides.rows}", p.sides.m[0]),
                    columns=matrix(f"x{1 - p.sides.rows}", p.sides.n[0]),
                    by_m=p.by_m(),
                    sides=p.sides,
                    extent=p.extent,
                    name=lambda dim: p.nest.vars[dim],
                    splits=k.scope["s_splits"].text,
                    depth=k.scope["s_depth"].text,
                    end="@end",
                ),
                end,
            ),
        )
        for suffix, tile in zip(MATMUL_SUFFIXES, matmul.TILES, strict=True)
    ]
