"""tiles: the C functions of register tiles, one for each shape of compiler/strategies/cost/tiles.py.

Assumes: `nl_vec`, `nl_tap` and `NL_LANES` of templates/tiles.c.j2.
Guarantees: every accumulator is a separate variable: gcc's code takes a third less time than with arrays in loops that
it has to unroll first.
Does not: choose shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        *_flowed("    const real ", [f"*const x{u} = x[{u}]" for u in vectors]),
        *_flowed("    const real ", [f"*const w{o} = w[{o}]" for o in outs]),
        *_flowed("    nl_vec ", [f"s{o}_{u} = {kind.start.format(o=o, u=u)}" for o in outs for u in vectors]),
        "#pragma GCC unroll 1",
        f"    {kind.loop}",
        f"        {kind.at}",
        *_flowed("        const nl_vec ", [f"v{u} = *(const nl_vec *)(x{u} + i)" for u in vectors]),
    ]
    for o in outs:
        sums = [f"s{o}_{u} += v{u} * f{o}" for u in vectors]
        lines += _flowed(f"        {kind.factor.format(o=o)} ", sums)
    stores = [f"acc[{o} * pitch + {u}] = s{o}_{u}" for o in outs for u in vectors]
    lines += ["    }", *_flowed("    ", stores)]
    return "\n".join([*lines, "}"])


def _flowed(head: str, parts: Sequence[str]) -> list[str]:
    """One statement of `parts` with commas between them, in lines of at most 120 characters."""
    lines, margin = [head], " " * (len(head) - len(head.lstrip()) + 4)
    for part in parts:
        if len(lines[-1]) + len(part) > 118 and lines[-1] != head:
            lines.append(margin)
        lines[-1] += f"{part}, "
    return [x.rstrip() for x in [*lines[:-1], lines[-1][:-2] + ";"]]
