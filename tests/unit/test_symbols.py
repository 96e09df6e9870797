"""Symbols: names of a model, of passes and of the compiler are different, and emitted text tells what looks alike
apart."""

from __future__ import annotations

import copy
import pickle

import pytest

import compiler.ir.level2.program as l2
from backends.c_family.access import open_kernel
from backends.c_family.cprint import Dialect
from compiler.core.symbols import Sym, Way, derived, is_derived, model_name, printed, spelled, symbol
from compiler.expr.ast import Ref
from compiler.ir.space import DType
from compiler.ir.text import print_ir
from tests.parse_ir import parse_ir

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


@pytest.mark.parametrize("name", LOOKS, ids=str)
def test_a_spelling_is_read_back(name: Sym) -> None:
    for found in (spelled(name), pickle.loads(pickle.dumps(name)), copy.deepcopy(name)):
        assert found == name and (found.base, found.way, found.arg) == (name.base, name.way, name.arg)
        assert type(found.base) is type(name.base) and type(found.arg) is type(name.arg)


def _identifiers(*names: str) -> list[str]:
    """What the formals of a kernel are called in C."""
    made = tuple(l2.ArrayFormal(n, DType.F32, l2.Mode.UPDATE, l2.ELEMENT) for n in names)
    body = l2.Nest((l2.Dim("i", "n"),), ())
    formals = (*made, l2.ScalarFormal("n", DType.I64))
    template = l2.Template(0, "a: test", "", formals, body, l2.Order.BITWISE)
    k = open_kernel(template, Dialect(DType.F32))
    return [k.fields[n].text for n in names]


def test_identifiers_tell_them_apart() -> None:
    """They are distinct, whatever looks like what; the user's look as in the model where nothing else does."""
    following = derived(V, Way.NEXT)
    names = [symbol("i"), symbol("step"), V, "v_next", following, symbol("v_next"), symbol("n")]
    found = _identifiers(*names)
    assert found == ["i_", "step_", "v_", "v_next_", "v_next_2_", "v_next_3_", "n_"]
    assert _identifiers("n_pre", symbol("n_pre")) == ["n_pre_", "n_pre_2_"]
