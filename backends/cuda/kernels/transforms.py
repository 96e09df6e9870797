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
from dataclasses import dataclass
from math import cos, pi
from types import SimpleNamespace
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.skeletons import frame
from backends.cuda.kernels.direct import roles
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.nest import NestPrinter
from backends.cuda.kernels.skeletons import statements
from backends.kernel_ir.expr import form
from backends.kernel_ir.stmt import Frame
from backends.kernel_ir.tree import Code
from compiler.strategies.cuda import fft_conv
from compiler.strategies.cuda.fft_conv import Way, way_of

TRANSFORM: Final = "fft_transform"
PRODUCT: Final = "fft_product"
SUMS: Final = "fft_sums"
INVERSE: Final = "fft_inverse"
_COLUMN: Final = "s_"
_LEAST_SUMS: Final = 2
_LEAST: Final = {16: 4, 32: 3, 64: 2}
"""Blocks of transforms that a processor holds, by points of a tile: as many as shared memory and registers allow."""


def _suffix(way: Way) -> str:
    return f"_{way.points}" if not way.few else f"_{way.points}_{'to' if way.sums else 'of'}_{way.few}"


def shared_name(contract: l2.Contract) -> str:
    """The kernel with the epilogue."""
    return INVERSE + _suffix(way_of(contract.literals))


@dataclass(frozen=True)
class Part:
    """A kernel of a contraction: its name, the call that does its work, the type of what its epilogue stores ("":
    none), least blocks per processor, threads."""

    name: str
    call: str
    sums: str
    resident: int
    block: int = BLOCK
    part: str = ""


def parts(contract: l2.Contract) -> list[Part]:
    """The kernels of a contraction in the order of their launches."""
    way = way_of(contract.literals)
    least, numbers = _LEAST[way.points], f"{way.points}, {way.few}" if way.few else f"{way.points}"
    found = [Part(f"{TRANSFORM}_{way.points}", f"nl_fft_transform<{way.points}>", "", least)]
    if way.sums:
        found.append(Part(f"{SUMS}_{way.points}_to_{way.few}", f"nl_fft_sums<{numbers}>", "", _LEAST_SUMS, part=SUMS))
    elif not way.few:
        found.append(Part(PRODUCT, "nl_fft_product", "", fft_conv.RESIDENT, fft_conv.PRODUCT_BLOCK, PRODUCT))
    kind = "" if not way.few else "_to" if way.sums else "_of"
    call, part = f"nl_fft_inverse{kind}<{numbers}>", SUMS if way.sums else ""
    return [*found, Part(shared_name(contract), call, "nl_column_out", least, part=part)]


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


def transform_texts(k: Kernel, contract: l2.Contract) -> tuple[Frame, Frame, NestPrinter]:
    """The code that fills in the operands, the code that runs the epilogue of all outputs (with `@end` for that of
    one), and the nest."""
    way, nest, r = way_of(contract.literals), NestPrinter(k, contract.nest), roles(k.template, contract)
    c = SimpleNamespace(
        **{
            f.name.removeprefix(_COLUMN): form("(nl_i32){}", k.scope[f.name].code)
            for f in k.template.columns
            if f.name.startswith(_COLUMN)
        }
    )
    image, other = _operands(way, c, k.pointers[r.image], k.pointers[r.other])
    turned = way.weights and way.sums
    operands = {
        "c": c,
        "image": other if turned else image,
        "filter": image if turned else other,
        "workspace": k.pointers["workspace"],
        "frequencies": fft_conv.frequencies(way.points),
        "weights": way.weights,
        "sums": way.sums,
        "few": way.few > 0,
        "flipped": turned,
    }
    a, row, col = (r.c, r.r, r.s) if way.weights else (r.n, r.i, r.j)
    b = r.o
    if turned:
        a, b = b, a
    vs = {n: nest.vars[d] for n, d in (("a", a), ("b", b), ("row", row), ("col", col))}
    product = frame(statements(), "product_fft_conv.cu.j2", operands)
    return product, frame(statements(), "store_fft_conv.cu.j2", {"points": way.points, **vs}), nest


def _operands(way: Way, c: SimpleNamespace, image: Code, other: Code) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of nl_tiled (templates/fft_conv.cu.j2) of the image, and of the weights or the gradient of the
    output."""
    by = (c.image_by_c, c.image_by_n) if way.weights else (c.image_by_n, c.image_by_c)
    tiles = {"tiles_a": 1 if way.weights else c.tiles, "tiles_b": c.tiles if way.weights else 1}
    turned = way.weights and way.sums
    whole = {"from_r": c.from_r, "from_c": c.from_c, "most_r": way.points, "most_c": way.points}
    part = {"most_r": c.step_r, "most_c": c.step_c} if way.weights else {"most_r": c.other_rows, "most_c": c.other_cols}
    first = {"data": image, "by_a": by[0], "by_b": by[1], "by_r": c.image_cols, "by_c": 1}
    first |= {"rows": c.image_rows, "cols": c.image_cols, "many_a": c.outs if turned else c.a, **whole, **tiles}
    second = {"data": other + c.other_first, "by_a": c.other_by_o, "by_b": c.other_by_c, "by_r": c.other_by_r}
    second |= {"by_c": c.other_by_s, "rows": c.other_rows, "cols": c.other_cols, "many_a": c.a if turned else c.outs}
    second |= {"from_r": 0, "from_c": 0, **part, "tiles_a": 1, "tiles_b": tiles["tiles_b"]}
    return first, second
