"""tiles: the C functions of register tiles, one for each shape of compiler/strategies/cost/tiles.py.

Assumes: `nl_vec`, `nl_tap` and `NL_LANES` of templates/tiles.c.j2.
Guarantees: every accumulator is a separate variable: gcc's code takes a third less time than with arrays in loops that
it has to unroll first.
Does not: choose shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.strategies.cost.tiles import Shape


@dataclass(frozen=True)
class Kind:
    """acc[o][u] = sum of w[o] * x[u]. `start`: the initial value of the sum `{o}`, `{u}`; `loop`: over the terms; `at`:
    the offsets i of x and j of w in a term; `factor`: that of output `{o}`."""

    parameters: str
    start: str
    loop: str
    at: str
    factor: str


_TERMS: Final = (
    "const real *const *x, const real *const *w, const nl_tap *tap, const nl_tap *end, nl_vec *acc, nl_i64 pitch"
)
_SCALAR: Final = "const real f{o} = w{o}[j];"
_VECTOR: Final = "const nl_vec f{o} = *(const nl_vec *)(w{o} + j);"
_LOOP: Final = ("for (; tap < end; tap++) {", "const nl_i64 i = tap->x, j = tap->w;")

KINDS: Final = {
    "tile": Kind(_TERMS, "{{0}}", *_LOOP, _SCALAR),
    "pair": Kind(_TERMS, "{{0}}", *_LOOP, _VECTOR),
    "dot": Kind(
        "const real *const *w, const real *const *x, const nl_i32 *at, nl_i64 n, nl_vec *acc, nl_i64 pitch",
        "acc[{o} * pitch + {u}]",
        "for (nl_i64 p = 0; p < n; p++) {",
        "const nl_i64 i = at[p], j = p * NL_LANES;",
        _VECTOR,
    ),
}


def tile(name: str, shape: Shape) -> str:
    """The function `nl_<name>_<outs>x<vectors>` of a kind."""
    kind = KINDS[name]
    outs, vectors = range(shape.outs), range(shape.vectors)
    lines = [
        f"NL_ONCE void nl_{name}_{shape.outs}x{shape.vectors}({kind.parameters}) {{",
        "    const real " + ", ".join(f"*const x{u} = x[{u}]" for u in vectors) + ";",
        "    const real " + ", ".join(f"*const w{o} = w[{o}]" for o in outs) + ";",
    ]
    for o in outs:
        lines.append("    nl_vec " + ", ".join(f"s{o}_{u} = {kind.start.format(o=o, u=u)}" for u in vectors) + ";")
    lines += ["#pragma GCC unroll 1", f"    {kind.loop}", f"        {kind.at}"]
    lines.append("        const nl_vec " + ", ".join(f"v{u} = *(const nl_vec *)(x{u} + i)" for u in vectors) + ";")
    for o in outs:
        lines.append(f"        {kind.factor.format(o=o)}")
        lines.append("        " + ", ".join(f"s{o}_{u} += v{u} * f{o}" for u in vectors) + ";")
    lines.append("    }")
    for o in outs:
        lines.append("    " + ", ".join(f"acc[{o} * pitch + {u}] = s{o}_{u}" for u in vectors) + ";")
    return "\n".join([*lines, "}"])
