"""The reader of a block: values, defaults, bounds and dimensions come from the description."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE, SourceFile
from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Field,
    Flag,
    ListOf,
    OneKey,
    OneOf,
    Value,
    choice,
)
from compiler.expr.units import TIME
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.scope import Scope
from compiler.frontend.build.shared.values import Context, Names, Step
from compiler.frontend.yaml.tree import Mapping
from compiler.frontend.yaml.yaml12 import load_text

POSITIVE = Value("a whole number", "3", integer=True, low=1)
PART = Value("a number from 0 to 1", "0.2", low=0, high=1, below=True)
SPREAD = Block("initialiser", (Field("std", Value(low=0, above=True), "Spread.", default=0.02),))
BLOCK = Block(
    "thing",
    (
        Field("batch", POSITIVE, "How many.", default=32),
        Field("size", OneOf((POSITIVE, ListOf(POSITIVE, low=2, high=2))), "Extents.", default=1),
        Field("rate", PART, "How much.", default=0),
        Field("scale", Value(), "A factor."),
        Field("seed", Value("a whole number", "0", integer=True, low=0, bits=63), "Seed.", default=0),
        Field("every", Value("a time", "1 ms", low=0, above=True, dimension=TIME), "When.", default="2 ms"),
        Field("bias", Flag(), "Whether.", default=True),
        Field("order", choice("order", fast="Any.", bitwise="One."), "Which.", default="fast"),
        Field("init", OneKey("initialiser", (Alternative("normal", SPREAD, "Normal."),), bare=True), "How."),
        Field("parts", ListOf(SPREAD), "Parts."),
    ),
)
STEP = Step(0.5, NOWHERE)


def read(text: str) -> tuple[Reader, Sink]:
    sink = Sink()
    node = load_text(SourceFile("m.yaml", text), sink)
    assert isinstance(node, Mapping)
    return Reader(BLOCK, node, Context(sink, Names(Scope({}, {}), {}), Path())), sink


def test_defaults_of_absent_keys() -> None:
    r, sink = read("{}")
    assert (r.integer("batch"), r.real("rate"), r.each("size", 2)) == (32, 0.0, (1, 1))
    assert (r.real("every"), r.steps("every", STEP)) == (2.0, 4)
    assert (r.flag("bias"), r.word("order")) == (True, "fast")
    assert (r.real("scale"), r.real("scale", 0.5), r.chosen("init"), [*r.blocks("parts")]) == (None, 0.5, None, [])
    assert r.get("batch") is None and not sink.items


def test_values_in_canonical_units() -> None:
    r, sink = read("{batch: 2 * 4, size: [3, 5], rate: 1 / 4, every: 0.001 s, bias: false, order: bitwise}")
    assert (r.integer("batch"), r.real("rate"), r.each("size", 2)) == (8, 0.25, (3, 5))
    assert (r.real("every"), r.steps("every", STEP)) == (1.0, 2)
    assert (r.flag("bias"), r.word("order"), sink.items) == (False, "bitwise", [])


def test_blocks_below() -> None:
    r, _ = read("{init: {normal: {std: 3}}, parts: [{std: 1}, {}]}")
    found = r.chosen("init")
    assert found is not None and (found[0], found[1].real("std")) == ("normal", 3.0)
    assert [p.real("std") for p in r.blocks("parts")] == [1.0, 0.02]
    found = read("{init: normal}")[0].chosen("init")
    assert found is not None and found[1].real("std") == 0.02


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("{batch: 1 - 1}", "batch", "`batch` must be at least 1; it is 0"),
        ("{batch: 2 ** 31}", "batch", "`batch` must be at most 2,147,483,647; it is 2,147,483,648"),
        ("{batch: 3 / 2}", "batch", "`batch` must be a whole number; it is 1.5"),
        ("{rate: 2 / 2}", "rate", "`rate` must be below 1; it is 1"),
        ("{rate: 0 - 1}", "rate", "`rate` must be at least 0; it is -1"),
        ("{every: 0 ms}", "every", "`every` must be above 0; it is 0 ms"),
        ("{every: 1 mV}", "every", "`every` is a time [ms], but `1 mV` is a voltage [mV]"),
        ("{size: [1, 2 - 2]}", "size", "`size` must be at least 1; it is 0"),
        ("{size: [1, 2, 3]}", "size", "`size` has 3 numbers, but there are 2 dimensions"),
        ("{seed: 1 - 2}", "seed", "`seed` must be at least 0; it is -1"),
    ],
)
def test_one_diagnostic_and_none(text: str, key: str, message: str) -> None:
    r, sink = read(text)
    kind = BLOCK.by_name[key].kind
    whole = isinstance(kind, Value) and kind.integer
    found = r.each(key, 2) if key == "size" else r.integer(key) if whole else r.real(key)
    assert found is None
    assert [d.message for d in sink.items] == [message]


def test_bounds_that_the_model_gives() -> None:
    r, sink = read("{batch: 5}")
    assert r.integer("batch", high=4) is None
    assert [d.message for d in sink.items] == ["`batch` must be at most 4; it is 5"]


def test_times_that_are_no_steps() -> None:
    for text, step in (("{every: 0.7 ms}", STEP), ("{every: 0 ms}", STEP), ("{every: 1 mV}", None)):
        r, sink = read(text)
        assert r.steps("every", step) is None and len(sink.items) == 1


def test_a_key_that_the_language_lacks() -> None:
    with pytest.raises(AssertionError):
        read("{}")[0].get("bacth")
