"""The text of the IR: its format, and the round trip of printing and parsing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.core.source import SourceFile, Span
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary
from compiler.ir.digest import bind, canonical, digest
from compiler.ir.level0 import model
from compiler.ir.level1 import graph
from compiler.ir.level2 import program
from compiler.ir.level2.program import (
    ELEMENT,
    SCALAR,
    Add,
    Array,
    ArrayFormal,
    Assign,
    At,
    Axis,
    Bitmask,
    ByName,
    ColumnValue,
    Connect,
    Csr,
    Dense,
    Dim,
    DimKind,
    Emit,
    EmitScheduled,
    Events,
    Every,
    Kernel,
    Lanes,
    Launch,
    Mode,
    Nest,
    OneToOne,
    Order,
    Phase,
    Procedural,
    Program,
    Propagate,
    RecordEvents,
    RecordTrace,
    Rows,
    ScalarFormal,
    SizeOf,
    Statement,
    StreamKey,
    Strided,
    Toeplitz,
)
from compiler.ir.space import Affine, DType, Role
from compiler.ir.text import print_ir
from tests.parse_ir import IRTextError, parse_ir

LIF = Kernel(
    "exc: neuron update",
    (
        ArrayFormal("v", DType.F32, Mode.UPDATE, ELEMENT),
        ArrayFormal("spikes", DType.I32, Mode.WRITE, ByName()),
        ArrayFormal("count", DType.I32, Mode.WRITE, ByName()),
        ScalarFormal("n", DType.I64),
        ScalarFormal("slots", DType.I64),
        ScalarFormal("decay", DType.F32),
        ScalarFormal("key", DType.U64),
    ),
    Nest(
        (Dim("i", "n"),),
        (
            Assign("v", Binary("*", Ref("v"), Ref("decay"))),
            Assign("spiked", Binary(">", Ref("v"), Num(1.0))),
            Assign("v", Cond(Ref("spiked"), Num(0.0), Ref("v"))),
            Emit("spikes", "count", "slots", Ref("spiked")),
        ),
    ),
    Rows(
        2,
        {
            "v": ("exc.v", "inh.v"),
            "spikes": ("exc.spikes", "inh.spikes"),
            "count": ("exc.spike_count", "inh.spike_count"),
        },
        {
            "n": np.array([3200, 800]),
            "slots": (3, SizeOf("a -> b")),
            "decay": np.array([0.1, 1 / 3]),
            "key": (StreamKey("exc/lif"), StreamKey("inh/lif")),
        },
        ("exc", "inh"),
    ),
)

LIF_TEXT = """\
Kernel(
  name="exc: neuron update",
  formals=[
    ArrayFormal(v, f32, rw, @[<i>]),
    ArrayFormal(spikes, i32, w, @whole),
    ArrayFormal(count, i32, w, @whole),
    ScalarFormal(n, i64),
    ScalarFormal(slots, i64),
    ScalarFormal(decay, f32),
    ScalarFormal(key, u64),
  ],
  body=Nest(
    dims=[Dim(i, n)],
    prologue=[
      v := `v * decay`,
      spiked := `v > 1.0`,
      v := `0.0 if spiked else v`,
      Emit(spikes, count, slots, `spiked`),
    ],
  ),
  rows=Rows(
    count=2,
    arrays={
      v: [exc.v, inh.v],
      spikes: [exc.spikes, inh.spikes],
      count: [exc.spike_count, inh.spike_count],
    },
    scalars={
      n: #i64[3200, 800],
      slots: [3, SizeOf("a -> b")],
      decay: #f64[0.1, 0.3333333333333333],
      key: [StreamKey("exc/lif"), StreamKey("inh/lif")],
    },
    paths=[exc, inh],
  ),
)"""


def test_a_kernel_reads_well() -> None:
    assert print_ir(LIF) == LIF_TEXT


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Assign("v", Binary("+", Ref("v"), Num(1))), "v := `v + 1`"),
        (Add("g", Ref("w")), "g += `w`"),
        (model.Set("post.y", Num(0.5)), "post.y <- `0.5`"),
        (ELEMENT, "@[<i>]"),
        (SCALAR, "@[]"),
        (At("post"), "@post"),
        (ByName(), "@whole"),
        (
            Strided((Axis((("oy", 2), ("ky", -1)), "pad", 2, "h", "w"), Axis((("x", -3),), -1, 1, 7))),
            "@[<2*oy - ky; pad>/2:h*w, <-3*x; -1>:7]",
        ),
        (Strided((Axis((), 3), Axis((("a b", 1),)))), '@[<; 3>, <"a b">]'),
        (Affine((("o", 2), ("k", 1)), -1, 2), "<2*o + k; -1>/2"),
        (Affine(), "<>"),
        (Num(math.inf), "Num(inf)"),
        (Binary("<", Ref("x"), Num(-math.inf)), "Binary(<, `x`, Num(-inf))".replace("<", '"<"')),
        (Quantity(20, "ms"), "``20 ms``"),
        (Ref("a->b"), 'Ref("a->b")'),
        (Unary("-", Num(2)), "`-(2)`"),
        (Array("a.b", DType.F32, (2, -1), Role.STATE, Lanes(8)), "Array(a.b, f32, [2, -1], state, layout=Lanes(8))"),
        (Array("true", DType.U8, (), Role.DATA), 'Array("true", u8, [], data)'),
        (ScalarFormal('say "hi"\n', DType.I64), 'ScalarFormal("say \\"hi\\"\\n", i64)'),
        (graph.Contract, None),
    ],
    ids=str,
)
def test_small_forms(node: object, text: str | None) -> None:
    if text is None:  # a class, not a node
        with pytest.raises(TypeError, match="not a node of the IR"):
            print_ir(node)
        return
    assert print_ir(node) == text
    again = parse_ir(text)
    assert again == node and type(again) is type(node)


def test_enumerations_and_numbers_come_back_as_what_they_were() -> None:
    again = parse_ir(print_ir(LIF))
    assert again == LIF
    assert type(again.order) is Order
    assert type(again.formals[0].dtype) is DType and type(again.formals[0].mode) is Mode
    assert again.rows.scalars["n"].dtype == np.int64
    assert again.rows.scalars["decay"].tobytes() == LIF.rows.scalars["decay"].tobytes()  # type: ignore[union-attr]
    fill = Nest((), fill=math.nan)
    assert parse_ir(print_ir(fill)) == fill
    for value in (1, 1.0, True, -0.0, 5e-324, 1e22, math.inf):
        made = parse_ir(print_ir(model.Const(value)))
        assert type(made.value) is type(value) and repr(made.value) == repr(value)


def test_spans_are_dropped() -> None:
    span = Span(SourceFile("a.yaml", "x: 1"), 0, 1)
    assert print_ir(Assign("v", Num(1, span), span)) == "v := `1`"


def test_constants_are_printed_unless_they_are_not_wanted() -> None:
    arrays = {
        "a": np.array([[0, 255], [1, 2]], np.uint8),
        "b": np.array([0.1, np.inf, -np.inf, np.nan, 1e-45], np.float32),
        "c": np.array([True, False]),
        "d": np.array([], np.int64),
    }
    it = Program("p", DType.F32, Order.FAST, (), (), (), arrays)
    again = parse_ir(print_ir(it))
    assert again.constants.keys() == arrays.keys()
    for name, values in arrays.items():
        assert again.constants[name].dtype == values.dtype
        np.testing.assert_array_equal(again.constants[name], values)
    assert parse_ir(print_ir(it, constants=False)).constants == {}


def test_lines_stay_within_their_width() -> None:
    numbers = np.arange(1000)
    text = print_ir(Rows(1000, {"a": tuple(f"array_{i}" for i in range(1000))}, {"n": numbers}))
    assert max(map(len, text.splitlines())) <= 110
    assert len(text.splitlines()) < 250
    assert parse_ir(text).scalars["n"].tolist() == numbers.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Dim(i, n", "line 1, column 9: `)` is expected here, not `the end`"),
        ("Dim(i,\n  n) x", "line 2, column 6: `the end` is expected here, not `x`"),
        ("Dim(i)", "line 1, column 7: `Dim` lacks `extent`"),
        ("Dimm(i)", "line 1, column 5: there is no node `Dimm`"),
        ("Contract(i)", "write graph.Contract or program.Contract"),
        ("Dim(i, n, par, word, 4)", "`Dim` has 4 fields"),
        ("Dim(i, name=j)", "`name` is given twice"),
        ("Dim(i, exten=j)", "there is no field `exten`"),
        ("Dim(i, n, kind=parr)", "`parr` is not one of the values of DimKind"),
        ("v := `v +`", "column 6: the expression ends too early"),
        ("v := ;", "`;` cannot stand here"),
        ("?", "line 1, column 1: `?` cannot stand here"),
        ("<2*>", "a name is expected here, not `>`"),
        ("", "`the end` cannot stand here"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(IRTextError) as caught:
        parse_ir(text)
    assert message in str(caught.value)


# --------------------------------------------------------------------------------- round trip

WORDS = st.one_of(
    st.sampled_from(["v", "exc.v", "a b", "e->f[0]", "none", "inf", "", "ü", '"', "if", "f32"]),
    st.text(max_size=6),
)
NAMES = st.sampled_from(["v", "w_1", "post.y", "x0", "step"])
REALS = st.floats(allow_nan=False)
EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(
    st.one_of(
        st.builds(Num, st.one_of(st.integers(-(10**18), 10**18), REALS)),
        st.builds(Bool, st.booleans()),
        st.builds(Ref, NAMES),
    ),
    lambda e: st.one_of(
        st.builds(Unary, st.sampled_from(["-", "not"]), e),
        st.builds(
            Binary, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "and", "or"]), e, e
        ),
        st.builds(Cond, e, e, e),
        st.builds(Call, st.sampled_from(["exp", "min", "uniform"]), st.tuples(e, e)),
    ),
    max_leaves=12,
)
SPANLESS = {"span": st.just(Span(SourceFile("x", ""), 0, 0))}
AXES = st.builds(
    Axis,
    st.lists(st.tuples(NAMES, st.integers(-9, 9).filter(bool)), max_size=3).map(tuple),
    st.one_of(st.integers(-5, 5), NAMES),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(0, 9), NAMES),
    st.one_of(st.integers(-3, 99), NAMES),
)
ACCESSES = st.one_of(st.builds(Strided, st.lists(AXES, max_size=3).map(tuple)), st.builds(At, WORDS), st.builds(ByName))
STATEMENTS: st.SearchStrategy[Statement] = st.one_of(
    st.builds(Assign, NAMES, EXPRESSIONS),
    st.builds(Add, WORDS, EXPRESSIONS),
    st.builds(Emit, WORDS, WORDS, WORDS, EXPRESSIONS),
)
BODIES = st.one_of(
    st.builds(
        Nest,
        st.lists(st.builds(Dim, WORDS, st.one_of(st.integers(), WORDS), st.sampled_from(DimKind)), max_size=3).map(
            tuple
        ),
        st.lists(STATEMENTS, max_size=3).map(tuple),
        st.sampled_from([None, "add"]),
        st.one_of(st.none(), EXPRESSIONS),
        WORDS,
        st.lists(STATEMENTS, max_size=2).map(tuple),
        REALS,
    ),
    st.builds(
        Propagate,
        st.one_of(st.builds(Events, *[WORDS] * 5), st.builds(Every, WORDS)),
        st.one_of(
            st.builds(Csr, WORDS, WORDS, st.one_of(st.none(), WORDS)),
            st.builds(Dense, WORDS, WORDS, st.booleans()),
            st.just(OneToOne()),
            st.builds(Bitmask, WORDS, WORDS),
            st.builds(Procedural, WORDS, WORDS),
            st.builds(Toeplitz, st.just((3, 2)), st.just((1, 2)), st.booleans()),
        ),
        st.lists(STATEMENTS, max_size=2).map(tuple),
        st.sampled_from(["pre", "post"]),
    ),
    st.builds(Connect, WORDS, WORDS),
    st.builds(RecordTrace, EXPRESSIONS),
    st.just(RecordEvents()),
    st.just(EmitScheduled()),
)
VALUES: st.SearchStrategy[ColumnValue] = st.one_of(
    st.integers(), REALS, st.builds(SizeOf, WORDS), st.builds(StreamKey, WORDS)
)
ROWS = st.builds(
    Rows,
    st.integers(0, 3),
    st.dictionaries(WORDS, st.lists(WORDS, max_size=3).map(tuple), max_size=3),
    st.dictionaries(
        WORDS,
        st.one_of(
            st.lists(VALUES, max_size=3).map(tuple),
            st.lists(REALS, max_size=3).map(lambda x: np.array(x, np.float64)),
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(lambda x: np.array(x, np.int64)),
        ),
        max_size=3,
    ),
    st.lists(WORDS, max_size=2).map(tuple),
)
KERNELS = st.builds(
    Kernel,
    WORDS,
    st.lists(
        st.one_of(
            st.builds(ArrayFormal, WORDS, st.sampled_from(DType), st.sampled_from(Mode), ACCESSES),
            st.builds(ScalarFormal, WORDS, st.sampled_from(DType)),
        ),
        max_size=3,
    ).map(tuple),
    BODIES,
    ROWS,
    st.sampled_from(Order),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(KERNELS)
def test_any_kernel_comes_back(kernel: Kernel) -> None:
    assert parse_ir(print_ir(kernel)) == kernel


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_any_expression_comes_back(e: Expr) -> None:
    assert parse_ir(print_ir(e)) == e


def test_levels_0_and_1_come_back() -> None:
    decay = Ref("tau")
    neuron = model.NeuronDef(
        "lif",
        (model.ParamDecl("tau", "ms", model.Const(20.0), 'the "time" constant'),),
        (model.StateDecl("v", "mV", model.Formula(Binary("*", Ref("tau"), Num(2)))),),
        (model.InputDecl("ge", "mV", decay), model.InputDecl("raw", "mV", None)),
        (model.Set("x", Num(1)),),
        (model.Ode("v", Unary("-", Binary("/", Ref("v"), decay))),),
        (),
        model.Spike(Binary(">", Ref("v"), Num(1.0)), (model.Set("v", Num(0.0)),), None, ("v",)),
        model.Method.AUTO,
    )
    population = model.Population("exc", neuron, 3, (("tau", model.Listed((1.0, 2.0, 3.0))),), (("v", model.Const(0)),))
    layer = model.Layer(
        "conv2d", "c1", ("x",), (("kernel", (3, 3)), ("bias", True), ("rate", 0.5)), "relu", None, (4, 2)
    )
    whole = model.Model(
        "m",
        "two\nlines",
        (model.ModelParam("n", "int", 3),),
        (model.FunctionDef("relu", ("x",), Call("max", (Ref("x"), Num(0)))),),
        (population,),
        (
            model.Projection(
                "p",
                "pairs",
                "ge",
                (model.Member("exc", "exc", (), model.Const(-0.5), 1, 0),),
                (((0, 1), (2, 0)),),
            ),
        ),
        model.Simulate(0.1, 100, 0, 1),
        (model.RecordSpikes(("exc",)),),
        (model.RecordTraces("exc", ("v",), (0, 2), 10),),
        model.Network((model.TensorInput("x", (1, 8), "real"),), (layer,)),
        None,
        (model.Plot("raster", (("from", ("exc",)), ("width", 3.5))),),
        (model.Expectation("rate", (("of", "exc"), ("at_most", 0.1))),),
        model.Numerics(),
    )
    again = parse_ir(print_ir(whole))
    assert again == whole
    assert type(again.populations[0].neuron.method) is model.Method
    out = graph.Tensor("y", (4, 2), "real", True)
    tensors = graph.TensorGraph(
        "train",
        (
            graph.Feed(graph.Tensor("x", (4, 3), batched=True), "data.x", 1 / 255),
            graph.Weight(graph.Tensor("w", (2, 3)), "glorot_uniform", (3.0, 2.0)),
            graph.Contract(
                out,
                (("n", 4), ("o", 2), ("k", 3)),
                (Affine((("n", 1),)), Affine((("o", 1),))),
                ("x", "w"),
                ((Affine((("n", 1),)), Affine((("k", 1),), -1, 2)), (Affine((("o", 1),)), Affine((("k", 1),)))),
                Binary("*", Ref("x0"), Ref("x1")),
                fill=-math.inf,
            ),
            graph.Map(out, ("y",), ((0, None),), Call("exp", (Ref("x0"),))),
            graph.Update("w", "dw", (("rate", 0.1),), (("m", 0.0),), (model.Set("param", Ref("m")),)),
        ),
        ("y",),
    )
    text = print_ir(tensors)
    assert "graph.Contract(" in text
    assert parse_ir(text) == tensors


# ------------------------------------------------------------------------------------- digest


def renamed(kernel: Kernel, names: dict[str, str]) -> Kernel:
    """The kernel with names replaced in its text, word by word."""
    import re

    text = re.sub(r"(?<![\w.])(\w+)(?![\w.(])", lambda m: names.get(m[1], m[1]), print_ir(kernel))
    again = parse_ir(text)
    assert isinstance(again, Kernel)
    return again


def test_names_do_not_enter_the_digest() -> None:
    other = renamed(LIF, {"v": "potential", "spiked": "fired", "i": "neuron", "decay": "p11", "n": "size"})
    assert other != LIF and other.formals != LIF.formals
    assert digest(other) == digest(LIF)
    assert canonical(LIF).startswith("reproducible (ArrayFormal(f0,f32,rw,Strided((Axis(((d0,1)),0,1,None,1)))),")
    assert "Assign(f0,(* f0 f5))" in canonical(LIF)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v * decay", "v * v"),
        ("v > 1.0", "v > 1"),
        ("v > 1.0", "v >= 1.0"),
        ("f32, rw", "f32, w"),
        ("f32, rw", "f64, rw"),
        ("@[<i>]", "@[<2*i>]"),
        ("@[<i>]", "@[<i>*slots]"),
        ("Dim(i, n)", "Dim(i, slots)"),
        ("Dim(i, n)", "Dim(i, n, red)"),
        ("spiked := `v", "v := `v"),
        ("Emit(spikes, count", "Emit(count, spikes"),
        ("prologue=[", "fill=1.0, prologue=["),
        ("rows=Rows", "order=bitwise, rows=Rows"),
    ],
)
def test_everything_else_does(old: str, new: str) -> None:
    assert old in LIF_TEXT
    assert digest(parse_ir(LIF_TEXT.replace(old, new))) != digest(LIF)


def test_rows_names_and_spans_do_not_enter_the_digest() -> None:
    text = LIF_TEXT.replace("0.1,", "0.2,").replace("exc: neuron update", "x").replace("inh.v", "j.v")
    assert digest(parse_ir(text)) == digest(LIF)


def test_names_that_bodies_look_up_stay() -> None:
    def trace(buffer: str, source: str) -> Kernel:
        formals = (
            ArrayFormal(source, DType.F32, Mode.READ, ELEMENT),
            ArrayFormal(buffer, DType.F32, Mode.UPDATE, ByName()),
        )
        return Kernel("t", formals, RecordTrace(Ref(source)), Rows(0, {}, {}))

    assert digest(trace("buffer", "a")) == digest(trace("buffer", "b"))
    assert digest(trace("buffer", "a")) != digest(trace("other", "a"))


def test_bind_gives_one_row() -> None:
    template = program.Template(0, "x", digest(LIF), LIF.formals, LIF.body, LIF.order)
    one = bind(template, LIF.rows, 1)
    assert one.rows == Rows(
        1,
        {"v": ("inh.v",), "spikes": ("inh.spikes",), "count": ("inh.spike_count",)},
        {
            "n": np.array([800]),
            "slots": (SizeOf("a -> b"),),
            "decay": np.array([1 / 3]),
            "key": (StreamKey("inh/lif"),),
        },
        ("inh",),
    )
    assert digest(one) == digest(LIF)
    with pytest.raises(IndexError):
        bind(template, LIF.rows, 2)


def test_a_program_comes_back() -> None:
    whole = Program(
        "p",
        DType.F32,
        Order.REPRODUCIBLE,
        (Array("exc.v", DType.F32, (3200,), Role.STATE, unit="mV"),),
        (LIF,),
        (Phase("step", (Launch(0, 0, 2), Launch(0, 0, 1, every=10, offset=3))),),
    )
    assert parse_ir(print_ir(whole)) == whole
