"""Batched random numbers: those of a flat map, or of the synapses of one source, are generated in chunks.

Assumes: a nest over one PAR dim whose draws have that dim as their index (compiler/ir/level2/program.py, Nest);
statements of a propagation whose draws have the synapse's number as their index, and synapses with consecutive numbers.
Guarantees: the numbers are those of nl_uniform and the like, element for element; a block of four words serves as many
adjacent elements as it has words for (backends/device/philox.h), which a loop over single elements cannot exploit.
Does not: batch Poisson and binomial counts, whose number of words is not known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Symbol
from backends.c_family.point_nest import rewritten
from backends.kernel_ir.expr import call, cast, code, form, name
from backends.kernel_ir.stmt import Do, For, Kind, Let, Set, Stmt
from backends.kernel_ir.tree import Code
from compiler.expr.ast import Call, Expr, Num, Ref, calls
from compiler.expr.functions import COUNTS
from compiler.ir.space import DType

_WORDS: Mapping[str, tuple[int, int]] = {"uniform": (1, 2), "normal": (2, 4), "exponential": (1, 2)}
"""Words that a draw takes in float32 and in float64."""
DRAWS: Final = frozenset({*_WORDS, *COUNTS})
CHUNK: Final = name("NL_CHUNK")
VECTOR: Final = 64
"""Bytes of the largest vectors."""
SYNAPSES: Final = 64
"""Synapses of one source that are drawn at once, at most."""


def has_draws(e: Expr) -> bool:
    """Whether an expression draws random numbers."""
    return not DRAWS.isdisjoint(calls(e))


@dataclass
class Draws:
    """The draws of one kernel. `scope`: the symbols that replace them in its expressions."""

    buffers: list[Stmt] = field(default_factory=list)
    fills: list[Stmt] = field(default_factory=list)
    scope: dict[str, Symbol] = field(default_factory=dict)


def _put(
    k: Kernel, draws: Draws, at: str, most: int, buffer: Callable[[Call, int], tuple[Code, Code]]
) -> Callable[[Expr], Expr]:
    """The rewriting of draws whose index is `at`, of at `most` so many arguments, each with a `buffer` of its own: its
    name, and a draw from it."""
    real = k.dialect.precision
    found: dict[Expr, str] = {}

    def put(e: Expr) -> Expr:
        match e:
            case Call(func, (Ref(), Ref(index), Num(), *_) as args) if (
                func in _WORDS and index == at and len(args) <= most
            ):
                if e not in found:
                    held, drawn = buffer(e, _WORDS[func][real is DType.F64])
                    found[e] = f"#{held}"
                    draws.scope[found[e]] = Symbol(drawn, real)
                return Ref(found[e])
        return e

    return put


def drawn_in_chunks(k: Kernel, nest: l2.Nest, dim: str, index: Code, base: Code, end: Code) -> tuple[l2.Nest, Draws]:
    """The nest with its draws read from buffers, which are filled for the elements from `base` to `end`; `index`: the
    element's number."""
    draws = Draws()

    def buffer(e: Call, words: int) -> tuple[Code, Code]:
        held = k.namer.fresh("words")
        key, draw = (k.dialect.expr(a, k.scope) for a in (e.args[0], e.args[2]))
        size, first, last = (words * x if words > 1 else x for x in (CHUNK, base, end))
        draws.buffers.append(Let("nl_u32", held[form("{} + NL_SLACK", size)], aligned=VECTOR))
        draws.fills.append(Do(call("nl_words", held, key, first, last, cast("nl_u64", STEP), code(f"{draw}u"))))
        at = index - base
        parts = [held[words * at], *(held[words * at + n] for n in range(1, words))]
        return held, k.dialect.call(f"{e.func}_of", k.dialect.precision, *parts)

    return replace(nest, prologue=rewritten(nest.prologue, _put(k, draws, dim, 3, buffer))), draws


def drawn_in_rows(
    k: Kernel, statements: Sequence[l2.Statement], first: Code, many: Code, t: Code
) -> tuple[tuple[l2.Statement, ...], Draws]:
    """The statements at a synapse with their draws read from buffers at `t`, which are filled for the `many` synapses
    from number `first` on (at most SYNAPSES)."""
    draws = Draws()

    def buffer(e: Call, words: int) -> tuple[Code, Code]:
        held, made, start = (k.namer.fresh(x) for x in (e.func, "words", "begin"))
        key, draw = (k.dialect.expr(a, k.scope) for a in (e.args[0], e.args[2]))
        step = k.dialect.expr(e.args[3], k.scope) if len(e.args) > 3 else STEP
        at = form("{} * ({} + {}) - {}", words, first, t, start) if words > 1 else first + t - start
        parts = [made[at], *(made[form("{} + {}", at, n)] for n in range(1, words))]
        size, low, high = (words * x if words > 1 else x for x in (code(SYNAPSES), first, first + many))
        draw_one = Set(held[t], k.dialect.call(f"{e.func}_of", k.dialect.precision, *parts))
        draws.fills += [
            Let("nl_u32", made[form("{} + 4 + NL_SLACK", size)], aligned=VECTOR),
            Let("nl_i64", start, low / 4 * 4),
            Do(call("nl_words", made, key, start, high, form("(nl_u64){}", step), code(f"{draw}u"))),
            Let(k.dialect.real, held[SYNAPSES]),
            For(t, 0, many, [draw_one], kind=Kind.LANES),
        ]
        return held, held[t]

    return rewritten(statements, _put(k, draws, "syn", 4, buffer)), draws
