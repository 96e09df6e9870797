"""Convolutions by Fourier transforms: the kernels, operands and epilogue of the strategy fft_conv.

Assumes: a Contract that compiler/strategies/cuda/fft_conv.py took: a formal `workspace` for its spectra, and a column
for each of its sizes.
Guarantees: a contraction is two or three launches: all transforms; products, or sums of few while images are
transformed, where they are not summed by the last one; transforms back with the epilogue, which is printed from the
nest. The points of a tile, and few channels or outputs, are literal in the kernels; all else is data.
Does not: choose the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi
from types import SimpleNamespace
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.cuda.kernels.direct import roles
from backends.cuda.kernels.kernel import Shared
from backends.cuda.kernels.nests.nest import NestPrinter
from backends.cuda.kernels.stores import epilogue
from backends.kernel_ir.expr import Operand, braces, cast, code, form, name
from backends.kernel_ir.stmt import For, Kind, Let, Stmt, constants
from backends.kernel_ir.tree import Code
from compiler.strategies.cost.cuda import FFT_BLOCKS
from compiler.strategies.cuda import fft_conv
from compiler.strategies.cuda.fft_conv import Way, way_of

TRANSFORM: Final = "fft_transform"
PRODUCT: Final = "fft_product"
SUMS: Final = "fft_sums"
INVERSE: Final = "fft_inverse"
_OPERANDS: Final = "nl_transformed"
_COLUMN: Final = "s_"
_LEAST_SUMS: Final = 2
_LEAST: Final = {16: 4, 32: 3, 64: 2}
"""Blocks of transforms that a processor holds, by points of a tile: as many as shared memory and registers allow."""


def _suffix(way: Way) -> str:
    return f"_{way.points}" if not way.few else f"_{way.points}_{'to' if way.sums else 'of'}_{way.few}"


def shared_name(contract: l2.Contract) -> str:
    """The kernel with the epilogue."""
    return INVERSE + _suffix(way_of(contract.literals))


def parts(contract: l2.Contract) -> list[Shared]:
    """The kernels of a contraction in the order of their launches."""
    way = way_of(contract.literals)
    least, numbers = _LEAST[way.points], f"{way.points}, {way.few}" if way.few else f"{way.points}"
    found = [Shared(f"{TRANSFORM}_{way.points}", f"nl_fft_transform<{way.points}>", _OPERANDS, "", least)]
    if way.sums:
        name = f"{SUMS}_{way.points}_to_{way.few}"
        found.append(Shared(name, f"nl_fft_sums<{numbers}>", _OPERANDS, "", _LEAST_SUMS, part=SUMS))
    elif not way.few:
        block = fft_conv.PRODUCT_BLOCK
        found.append(Shared(PRODUCT, "nl_fft_product", _OPERANDS, "", FFT_BLOCKS, block=block, part=PRODUCT))
    kind = "" if not way.few else "_to" if way.sums else "_of"
    call, part = f"nl_fft_inverse{kind}<{numbers}>", SUMS if way.sums else ""
    return [*found, Shared(shared_name(contract), call, _OPERANDS, "nl_column_out", least, part=part)]


def names(contracts: Sequence[l2.Contract], units: bool) -> dict[str, Any]:
    """Arguments of templates/fft_conv.cu.j2; `transforms`: whether its text is needed at all; `fft_products`: and its
    products on matrix units (`units`)."""
    return {
        "transforms": any(c.strategy == fft_conv.NAME for c in contracts),
        "fft_products": units,
        "cosines": [f"{cos(2 * pi * k / 64):.12f}f" for k in range(17)],
        "fft_pairs": fft_conv.PAIRS,
        "fft_outs": fft_conv.OUTS,
        "fft_deep": fft_conv.DEEP,
        "fft_threads": fft_conv.PRODUCT_BLOCK,
    }


def transformed(k: Kernel, contract: l2.Contract) -> tuple[dict[str, Operand], Sequence[Stmt]]:
    """The members of the operands, and what a thread does with its outputs."""
    way, nest, r = way_of(contract.literals), NestPrinter(k, contract.nest), roles(k.template, contract)
    columns = [f.name for f in k.template.columns if f.name.startswith(_COLUMN)]
    c = SimpleNamespace(**{n.removeprefix(_COLUMN): form("(nl_i32){}", k.scope[n].code) for n in columns})
    both, turned = _operands(way, c, k.pointers[r.image], k.pointers[r.other]), way.weights and way.sums
    many = zip(("image", "filter"), reversed(both) if turned else both, strict=True)
    found: dict[str, Operand] = {n: braces(*x, type="nl_tiled") for n, x in many}
    pairs, most = (c.a + 1) / 2, ((c.out_rows, c.out_cols) if way.weights else (c.step_r, c.step_c))
    found |= {"step_r": c.step_r, "step_c": c.step_c, "across": c.across}
    found |= {"pairs": pairs if way.weights else pairs * c.tiles, "channels": c.b * c.tiles if way.weights else c.b}
    found |= {"outs": c.outs, "out_rows": c.out_rows, "out_cols": c.out_cols}
    found |= {"most_rows": most[0], "most_cols": most[1]}
    found |= {"frequencies": fft_conv.frequencies(way.points)}
    found |= {"images": 0 if way.sums else "nl_p.pairs * nl_p.channels", "depth": c.depth, "splits": c.splits}
    found |= {"apart": str(way.few > 0).lower(), "flipped": str(turned).lower()}
    filters = "(nl_i64)nl_p.frequencies * nl_p.outs * ((nl_p.channels + 1) / 2)"
    found["spectra[0]"] = cast("float4 *", k.pointers["workspace"])
    found["spectra[1]"] = "nl_p.spectra[0] + (nl_i64)nl_p.frequencies * nl_p.images"
    found["spectra[2]"] = f"nl_p.spectra[1] + {filters}"
    a, row, col = (r.c, r.r, r.s) if way.weights else (r.n, r.i, r.j)
    a, b = (r.o, a) if turned else (a, r.o)
    return found, _stored(nest, way.points, [nest.vars[d] for d in (a, b, row, col)])


def _stored(nest: NestPrinter, points: int, indices: Sequence[Code]) -> list[Stmt]:
    """The columns of a thread, of two planes; `indices`: of a plane, its partner, a row and a column."""
    (a, b, row, col), plane = indices, f"nl_plane<{points}>"
    each = [
        Let("nl_i64", row, "nl_own.i + nl_row"),
        Let("real", name("nl_sum"), form("nl_at[2 * nl_row * {}]", name(f"{plane}::LINE"))),
        *epilogue(nest, "nl_sum"),
    ]
    rows = For(name("nl_row"), "nl_own.first", "nl_own.rows", each, name(f"{plane}::PARTS"), "int", Kind.FOUR)
    planes = [
        Let("nl_i64", a, "nl_own.a + nl_n"),
        Let("const real *const", name("nl_at"), "(const real *)(nl_planes + nl_own.at) + nl_n", const=False),
        rows,
    ]
    both = "nl_n < 2 && nl_own.a + nl_n < nl_own.many_a"
    return [
        Let("extern __shared__ __align__(16) float2", code("nl_planes")[name("")]),
        constants("nl_column_out", nl_own="nl_s"),
        constants("nl_i64", **{b.text: "nl_own.b", col.text: "nl_own.j"}),
        For(name("nl_n"), 0, None, planes, type="int", kind=Kind.ONCE, test=both),
    ]


def _operands(way: Way, c: SimpleNamespace, image: Code, other: Code) -> tuple[list[Operand], list[Operand]]:
    """The members of nl_tiled (templates/fft_conv.cu.j2), in order, of the image, and of the weights or the gradient of
    the output."""
    by = (c.image_by_c, c.image_by_n) if way.weights else (c.image_by_n, c.image_by_c)
    tiles = (1, c.tiles) if way.weights else (c.tiles, 1)
    many = (c.outs, c.a) if way.weights and way.sums else (c.a, c.outs)
    part = (c.step_r, c.step_c) if way.weights else (c.other_rows, c.other_cols)
    first = [image, *by, c.image_cols, 1, c.image_rows, c.image_cols, c.from_r, c.from_c, way.points, way.points]
    second = [other + c.other_first, c.other_by_o, c.other_by_c, c.other_by_r, c.other_by_s, c.other_rows, c.other_cols]
    return [*first, many[0], c.b, *tiles], [*second, 0, 0, *part, many[1], c.b, 1, tiles[1]]
