"""translation_units: partition of a program's kernels into translation units (parts).

Assumes: a legal Merged.
Guarantees: every kernel is in one part. Products, those on matrix units (which have instructions of one architecture),
convolutions, each attention, Fourier transforms and the products of their spectra, gradients of filters and chains,
which take longest to compile, are separate parts, so that all parts are compiled in parallel, and unchanged ones come
from the cache; each kernel for products and for convolutions on matrix units is a part, with the templates alone of
which a row needs it (backends/cuda/emit/emit.py). Nests of layers, and those before a simulation, are divided into maps
and sums over one dim, which lose nothing with little optimisation, in parts of at most MOST, and sums over several dims
and maps of bf16, which do. Of a simulation the single kernels and the waves are parts: both have the functions of the
templates of a step; where these are many, several of each (backends/cuda/waves/waves.py).
Does not: depend on sizes or rows: parts follow from the templates alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.cuda.kernels import direct, transforms
from backends.cuda.kernels.contract import PRODUCTS, UNITS, compiled_functions, shared_name
from backends.cuda.persistent.rnn import chained_templates
from compiler.ir.space import DType
from compiler.strategies.cuda import (
    depthwise_conv,
    direct_conv,
    direct_conv_weights,
    fft_conv,
    grouped_conv,
    tensor_conv,
    tensor_conv_weights,
)

_REST: Final = "rest"
_NESTS: Final = "nests"
_SUMS: Final = "sums"
_MAPS: Final = "maps"
_CONVOLUTIONS: Final = "convolutions"
_FILTERS: Final = "filters"
_UNIT_FILTERS: Final = "tensor_filters"
_IN_REGISTERS: Final = frozenset({direct_conv.NAME, grouped_conv.NAME, depthwise_conv.NAME})
_FILTERS_IN_REGISTERS: Final = frozenset({direct_conv_weights.NAME, grouped_conv.WEIGHTS, depthwise_conv.WEIGHTS})
_TRANSFORMS: Final = "transforms"
_ATTENTION: Final = "attention"
_CHAINS: Final = "chains"
_WAVES: Final = "waves"
MOST: Final = 10
"""Maps and sums over one dim of a part."""
_FEW: Final = 4
"""Nests beside the steps of a simulation that are not worth a part."""
_MOST_SUMS: Final = 2
"""Sums over several dims of a part: each compiles for as long as several maps."""


@dataclass(frozen=True)
class Share:
    """A part of the kernels, by templates. `called`: templates whose functions are called, by its chains or by the
    kernel number `wave` of waves (0: it has none of these; None: all). `helpers`: whether it has the kernels common to
    all programs; `quick`: whether it needs little optimisation; `part`: of the kernels of a contraction only those of
    this part."""

    name: str
    kernels: Set[int]
    called: Set[int] = frozenset()
    chains: bool = False
    wave: int | None = 0
    helpers: bool = False
    quick: bool = False
    part: str | None = None


def whole_of(program: l2.Merged) -> Share:
    """All kernels together."""
    return Share("", frozenset(range(len(program.templates))), chains=True, wave=None, helpers=True)


def parts_of(program: l2.Merged, waves: Mapping[int, int]) -> tuple[Share, ...]:
    """The non-empty parts of a program; the first one has the kernels common to all programs. `waves`: by template that
    waves may call, the number of their kernel (0: none does)."""
    bodies = {t.index: t.body for t in program.templates if isinstance(t.body, l2.Contract)}
    contracts = {t: body.strategy for t, body in bodies.items()}
    nests, together = _apart(program, waves.keys())
    called = {n: {t for t, wave in waves.items() if wave == n} for n in sorted({*waves.values()} - {0})}
    sums = {t for t, nest in nests.items() if len(nest.red) > 1}
    maps = {t.index for t in program.templates if t.index in nests and _is_narrow(t)}
    products = {t.index: name for t in program.templates if (name := _product(t)) is not None}
    found = {
        **_numbered(_SUMS, sums, _MOST_SUMS),
        _MAPS: maps,
        **{name: {t for t, own in products.items() if own == name} for name in sorted({*products.values()})},
        _CONVOLUTIONS: {t for t, strategy in contracts.items() if strategy in _IN_REGISTERS},
        _FILTERS: {t for t, strategy in contracts.items() if strategy in _FILTERS_IN_REGISTERS},
        _UNIT_FILTERS: {t for t, strategy in contracts.items() if direct.family(strategy) == tensor_conv_weights.NAME},
        **_numbered(_ATTENTION, {t.index for t in program.templates if isinstance(t.body, l2.Attention)}, 1),
    }
    quick = _numbered(_NESTS if together else _REST, nests.keys() - sums - maps, MOST)
    first = together or quick.pop(_REST)
    more = {n: templates & together for n, templates in called.items() if n > 1}
    parts = [Share(_REST, first - set[int]().union(*more.values()), helpers=True, quick=not together)]
    parts += [Share(_nth(_REST, n), kernels) for n, kernels in more.items()]
    parts += [Share(name, kernels, quick=True) for name, kernels in quick.items() if kernels]
    parts += [Share(name, kernels) for name, kernels in found.items() if kernels]
    parts += [Share(name, users, part=name) for name, users in _alone(program).items()]
    if transformed := {t: transforms.parts(b) for t, b in bodies.items() if b.strategy == fft_conv.NAME}:
        for part in sorted({x.part for found in transformed.values() for x in found}):
            parts.append(Share(part or _TRANSFORMS, transformed.keys(), part=part))
    if chained := chained_templates(program):
        parts.append(Share(_CHAINS, frozenset(), frozenset(chained), chains=True))
    parts += [Share(_nth(_WAVES, n), frozenset(), templates, wave=n) for n, templates in called.items()]
    return tuple(parts)


def _alone(program: l2.Merged) -> dict[str, set[int]]:
    """The templates of each kernel that takes so long to compile that it is a part."""
    found: dict[str, set[int]] = {}
    for t in program.templates:
        if not isinstance(t.body, l2.Contract):
            continue
        if t.body.strategy in UNITS or direct.family(t.body.strategy) == tensor_conv.NAME:
            for function in compiled_functions(t, t.body):
                found.setdefault(function.name, set()).add(t.index)
    return found


def _apart(program: l2.Merged, waves: Set[int]) -> tuple[dict[int, l2.Nest], Set[int]]:
    """The nests that are compiled apart, and what stays together: all of a simulation, but for the nests that run
    beside it or before it."""
    rest = {t.index: t.body for t in program.templates if not isinstance(t.body, l2.Contract | l2.Attention)}
    nests = {t: body for t, body in rest.items() if isinstance(body, l2.Nest) and t not in waves}
    if len(nests) < len(rest) and len(nests) < _FEW:
        nests = {}
    return nests, rest.keys() - nests.keys()


def _product(template: l2.Template) -> str | None:
    """The kernel of a product that is not on matrix units, which is a part."""
    body = template.body
    if not isinstance(body, l2.Contract) or body.strategy not in PRODUCTS - UNITS:
        return None
    return shared_name(template, body)


def _numbered(name: str, templates: Set[int], most: int) -> dict[str, Set[int]]:
    """As many in each part, in their order, and no more than `most`."""
    order = sorted(templates)
    many = -(-len(order) // most) or 1
    parts = (order[len(order) * n // many : len(order) * (n + 1) // many] for n in range(many))
    return {_nth(name, n): frozenset(part) for n, part in enumerate(parts, 1)}


def _nth(name: str, n: int) -> str:
    return f"{name}_{n}" if n > 1 else name


def _is_narrow(template: l2.Template) -> bool:
    """Whether it is a map whose threads have eight neighbours each (backends/cuda/kernels/nests/lines.py)."""
    is_map = isinstance(template.body, l2.Nest) and template.body.combine is None
    return is_map and any(f.dtype is DType.BF16 for f in template.formals)
