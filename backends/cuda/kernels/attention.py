"""Attention at once: the score of a query and a key, and the call of its schedule (templates/attention.cu.j2).

Assumes: an Attention whose rows are blocks of steps, or of keys where the gradients of these are computed.
Guarantees: queries, keys and values, and what stands beside scores, an offset or a mask, are read where they lie.
Does not: choose tiles (compiler/strategies/cuda/fused_attention.py).
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.cuda.kernels.kernel import Function
from backends.kernel_ir.expr import Operand, call, cast, code, cond, form, name
from backends.kernel_ir.stmt import Closure, Do, Leave, Let, Set, Stmt, when
from backends.kernel_ir.tree import Call, Given
from compiler.strategies.cuda import fused_attention

_STEPS, _KEYS = ("query", "context_grad"), ("key", "value")
"""The arrays of both sides in the backward pass."""


def attention(k: Kernel, body: l2.Attention) -> Function:
    """The work of a block."""
    f, back, wide, factors = k.identifiers, "context" not in body.of, body.wide, body.factors
    by_keys = back and "query" not in body.of
    tests = [body.causal, "mask" in body.beside, *([by_keys] if back else [])]
    shape: list[Operand] = [wide, factors, fused_attention.tile(wide, back), *(str(x).lower() for x in tests)]
    sequences, arrays = ["query", *_KEYS], ["context", "norms" if "norms" in body.of else ""]
    if back:
        sequences, results = [*_KEYS, *_STEPS] if by_keys else [*_STEPS, *_KEYS], _KEYS if by_keys else ("query", "")
        arrays = ["context_grad", "context", "norms", *(f"{x}_grad" if x in body.of else "" for x in results)]
    extents = (f[x] for x in ("heads", "steps", "keys", "d", "e", "keys" if by_keys else "steps"))
    schedule = Given(name("nl_attend_back" if back else "nl_attend"), tuple(map(code, shape)))
    given = [call("nl_sequence_of", f[x], f.get(f"{x}_by_step", f["heads"] * f["e"])) for x in sequences]
    given += [f[x] if x else code("(real *)0") for x in arrays] + [f["scale"]] * back
    lines = (
        Let("nl_attention", name("nl_x"), call("nl_attention::of", "nl_me.part", *extents)),
        _score(k, body),
        Do(Call(schedule, (name("nl_x"), *given, name("nl_score")))),
    )
    resident = fused_attention.RESIDENT[factors - 1] if wide <= fused_attention.NARROW else 0
    return Function("", lines, block=fused_attention.THREADS, resident=resident)


def _score(k: Kernel, body: l2.Attention) -> Closure:
    """The score of a step and a key, of the product of what they have."""
    f, score, step, key = k.identifiers, name("nl_z"), name("nl_step"), name("nl_key")
    lines: list[Stmt] = [Set(score, f["scale"], "*=")]
    for x in body.beside:
        by = [f[f"{x}_by_{of}"] for of in ("sample", "head", "step")]
        beside = cast("real", f[x][form("nl_x.sample * {} + nl_x.head * {} + nl_step * {} + nl_key", *by)])
        hidden = when(form("{} == 0", beside), Set(score, "NL_HIDDEN"))
        lines.append(Set(score, beside, "+=") if x == "offset" else hidden)
    lines.append(Leave("return", cond(key > step, "NL_HIDDEN", score) if body.causal else score))
    return Closure("nl_score", [Let("real", score), Let("int", step), Let("int", key)], lines, "real")
