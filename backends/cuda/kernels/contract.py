"""Contractions by a strategy: the functions of one template.

Assumes: a Contract in row-major layout with one of `strategies`.
Guarantees: a contraction is two functions, parts of a kernel that all contractions of its kind share
(templates/shared.cu.j2), since the sums are much code and differ by data alone: one fills in the operand descriptors,
the other runs the epilogue, printed from the nest. Literals of the kernel are in its name: the number of guarded
indices of each operand of a product; the walk of a convolution's window.
Does not: choose tiles or splits: they are columns, from which launch_geometry.py takes the number of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.addresses import Addresses
from backends.c_family.cprint import PrintError
from backends.cuda.kernels import direct, transforms
from backends.cuda.kernels.kernel import BLOCK, Function, Shared
from backends.cuda.kernels.nests.nest import NestPrinter
from backends.cuda.kernels.stores import Lines, Tile, apart
from backends.kernel_ir.descriptor import CompiledFunction
from backends.kernel_ir.expr import ONE, Operand, braces, cast, code, form, name, total
from backends.kernel_ir.stmt import Let, Set, Stmt
from backends.kernel_ir.tree import Code
from compiler.ir.space import DType
from compiler.strategies import spread_rnn
from compiler.strategies.cuda import (
    depthwise_conv,
    direct_conv,
    direct_conv_weights,
    fft_conv,
    fused_attention,
    grouped_conv,
    implicit_gemm,
    matmul,
    stored_products,
    tensor_conv,
    tensor_conv_weights,
    tensor_cores,
    tensor_products,
)
from compiler.strategies.cuda.implicit_gemm import Sides, sides
from compiler.strategies.cuda.split import split_conv, split_products
from compiler.strategies.cuda.vendor import cublaslt, cudnn

UNITS: Final = frozenset({*tensor_products.KINDS, *stored_products.BYTES, split_products.NAME, split_conv.NAME})
"""Strategies of products whose tiles two warpgroups sum."""
PRODUCTS: Final = frozenset({matmul.NAME, implicit_gemm.NAME, *tensor_cores.PASSES, *UNITS})
"""Strategies of products of two matrices."""
LIBRARY: Final = frozenset({*cublaslt.KINDS, *cudnn.KINDS})
"""Strategies that call a library: they have no text."""
_RESIDENT: Final = 3
"""Blocks that a processor holds: while one waits for its operands another one sums."""
_SPLITTING: Final = 4
"""Blocks of SPLIT_FACTORS that it does."""
_LOADERS: Final = 128
TENSOR_BLOCK: Final = BLOCK + _LOADERS
"""Threads of a block on matrix units: BLOCK multiply, the others load for them."""
WIDE, HELD = "_wide", "_held"
"""Suffixes of kernels of stored_products: for tiles of which a processor holds one, and for those an operand of which
comes from registers."""
_ACROSS: Final = ("", "_columns", "_rows", "_both")
"""Suffixes of kernels on matrix units by the operands that are contiguous across, not along their terms: as a
contraction has the same ones in all of its rows, kernels for each share no code that takes long to compile, and no
contraction has several."""
_FACTORS: Final = {
    stored_products.NAME: "nl_factors_bf16",
    stored_products.TF32: "nl_factors_tf32",
    stored_products.CONV: "nl_factors_bf16",
}
"""What a kind of stored_products is called in its template."""
SPLIT_FACTORS: Final = "split_factors"
"""The kernel before that of split_products."""
SPLITS_OF_PIXELS: Final = MappingProxyType({"split_pixels": "nl_split_pixels"})
SPLITS_OF_TERMS: Final = MappingProxyType({"largest_of_pixels": "nl_find_largest", "split_terms": "nl_split_terms"})
"""The kernels before that of split_conv, and their functions: where pixels are rows, and where they are terms."""
GATHERED: Final = frozenset({stored_products.CONV, split_conv.NAME})
"""Strategies of convolutions whose pixels the copy engine gathers."""
_SPLIT_CALL: Final = "nl_split_product"
_SPLIT_CONV: Final = "nl_split_conv"
_OF_GROUPS: Final = {
    grouped_conv.NAME: ("nl_groups", "nl_column"),
    grouped_conv.WEIGHTS: ("nl_group_weights", "nl_group_filter"),
    depthwise_conv.NAME: ("nl_depthwise", "nl_sums"),
    depthwise_conv.WEIGHTS: ("nl_depthwise_weights", "nl_channel_filters"),
}
"""The structures of operands and sums of a convolution in groups."""
PRODUCT: Final = "_product"
STORE: Final = "_store"
_CONVOLUTIONS: Final = frozenset(map(direct.family, direct.STRATEGIES))


def strategies() -> frozenset[str]:
    """Strategies that this target has."""
    return PRODUCTS | direct.STRATEGIES | fused_attention.NAMES | spread_rnn.NAMES | {fft_conv.NAME} | LIBRARY


def sides_of(template: l2.Template, nest: l2.Nest) -> Sides:
    """Which dims of a product are batch, M, N and K."""
    par, red = (tuple(d.name for d in dims) for dims in (nest.par, nest.red))
    return sides(par, red, (template.strided["x0"].dims, template.strided["x1"].dims))


@dataclass(frozen=True)
class _Factor:
    """An operand of a product. `deep`: its terms are contiguous in memory; `stored`: it is bf16 there."""

    formal: str
    access: l2.Strided
    deep: bool
    stored: bool


def _factors(template: l2.Template, contract: l2.Contract) -> list[_Factor]:
    """The row operand and the column operand."""
    found, dtypes = sides_of(template, contract.nest), {f.name: f.dtype for f in template.formals}
    made = []
    for formal in (f"x{found.rows}", f"x{1 - found.rows}"):
        access = template.strided[formal]
        last = [a for a in access.axes if a.stride == 1]
        deep = bool(last) and all(d in found.k for a in last for d, _ in a.terms)
        made.append(_Factor(formal, access, deep, dtypes[formal] is DType.BF16))
    return made


# -------------------------------------------------------------------------------------- shared kernels


def shared_name(template: l2.Template, contract: l2.Contract) -> str:
    """The kernel of a contraction: `implicit_gemm_guarded_2_plain`, `direct_conv_3_step_1_tap_1`."""
    if contract.strategy == matmul.NAME or contract.strategy in UNITS:
        return contract.strategy
    if contract.strategy == fft_conv.NAME:
        return transforms.shared_name(contract)
    if contract.strategy in direct.GROUPED:
        parts = [f"{of}_bf16" for of, stored in direct.stored(template, contract).items() if stored]
        for of, both in direct.walk_of_groups(template, contract).items():
            parts += [*([of] if of else []), "_by_".join(dict.fromkeys(map(str, both)))]  # alike: once
        return "_".join([contract.strategy, *parts])
    if contract.strategy in direct.STRATEGIES:
        taps, step, tap = direct.walk(template, contract)
        own = direct.parts_of(contract.strategy) is None
        name = f"{contract.strategy}_{taps}" + (f"_step_{step}_tap_{tap}" if own else "")
        return "_of_".join([name, *("_by_".join(map(str, x)) for x in [direct.chosen(contract)] if x)])
    parts = [contract.strategy]
    for x in _factors(template, contract):
        parts.append((f"guarded_{len(x.access.guards)}" if x.access.guards else "plain") + "_bf16" * x.stored)
    return "_".join(parts)


def _kinds(template: l2.Template, contract: l2.Contract) -> list[Shared]:
    """The kernels of a contraction, without users: one, or one for each number of outputs of a thread."""
    if contract.strategy in LIBRARY:
        return []
    name, strategy = shared_name(template, contract), contract.strategy
    if strategy in tensor_products.KINDS:
        deep = [x.deep for x in _factors(template, contract)]
        name += _ACROSS[2 * (not deep[0]) + (not deep[1])]
        kind = ", ".join([tensor_products.KINDS[strategy], *map(_truth, deep)])
        call = f"nl_tensor_product<{kind}>"
        return [Shared(name, call, "nl_product", "nl_sums", 1, block=TENSOR_BLOCK, part=name)]
    if strategy == split_products.NAME:
        factors = Shared(SPLIT_FACTORS, "nl_split_factors", "nl_product", "", _SPLITTING, part=SPLIT_FACTORS)
        return [factors, *map(_split_kind, range(split_products.NUMBERS))]
    if strategy == split_conv.NAME:
        terms = bool(dict(contract.literals)["weights"])
        before = [
            Shared(name, call, "nl_product", "", _SPLITTING, part=name)
            for name, call in (SPLITS_OF_TERMS if terms else SPLITS_OF_PIXELS).items()
        ]
        way = _of_taps(terms, direct.roles(template, contract).row.axis.div > 1)
        return [*before, *(_split_conv_kind(n, *way) for n in range(len(split_conv.COLUMNS)))]
    if strategy in stored_products.BYTES:
        numbers = range(stored_products.NUMBERS)
        return [_stored_kind(name, suffix) for suffix in dict.fromkeys(stored_suffix(name, n) for n in numbers)]
    if strategy in PRODUCTS:
        call = "nl_matmul"
        if strategy != matmul.NAME:
            given = [(len(x.access.guards), "nl_bfloat" if x.stored else "real") for x in _factors(template, contract)]
            readers = [f"nl_reader<{count}, {element}>" for count, element in given]
            call = f"nl_implicit_gemm<{tensor_cores.PASSES.get(strategy, 0)}, {', '.join(readers)}>"
        return [Shared(name, call, "nl_product", "nl_sums", _RESIDENT, waits=strategy == matmul.NAME)]
    if strategy == fft_conv.NAME:
        return transforms.parts(contract)
    if strategy in direct.GROUPED:
        return [_group_kind(template, contract, name)]
    walk = direct.walk(template, contract)
    if (units := direct.parts_of(strategy)) is not None:
        parts, element = units
        if strategy in direct.FILTERS:
            outs, block = direct_conv_weights.outs_of(walk[0]), tensor_conv_weights.THREADS
            call = f"nl_tensor_weights<{parts}, {element}, {outs}, {walk[0]}>"
            return [Shared(name, call, "nl_weights", "nl_filters", tensor_conv.RESIDENT, block=block)]
        return [
            Shared(
                name + suffix,
                f"nl_tensor_conv<{parts}, {element}, {tall}, {wide}, {walk[0]}>",
                "nl_convolution",
                "nl_outputs",
                tensor_conv.RESIDENT,
                frozenset({number}),
                part=name + suffix,
            )
            for number, (suffix, (tall, wide)) in enumerate(
                zip(direct.suffixes(strategy), tensor_conv.TILES, strict=True)
            )
        ]
    return _direct_kinds(template, contract, name)


def _group_kind(template: l2.Template, contract: l2.Contract, name: str) -> Shared:
    """That of a convolution in groups."""
    types = ("nl_bfloat" if stored else "real" for stored in direct.stored(template, contract).values())
    numbers = (str(n) for x in direct.walk_of_groups(template, contract).values() for n in x)
    call = f"nl_{contract.strategy}<{', '.join([*types, *numbers])}>"
    operands, sums = _OF_GROUPS[contract.strategy]
    resident = grouped_conv.resident(contract.literals) if _single(template) else 0
    if contract.strategy in direct.DEPTHWISE:
        resident = depthwise_conv.resident(contract.strategy, contract.literals, resident)
    return Shared(name, call, operands, sums, resident)


def _single(template: l2.Template) -> bool:
    """Whether it computes in float32: sums of float64 need twice the registers."""
    return any(f.name == "x0" and f.dtype.computed is DType.F32 for f in template.formals)


def _direct_kinds(template: l2.Template, contract: l2.Contract, name: str) -> list[Shared]:
    """Those of a convolution summed in registers."""
    walk = direct.walk(template, contract)
    literals = ", ".join(map(str, (*walk, *direct.chosen(contract))))
    if contract.strategy == direct_conv_weights.NAME:
        call = f"nl_direct_weights<{direct_conv_weights.outs_of(walk[0])}, {literals}>"
        return [Shared(name, call, "nl_weights", "nl_filters", _RESIDENT)]
    resident = _RESIDENT if _single(template) else 0
    return [
        Shared(
            name + suffix,
            f"nl_direct<{outs}, {literals}>",
            "nl_convolution",
            "nl_strips",
            resident,
            frozenset({number}),
        )
        for number, (suffix, outs) in enumerate(zip(direct.suffixes(contract.strategy), direct_conv.OUTS, strict=True))
    ]


def _stored_kind(name: str, suffix: str) -> Shared:
    """The kernel of stored_products of that suffix."""
    of = [n for n in range(stored_products.NUMBERS) if stored_suffix(name, n) == suffix]
    resident, block, early = stored_products.resident_of(name, of[0]), stored_block(suffix), "nl_begin_stored(nl_t);"
    function = name + suffix
    numbers = frozenset(of)
    return Shared(function, f"nl_{function}", "nl_product", "nl_sums", resident, numbers, block, function, early)


def _split_kind(number: int) -> Shared:
    """The kernel of split_products of a tile."""
    _, *across = stored_products.shape_of(number)
    name, call = split_products.NAME + _ACROSS[number], f"{_SPLIT_CALL}<{', '.join(map(_truth, across))}>"
    numbers = frozenset({number})
    return Shared(name, call, "nl_product", "nl_sums", 1, numbers, stored_block(""), name, "nl_begin_ring();")


def _of_taps(terms: bool, rests: bool) -> tuple[str, str]:
    """Name and arguments of the kernels of split_conv: pixels are `terms`, or those with the same `rests` a product."""
    return "_of_terms" * terms + "_of_rests" * rests, f"{_truth(terms)}, {_truth(rests)}"


def _split_conv_kind(number: int, way: str, arguments: str) -> Shared:
    """The kernel of split_conv of a tile (_of_taps)."""
    wide, resident = split_conv.COLUMNS[number], split_conv.RESIDENT[number]
    name, early = f"{split_conv.NAME}{way}_{wide}", "nl_begin_gathering(nl_t);"
    call = f"{_SPLIT_CONV}<{wide}, {arguments}>"
    return Shared(name, call, "nl_product", "nl_sums", resident, frozenset({number}), stored_block(""), name, early)


def stored_suffix(kind: str, number: int) -> str:
    """Of the kernel of a tile of stored_products."""
    across = _ACROSS[number % len(_ACROSS)]
    if stored_products.is_held(kind, number):
        return across + HELD
    return across + (WIDE if stored_products.resident_of(kind, number) == 1 else "")


def stored_block(suffix: str) -> int:
    """Threads of a block of it: one of those that do not multiply fetches, or four warps, which leave registers to the
    others and may turn an operand."""
    return BLOCK + (_LOADERS if suffix.endswith(HELD) else 32)


def compiled_functions(template: l2.Template, contract: l2.Contract) -> tuple[CompiledFunction, ...]:
    """The kernels that compute a contraction, in the order of their launches."""
    return tuple(
        CompiledFunction(x.name, x.block, joins=True, resident=x.resident, tiles=tuple(sorted(x.numbers or ())))
        for x in _kinds(template, contract)
    )


def shared_kernels(kernels: Iterable[Kernel]) -> list[Shared]:
    """The kernels of all contractions, in the order of their first templates."""
    found: dict[str, Shared] = {}
    for k in kernels:
        if isinstance(contract := k.template.body, l2.Contract):
            for kind in _kinds(k.template, contract):
                x = found.get(kind.name, kind)
                found[kind.name] = replace(x, users=(*x.users, k))
    return list(found.values())


def numbers_of(program: l2.Merged) -> Mapping[int, frozenset[int]]:
    """By template: the shapes of tiles, by number, that its rows have."""
    tables = {t.index: program.tables[t.index].scalars for t in program.templates if isinstance(t.body, l2.Contract)}
    return {t: frozenset(int(str(n)) for n in x["s_tile"]) for t, x in tables.items() if "s_tile" in x}


def shared_names(
    every: Sequence[Shared],
    kernels: AbstractSet[int],
    called: AbstractSet[int],
    numbers: Mapping[int, frozenset[int]] | None,
    part: str | None = None,
) -> Mapping[str, Any]:
    """Arguments of the skeletons of shared kernels: of those that the templates `kernels` use, and of the structures of
    templates whose functions are `called`. `numbers`: the shapes of tiles that rows have, which alone are printed
    (None: all shapes). `part`: only kernels of that part (None: all). `room`: guards of an operand and dims of a side,
    at most."""

    def has(number: int, templates: Iterable[int]) -> bool:
        return numbers is None or any(number in numbers.get(t, ()) for t in templates)

    users = {s.name: {k.template.index for k in s.users} for s in every}
    shared = [s for s in every if users[s.name] & kernels and part in (None, s.part)]
    used = {s.name: [n for n in s.numbers or () if has(n, [k.template.index for k in s.users])] for s in shared}
    shared = [s.with_rows(numbers) for s in shared if s.numbers is None or used[s.name]]
    templates = {k.template.index: k.template for s in every for k in s.users}
    here = {t: x for t, x in templates.items() if t in kernels or t in called}
    contracts = [(t, t.body) for t in here.values() if isinstance(t.body, l2.Contract)]
    products = [(t, c) for t, c in contracts if c.strategy in PRODUCTS]
    found = [sides_of(t, c.nest) for t, c in products]
    depthwise = any(c.strategy in direct.DEPTHWISE for _, c in contracts)
    matrices = [t.index for t, c in products if c.strategy == matmul.NAME]
    others = [t.index for t, c in products if c.strategy != matmul.NAME and c.strategy not in UNITS]
    return {
        "shared": shared,
        "contracted": bool(contracts),
        "strategies": {c.strategy for t, c in contracts if t.index in kernels},
        **_convolution_names([c for _, c in contracts]),
        "products": bool(products) or depthwise,
        "depthwise": depthwise,
        **transforms.names(
            [c for t, c in contracts if t.index in kernels], any(s.part == transforms.PRODUCT for s in shared)
        ),
        "tensor_cores": any(c.strategy in tensor_cores.PASSES for t, c in products if t.index in kernels),
        "tensor_products": any(c.strategy in tensor_products.KINDS for t, c in products if t.index in kernels),
        "units": any(c.strategy in UNITS for t, c in products if t.index in kernels),
        "tensor_sums": depthwise or any(c.strategy in UNITS for t, c in products),
        "tile_sums": any(c.sums for t, c in contracts if t.index in kernels or t.index in called),
        "factors_split": any(c.strategy in {split_products.NAME, split_conv.NAME} for _, c in products),
        "pixels_split": any(c.strategy == split_conv.NAME for _, c in products),
        **_ring_names(shared, used, depthwise),
        "tensor_rows": tensor_products.ROWS,
        "tensor_columns": tensor_products.COLUMNS,
        "tensor_step": tensor_products.DEEP,
        "loaders": _LOADERS,
        "square": tensor_cores.SQUARE,
        "room": {
            "guards": max((len(x.access.guards) for t, c in products for x in _factors(t, c)), default=0) or 1,
            "dims": max((len(d) for x in found for d in (x.batch + x.m, x.batch + x.n, x.k)), default=1),
        },
        **_tile_names(lambda n: has(n, matrices), lambda n: has(n, others)),
    }


def _tile_names(of_matmul: Callable[[int], bool], of_gemm: Callable[[int], bool]) -> Mapping[str, Any]:
    """Arguments of the skeletons of matmul and implicit_gemm, whose tiles with these numbers are used."""
    tiles = implicit_gemm.TILES
    return {
        "matmul_bytes": matmul.STAGES_BYTES,
        "matmul_tiles": [{"number": n, "size": x, "used": of_matmul(n)} for n, x in enumerate(matmul.TILES)],
        "gemm_tiles": [
            {"number": n, **vars(x), "groups": BLOCK * 16 // (x.m * x.n), "used": of_gemm(n)}
            for n, x in enumerate(tiles)
        ],
        "gemm_room": max(BLOCK * 16, *(x.k * (x.m + x.n + 16) for x in tiles)),
    }


def _convolution_names(contracts: Sequence[l2.Contract]) -> Mapping[str, Any]:
    """Arguments of the skeletons of convolutions."""
    families = {direct.family(c.strategy) for c in contracts}
    units, gathered = families & {tensor_conv.NAME, tensor_conv_weights.NAME}, bool(families & GATHERED)
    found = {"convolutions": families & _CONVOLUTIONS, "tensor_conv": units, "gathered": gathered}
    found |= {"of_weights": families & set(map(direct.family, direct.FILTERS)), "group_rows": grouped_conv.ROWS}
    found |= {"depthwise_wide": depthwise_conv.WIDE[0], "depthwise_taps": depthwise_conv.IN_REGISTERS}
    found |= {"depthwise_beside": depthwise_conv.BESIDE}
    return found | {"direct_bytes": direct_conv.BUFFER_BYTES, "chosen_windows": any(map(direct.chosen, contracts))}


def _ring_names(shared: Sequence[Shared], used: Mapping[str, Sequence[int]], depthwise: bool) -> Mapping[str, Any]:
    """Arguments of the skeletons of kernels that have a ring, stored_products and split_products; each None where no
    kernel of it is printed; those of depthwise_conv have their sums where a ring would be."""
    called = {s.call.split("<")[0] for s in shared}
    own = {"sums": _SPLIT_CALL in called, "factors": "nl_split_factors" in called, "gathered": _SPLIT_CONV in called}
    own |= {"pixels": not called.isdisjoint(SPLITS_OF_PIXELS.values())}
    own |= {"terms": not called.isdisjoint(SPLITS_OF_TERMS.values())}
    others = (_SPLIT_CALL, _SPLIT_CONV)
    stored = _stored_names([s for s in shared if s.early and not s.call.startswith(others)], used)
    of_products, of_convs = (split_products.SIZE,) * own["sums"], split_conv.COLUMNS * own["gathered"]
    split: dict[str, Any] = {**own, "columns": sorted({*of_products, *of_convs}), "stages": split_products.STAGES}
    split |= {"block": split_products.BLOCK, "size": split_products.SIZE}
    split["tiles"] = [{"columns": n, "stages": k} for n, k in zip(split_conv.COLUMNS, split_conv.STAGES, strict=True)]
    most = max(*stored_products.STAGES, *stored_products.STAGES_HELD)
    ring = {"line": stored_products.LINE, "stages": most} if stored or any(own.values()) or depthwise else None
    return {"ring": ring, "stored": stored, "split": split if any(own.values()) else None}


def _stored_names(shared: Sequence[Shared], used: Mapping[str, Sequence[int]]) -> Mapping[str, Any] | None:
    """Arguments of the skeleton of stored_products, or None where no kernel of it is printed."""
    kernels = []
    for s in shared:
        body = s.users[0].template.body
        assert isinstance(body, l2.Contract)
        kind, held = body.strategy, s.name.endswith(HELD)
        tiles = []
        for number in sorted(used[s.name]):
            shape, rows, columns = stored_products.shape_of(number)
            across = {"rows_across": _truth(rows), "columns_across": _truth(columns)}
            stages = stored_products.stages_of(kind, number)
            tiles.append({"number": number, "columns": stored_products.COLUMNS[shape], "stages": stages, **across})
        window = kind == stored_products.CONV
        kernels.append({"call": s.call, "tiles": tiles, "unit": _FACTORS[kind], "held": held, "window": window})
    found = {
        "columns": stored_products.COLUMNS,
        "held": any(x["unit"] == _FACTORS[stored_products.TF32] for x in kernels),
        "window": any(x["window"] for x in kernels),
        "kernels": kernels,
    }
    return found if kernels else None


# ------------------------------------------------------------------------------------------- printing


def _truth(x: bool) -> str:
    return str(x).lower()


class _Printer:
    """The texts for the skeletons."""

    def __init__(self, k: Kernel, contract: l2.Contract) -> None:
        self.k = k
        self.nest = NestPrinter(k, contract.nest)
        self.dims = {d.name: d for d in contract.nest.dims}
        self.sides, self.factors = sides_of(k.template, contract.nest), _factors(k.template, contract)
        if contract.strategy == split_conv.NAME and dict(contract.literals)["weights"]:
            r = direct.roles(k.template, contract)
            self.sides = replace(self.sides, m=(r.r, r.s, r.c))

    def extent(self, dims: Sequence[str]) -> Code:
        return self.nest.extent([self.dims[d] for d in dims])

    def _scaled(self, factor: int | str, axis: l2.Axis) -> Code:
        x = self.k.extent(factor)
        return self.k.extent(axis.stride) if x == ONE else Addresses(self.k.extent).scaled(x, axis)

    def _steps(self, side: str, access: l2.Strided, dims: Sequence[str]) -> Iterator[tuple[str, Operand]]:
        """Members of a side of an operand: the extents of its dims but for the first, how far each goes in memory, and
        along guarded axes."""
        for n, dim in enumerate(dims):
            yield f"{side}.steps[{n}].by", total(self._scaled(c, a) for a, c in access.along(dim) if a.div == 1)
            if n:
                yield f"{side}.steps[{n}].extent", self.k.extent(self.dims[dim].extent)
            for place, axis in enumerate(access.guards):
                yield f"{side}.steps[{n}].at[{place}]", sum(c for d, c in axis.terms if d == dim)

    def _guard(self, axis: l2.Axis) -> Code:
        """A guarded index: its origin, its extent, its stride in memory (where it is divided), and the divisor. The
        inverse is rounded up: with the shift exact for all numbers below 2^31 (Granlund & Montgomery 1994, theorem
        4.2)."""
        first, extent = form("(nl_i32){}", self.k.extent(axis.const)), code("0x7fffffff")
        if axis.extent is not None:
            extent = form("(nl_i32){}", self.k.extent(axis.extent))
        shift = max((axis.div - 1).bit_length() - 1, 0)
        stride, inverse = (0, 0) if axis.div == 1 else (self.k.extent(axis.stride), -(-(1 << (32 + shift)) // axis.div))
        return braces(first, extent, stride, axis.div, shift, f"{inverse}u", type="nl_guard")

    def operand(self, number: int, whole: bool) -> Iterator[tuple[str, Operand]]:
        """Members of the row operand (0) or the column operand (1), but for `whole` ones: how many dims its sides have,
        and whether it is contiguous in memory along K."""
        factor = self.factors[number]
        access, pointer = factor.access, self.k.pointers[factor.formal]
        # bf16 elements too, whatever the structure calls them
        yield "data", cast("const real *", pointer) if factor.stored else pointer
        yield "first", total(self._scaled(a.const, a) for a in access.axes if a.div == 1 and a.const != 0)
        if not whole:
            yield "deep_first", _truth(factor.deep)
        yield from ((f"guards[{n}]", self._guard(a)) for n, a in enumerate(access.guards))
        own = (*self.sides.batch, *(self.sides.m, self.sides.n)[number])
        for side, dims in (("side", own), ("deep", self.sides.k)):
            if not whole:
                yield f"{side}.count", len(dims)
            yield from self._steps(side, access, dims)

    def operands(self, contract: l2.Contract, rests: int) -> dict[str, Operand]:
        """The members of nl_product, as far as its kernel reads them; pixels with the same of so many `rests` are a
        product."""
        matrices, m = contract.strategy == matmul.NAME, self.extent(self.sides.m)
        found = {f"of[{n}].{member}": x for n in (0, 1) for member, x in self.operand(n, matrices)}
        k = self.extent(self.sides.k)
        if contract.strategy in GATHERED:
            m, k = (self.gathered(contract, side) for side in (self.sides.m, self.sides.k))
        found |= {"m": m / rests if rests > 1 else m, "n": self.extent(self.sides.n), "k": k}
        column = self.k.extent
        found |= {name: form("(int){}", column(f"s_{name}")) for name in ("tile", "splits")}
        found |= {"depth": column("s_depth"), "by_m": _truth(self.by_m())}
        if contract.strategy in stored_products.BYTES:
            found["outer"] = len(self.sides.batch)
        if contract.strategy in {split_products.NAME, split_conv.NAME}:
            found["split"] = cast("nl_u8 *", self.k.pointers["workspace"])
            blocks = enumerate(("s_row_blocks", "s_column_blocks"))
            found |= {f"blocks[{n}]": form("(nl_u32){}", column(x)) for n, x in blocks}
        for weight in {s.weight for s in contract.sums if s.weight}:
            found["row_weights"] = self.k.pointers[weight]
        if contract.strategy == split_conv.NAME:
            found |= direct.apart_in_memory(self.k, contract)
        window = direct.window_of(self.k, contract) if contract.strategy in GATHERED else ()
        return found | {f"window.{name}": x for name, x in window}

    def gathered(self, contract: l2.Contract, side: Sequence[str]) -> Code:
        """The rows, or terms, of a convolution: channels of taps come in whole groups."""
        c, many = direct.roles(self.k.template, contract).c, stored_products.CHANNELS
        if c not in side:
            return self.extent(side)
        groups = form("({} + {}) / {}", self.extent([c]), many - 1, many)
        return self.extent([d for d in side if d != c]) * groups * many

    def by_m(self) -> bool:
        """Whether the output is contiguous in memory along M."""
        last = [d for a in self.k.template.strided["y"].axes if a.stride == 1 for d, _ in a.terms]
        return not any(d in self.sides.n for d in last)


def contract_functions(k: Kernel, contract: l2.Contract) -> list[Function]:
    if contract.strategy not in strategies() or contract.nest.prologue or contract.nest.fill != 0:
        raise PrintError(f"there is no strategy `{contract.strategy}` for this kernel", k.template.span)
    if contract.strategy in LIBRARY:
        return []
    if contract.strategy == fft_conv.NAME:
        product, store = transforms.transformed(k, contract)
    elif contract.strategy in direct.STRATEGIES:
        product, store = direct.convolved(k, contract)
    else:
        product, store = _multiplied(k, contract)
    kind = next(x for x in _kinds(k.template, contract) if x.sums)
    return [
        Function(
            PRODUCT,
            tuple(Set(code(f"nl_p.{n}"), x) for n, x in product.items()),
            given=(Let(f"{kind.operands} &", name("nl_p")),),
        ),
        Function(STORE, tuple(store), given=(Let(f"const {kind.sums} &", name("nl_s")),)),
    ]


def _multiplied(k: Kernel, contract: l2.Contract) -> tuple[dict[str, Operand], Sequence[Stmt]]:
    """The members of the operands, and what a thread does with its sums."""
    p = _Printer(k, contract)
    gathered = contract.strategy in GATHERED
    div = direct.roles(k.template, contract).row.axis.div if gathered else 1
    product = p.operands(contract, div**2)
    fast, slow = (p.sides.m, p.sides.n) if p.by_m() else (p.sides.n, p.sides.m)
    tile = Tile(
        p.nest,
        fast,
        slow,
        apart(p.nest, "nl_s.batch", p.sides.batch),
        apart(p.nest, "nl_fast", fast),
        apart(p.nest, "nl_slow", slow, contract.flat),
    )
    if contract.strategy not in UNITS:
        return product, tile.one_by_one()
    outs = [cast("nl_i32", p.extent([d])) for d in p.sides.m[1:]] if div > 1 else []
    channels = direct.roles(k.template, contract).c if gathered else ""
    tile = replace(tile, channels=p.extent([channels]) if channels in fast else None, outs=outs)
    if contract.strategy == split_conv.NAME and len(fast) > 1:  # neighbours of several dims
        return product, tile.several()
    return product, Lines(replace(tile, own=apart(p.nest, "nl_own", fast)), contract).all()
