"""Symbols: names of a model, of passes and of the compiler are different, and a kernel tells what looks alike apart."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args

import pytest

import compiler.ir.level2.program as l2
from compiler.connect import RULE, drawing_of
from compiler.core.symbols import Sym, Way, derived, is_derived, model_name, printed, symbol
from compiler.expr.ast import Expr, Ref, refs
from compiler.ir.level2.meanings import meanings
from compiler.ir.space import DType
from compiler.ir.text import parse_ir, print_ir
from compiler.passes.program.close_kernel import closed

V, GE = symbol("v"), symbol("pool.ge")

LOOKS = {
    V: ("v", "v"),
    GE: ("pool_ge", "pool.ge"),
    symbol("_noise"): ("noise", "_noise"),
    derived(V, Way.NEXT): ("v_next", "v.next"),
    derived(GE, Way.DECAY): ("decay_pool_ge", "pool.ge.decay"),
    derived(V, Way.STAGE, "2"): ("v_2", "v.stage.2"),
    derived(V, Way.SLOPE, "1"): ("k1_v", "v.slope.1"),
    derived(V, Way.P, GE): ("P_v_pool_ge", "v.P.pool.ge"),
    derived(V, Way.P, "1"): ("P_v_1", "v.P.1"),
    derived("held", Way.KEPT): ("held_kept", "held.kept"),
    derived(derived(V, Way.TIMED, "row"), Way.NOW): ("v_timed_row_now", "v.timed.row.now"),
    derived("pool_max", Way.SUM, "2"): ("pool_max_2", "pool_max.sum.2"),
}


@pytest.mark.parametrize("name", LOOKS, ids=str)
def test_text(name: Sym) -> None:
    assert (printed(name), model_name(name)) == LOOKS[name]


def test_names_that_look_alike_are_different() -> None:
    alike = ["v_next", symbol("v_next"), derived("v", Way.NEXT), derived(V, Way.NEXT)]
    assert len({*alike}) == len(alike) and {printed(x) for x in alike} == {"v_next"}
    assert [is_derived(x, Way.NEXT) for x in alike] == [False, False, True, True]
    assert not is_derived(derived(V, Way.NEXT), Way.KEPT)


@pytest.mark.parametrize("name", LOOKS, ids=str)
def test_text_of_the_ir(name: Sym) -> None:
    """As a target, within an expression beside a name of the compiler that looks the same, and as a key."""
    statement = l2.Assign(name, Ref(name) * Ref("symbol") - Ref(printed(name)) / Ref(V))
    assert parse_ir(print_ir(statement)) == statement
    read = parse_ir(print_ir((name, {name: 1})))
    assert read == (name, {name: 1}) and type(read[0]) is Sym and type(next(iter(read[1]))) is Sym


def _looks(formals: list[str], *statements: l2.Statement) -> tuple[list[str], tuple[l2.Statement, ...]]:
    made = tuple(l2.ArrayFormal(n, DType.F32, l2.Mode.UPDATE, l2.ELEMENT) for n in formals)
    done, body, names = closed((*made, l2.ScalarFormal("n", DType.I64)), l2.Nest((l2.Dim("i", "n"),), statements))
    assert isinstance(body, l2.Nest) and not any(isinstance(f.name, Sym) for f in done)
    assert [f.name for f in done[:-1]] == [names.get(f, f) for f in formals]
    return [f.name for f in done[:-1]], body.prologue


def test_a_kernel_tells_them_apart() -> None:
    """The compiler's names stay, the user's come first among symbols: here a dim, a column, the step, a derived one."""
    following = derived(V, Way.NEXT)
    formals = [symbol("i"), symbol("n"), symbol("step"), V, "v_next_", following, symbol("v_next")]
    looks, (one, two) = _looks(
        [*formals],
        l2.Assign(following, Ref(V) + Ref(symbol("step")) * Ref("step")),
        l2.Assign(V, Ref(following) + Ref(symbol("v_next"))),
    )
    assert looks == ["i_", "n_", "step_", "v", "v_next_", "v_next__", "v_next"]
    assert one == l2.Assign("v_next__", Ref("v") + Ref("step_") * Ref("step"))
    assert two == l2.Assign("v", Ref("v_next__") + Ref("v_next"))


def test_accesses_have_the_same_names() -> None:
    row, stride = derived(V, Way.TIMED, "row"), symbol("n")
    access = l2.Strided((l2.Axis(((row, 1),), stride=stride), l2.Axis((("i", 1),))))
    formals = (
        l2.ArrayFormal(V, DType.F32, l2.Mode.READ, access),
        l2.ScalarFormal(stride, DType.I64),
        l2.ScalarFormal("n", DType.I64),
    )
    done, _, _ = closed(formals, l2.Nest((l2.Dim("i", "n"),), (l2.Assign(row, Ref("step")),)))
    assert done[0] == l2.ArrayFormal(
        "v",
        DType.F32,
        l2.Mode.READ,
        l2.Strided((l2.Axis((("v_timed_row", 1),), stride="n_"), l2.Axis((("i", 1),)))),
    )


def test_a_kernel_without_symbols_is_as_it_was() -> None:
    formals, body = (l2.ScalarFormal("n", DType.I64),), l2.Nest((l2.Dim("i", "n"),), (l2.Assign("x", Ref("n")),))
    assert closed(formals, body) == (formals, body, {})


def _names(x: object) -> set[str]:
    if isinstance(x, get_args(Expr)):
        return refs(x)
    parts = x if isinstance(x, tuple) else [getattr(x, f.name) for f in fields(x)] if is_dataclass(x) else []
    return set[str]().union(*map(_names, parts))


@pytest.mark.parametrize("rule", [r for r in RULE if drawing_of(r) is not None])
def test_what_a_rule_draws_from_has_a_meaning(rule: str) -> None:
    """So that a parameter of an expression rule is never taken for it."""
    read = _names(drawing_of(rule))
    assert read and read <= meanings(l2.Connect(rule, "fill"))
    assert read - {"key"} <= meanings(l2.Propagate(l2.Every("n"), l2.Procedural(rule, "row"), ())) | {"row"}
