"""Batched random numbers: those of a flat map, or of the synapses of one source, are generated in chunks.

Assumes: a nest over one PAR dim whose draws have that dim as their index (compiler/ir/level2/program.py, Nest);
statements of a propagation whose draws have the synapse's number as their index, and synapses with consecutive numbers.
Guarantees: the numbers are those of nl_uniform and the like, element for element; a block of four words serves as many
adjacent elements as it has words for (backends/device/philox.h), which a loop over single elements cannot exploit.
Does not: batch Poisson numbers, whose number of words is not known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line, Symbol
from compiler.expr.ast import Call, Expr, Num, Ref, calls, rewrite
from compiler.ir.space import DType

_WORDS: Mapping[str, tuple[int, int]] = {"uniform": (1, 2), "normal": (2, 4), "exponential": (1, 2)}
"""Words that a draw takes in float32 and in float64."""
DRAWS: Final = frozenset({*_WORDS, "poisson"})
SYNAPSES: Final = 64
"""Synapses of one source that are drawn at once, at most."""


def has_draws(e: Expr) -> bool:
    """Whether an expression draws random numbers."""
    return not DRAWS.isdisjoint(calls(e))


@dataclass
class Draws:
    """The draws of one kernel. `scope`: the symbols that replace them in its expressions."""

    buffers: list[Line] = field(default_factory=list)
    fills: list[Line] = field(default_factory=list)
    scope: dict[str, Symbol] = field(default_factory=dict)


def drawn_in_chunks(k: Kernel, nest: l2.Nest, dim: str, index: str, base: str, end: str) -> tuple[l2.Nest, Draws]:
    """The nest with its draws read from buffers, which are filled for the elements from `base` to `end`; `index`: the C
    text of the element's number."""
    draws = Draws()
    real = k.dialect.precision
    suffix = "f64" if real is DType.F64 else "f32"
    found: dict[Expr, str] = {}

    def buffer(e: Call, words: int) -> str:
        name = k.namer.fresh("words")
        key, draw = (k.printer.expr(a, k.scope) for a in (e.args[0], e.args[2]))
        size, first, last = (x if words == 1 else f"{words} * {x}" for x in ("NL_CHUNK", base, end))
        draws.buffers.append(Line(f"nl_u32 {name}[{size} + NL_SLACK] __attribute__((aligned(64)));"))
        draws.fills.append(Line(f"nl_words({name}, {key}, {first}, {last}, (nl_u64)step, {draw}u);"))
        function = f"nl_{e.func}_of_{suffix}"
        k.printer.used.add(function)
        at = f"{index} - {base}"
        parts = [f"{name}[{at}]"] if words == 1 else [f"{name}[{words} * ({at}) + {n}]" for n in range(words)]
        local = f"#{name}"
        draws.scope[local] = Symbol(f"{function}({', '.join(parts)})", real)
        return local

    def put(e: Expr) -> Expr:
        match e:
            case Call(func, (Ref(), Ref(at), Num())) if func in _WORDS and at == dim:
                if e not in found:
                    found[e] = buffer(e, _WORDS[func][real is DType.F64])
                return Ref(found[e])
        return e

    return replace(nest, prologue=rewritten(nest.prologue, put)), draws


def drawn_in_rows(
    k: Kernel, statements: Sequence[l2.Statement], first: str, many: str, t: str
) -> tuple[tuple[l2.Statement, ...], Draws]:
    """The statements at a synapse with their draws read from buffers at `t`, which are filled for the `many` synapses
    from number `first` on (C texts; at most SYNAPSES)."""
    draws = Draws()
    real = k.dialect.precision
    suffix = "f64" if real is DType.F64 else "f32"
    found: dict[Expr, str] = {}

    def buffer(e: Call, words: int) -> str:
        name, made, start = (k.namer.fresh(x) for x in (e.func, "words", "begin"))
        key, draw = (k.printer.expr(a, k.scope) for a in (e.args[0], e.args[2]))
        step = k.printer.expr(e.args[3], k.scope) if len(e.args) > 3 else "step"
        function = f"nl_{e.func}_of_{suffix}"
        k.printer.used.add(function)
        at = f"{words} * ({first} + {t}) - {start}" if words > 1 else f"{first} + {t} - {start}"
        parts = [f"{made}[{at}]", *(f"{made}[{at} + {n}]" for n in range(1, words))]
        size, low, high = (x if words == 1 else f"{words} * {x}" for x in (str(SYNAPSES), first, f"({first} + {many})"))
        draws.fills += [
            Line(f"nl_u32 {made}[{size} + 4 + NL_SLACK] __attribute__((aligned(64)));"),
            Line(f"const nl_i64 {start} = {low} / 4 * 4;"),
            Line(f"nl_words({made}, {key}, {start}, {high}, (nl_u64){step}, {draw}u);"),
            Line(f"{k.dialect.real} {name}[{SYNAPSES}];"),
            Line(f"NL_IVDEP for (nl_i64 {t} = 0; {t} < {many}; {t}++) {name}[{t}] = {function}({', '.join(parts)});"),
        ]
        local = f"#{name}"
        draws.scope[local] = Symbol(f"{name}[{t}]", real)
        return local

    def put(e: Expr) -> Expr:
        match e:
            case Call(func, (Ref(), Ref("syn"), Num(), *_)) if func in _WORDS:
                if e not in found:
                    found[e] = buffer(e, _WORDS[func][real is DType.F64])
                return Ref(found[e])
        return e

    return rewritten(statements, put), draws


def rewritten(statements: Sequence[l2.Statement], fn: Callable[[Expr], Expr]) -> tuple[l2.Statement, ...]:
    """The statements with their expressions rewritten, the outermost first."""

    def one(s: l2.Statement) -> l2.Statement:
        if isinstance(s, l2.Emit):
            return replace(s, when=rewrite(s.when, fn, top_down=True))
        return replace(s, value=rewrite(s.value, fn, top_down=True))

    return tuple(one(s) for s in statements)
