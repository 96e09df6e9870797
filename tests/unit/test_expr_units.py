"""Units, dimensions and their check through expressions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import Diagnostic, Sink
from compiler.core.source import SourceFile, Span
from compiler.expr.ast import Expr, Num, Quantity, show
from compiler.expr.check import check_assignable, erase, infer_dimension
from compiler.expr.parse import parse_expr
from compiler.expr.units import (
    CAPACITANCE,
    CONDUCTANCE,
    CURRENT,
    DIMENSIONLESS,
    FREQUENCY,
    LENGTH,
    SUBSTANCE,
    TEMPERATURE,
    TIME,
    UNITS,
    VOLTAGE,
    Dimension,
    canonical_name,
    describe,
    parse_unit,
    to_canonical,
)


def tree_of(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, Span(SourceFile("m.yaml", text), 0, len(text)), sink)
    assert tree is not None, sink.items
    return tree


def test_table_agrees_with_pint() -> None:
    """Every symbol of the table has pint's meaning: the same dimension and the same scale."""
    import pint

    registry: Any = pint.UnitRegistry(non_int_type=Fraction)
    canonical = (
        ("kilogram", -12),
        ("meter", -6),
        ("second", -3),
        ("ampere", -12),
        ("kelvin", 0),
        ("mole", -18),
        ("candela", 0),
    )
    unknown = []
    for symbol, (dimension, scale) in UNITS.items():
        try:
            base = registry.Quantity(Fraction(1), symbol).to_base_units()
        except pint.UndefinedUnitError:
            unknown.append(symbol)
            continue
        expected = registry.Quantity(Fraction(1))
        for (name, ten), power in zip(canonical, dimension.exponents, strict=True):
            expected *= registry.Quantity(Fraction(10) ** ten, name) ** int(power)
        ratio = (base / expected).to_base_units()
        if dimension.dimensionless:
            assert symbol == "rad"
            continue
        assert ratio.dimensionless, symbol
        assert ratio.magnitude == scale, symbol
    assert unknown == [s for s in UNITS if s.endswith("Ohm")]


@pytest.mark.parametrize(
    ("value", "unit", "canonical"),
    [
        (20, "ms", 20.0),
        (-65, "mV", -65.0),
        (0.1, "ms", 0.1),
        (87.808493529, "pA", 87.808493529),
        (1, "s", 1000.0),
        (8, "Hz", 0.008),
        (0.1, "s", 100.0),
        (1.1, "s", 1100.0),
        (0.3, "nA", 300.0),
        (0.7, "uF", 0.7e6),
        (1, "uF/cm**2", 0.01),
        (36, "mS/cm**2", 0.36),
        (1, "Mohm", 0.001),
        (1, "GΩ", 1.0),
        (2, "µm", 2.0),
        (1, "mM", 1.0),
        (1, "mol/L", 1000.0),
        (1, "min", 60000.0),
        (2, "1/s", 0.002),
        (5, "mV*ms/pA", 5.0),
        (1, "kg", 1e12),
        (1, "(mV/ms)**2", 1.0),
        (3, "s**-1", 0.003),
        (-0.0, "s", -0.0),
    ],
)
def test_exact_conversion(value: float, unit: str, canonical: float) -> None:
    assert repr(to_canonical(value, unit)) == repr(canonical)


def test_system_is_coherent() -> None:
    for text, dimension in (
        ("mV", VOLTAGE),
        ("pA", CURRENT),
        ("nS", CONDUCTANCE),
        ("pF", CAPACITANCE),
        ("GOhm", VOLTAGE / CURRENT),
        ("fC", CURRENT * TIME),
        ("aJ", VOLTAGE * CURRENT * TIME),
        ("mM", SUBSTANCE / LENGTH**3),
    ):
        assert parse_unit(text) == (dimension, Fraction(1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "mV/",
        "mV//ms",
        "(mV",
        "mV)",
        "degC",
        "mV ms",
        "2",
        "mV**x",
        "1e3",
        "ms)",
        "ms**1000",
        "mV+ms",
        "(" * 50 + "s" + ")" * 50,
    ],
)
def test_not_units(text: str) -> None:
    assert parse_unit(text) is None


def test_rare_units_come_from_pint() -> None:
    assert parse_unit("inch") == (LENGTH, Fraction(25400))
    assert parse_unit("mmHg") is not None
    assert parse_unit("percent") == (DIMENSIONLESS, Fraction(1, 100))


POWERS = st.integers(-3, 3)


@settings(deadline=None)
@given(st.tuples(*[POWERS] * 7))
def test_canonical_names_read_back(exponents: tuple[int, ...]) -> None:
    dimension = Dimension(exponents)
    assert parse_unit(canonical_name(dimension)) == (dimension, Fraction(1))


@pytest.mark.parametrize(
    ("dimension", "unit", "text"),
    [
        (VOLTAGE, "mV", "a voltage [mV]"),
        (FREQUENCY, "1/ms", "a frequency [1/ms]"),
        (VOLTAGE / TIME, "mV/ms", "a voltage/time [mV/ms]"),
        (CONDUCTANCE / LENGTH**2, "nS/um**2", "a conductance/area [nS/um**2]"),
        (DIMENSIONLESS, "1", "a number without a unit"),
        (VOLTAGE**2, "mV**2", "a voltage**2 [mV**2]"),
        (VOLTAGE ** Fraction(1, 2), "mV**0.5", "a quantity in [mV**0.5]"),
        (TEMPERATURE, "K", "a temperature [K]"),
        (DIMENSIONLESS / VOLTAGE, "1/mV", "a 1/voltage [1/mV]"),
        (CURRENT, "pA", "a current [pA]"),
    ],
)
def test_names(dimension: Dimension, unit: str, text: str) -> None:
    assert canonical_name(dimension) == unit
    assert describe(dimension) == text
    assert parse_unit(unit) == (dimension, Fraction(1))


ENV = {
    "v": VOLTAGE,
    "v_rest": VOLTAGE,
    "tau_m": TIME,
    "t": TIME,
    "g": CONDUCTANCE,
    "C": CAPACITANCE,
    "n": DIMENSIONLESS,
    "k": DIMENSIONLESS,
    "any": None,
}


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("(v_rest - v + 3 mV) / tau_m", VOLTAGE / TIME),
        ("g * (v - v_rest) / C", VOLTAGE / TIME),
        ("v > -50 mV and t >= 0", DIMENSIONLESS),
        ("v + 0", VOLTAGE),
        ("0 if n > 1 else v", VOLTAGE),
        ("max(0, v, v_rest)", VOLTAGE),
        ("clip(v, 0, 1 V)", VOLTAGE),
        ("where(v > 0, v, 0)", VOLTAGE),
        ("sqrt(v * v)", VOLTAGE),
        ("v ** 2 / v_rest", VOLTAGE),
        ("v ** (1 / 2) * v ** 0.5", VOLTAGE),
        ("exp((v - v_rest) / 2 mV)", DIMENSIONLESS),
        ("2 * pi * n", DIMENSIONLESS),
        ("t // tau_m + sign(v) + heaviside(v)", DIMENSIONLESS),
        ("t % tau_m", TIME),
        ("abs(-v)", VOLTAGE),
        ("any + v", VOLTAGE),
        ("any * v", None),
        ("own(v)", None),
        ("0 * v", VOLTAGE),
        ("1 / tau_m - 8 Hz", FREQUENCY),
        ("n ** k", DIMENSIONLESS),
        ("1 inch", LENGTH),
    ],
)
def test_inference(text: str, dimension: Dimension | None) -> None:
    sink = Sink()
    assert infer_dimension(tree_of(text), ENV, sink) == dimension
    assert sink.items == []


def only(text: str) -> Diagnostic:
    sink = Sink()
    infer_dimension(tree_of(text), ENV, sink)
    (found,) = sink.items
    return found


@pytest.mark.parametrize(
    ("text", "at", "message", "help"),
    [
        (
            "n * (v + tau_m)",
            "v + tau_m",
            "cannot add `v` and `tau_m`: `v` is a voltage [mV], `tau_m` is a time [ms]",
            None,
        ),
        (
            "tau_m - v",
            "tau_m - v",
            "cannot subtract `v` from `tau_m`: `tau_m` is a time [ms], `v` is",
            None,
        ),
        (
            "v > n",
            "v > n",
            "`v` is a voltage [mV], `n` is a number without a unit",
            "give `n` a unit, [mV]",
        ),
        (
            "v if n > 1 else tau_m",
            "v if n > 1 else tau_m",
            "cannot choose between `v` and `tau_m`",
            None,
        ),
        ("min(v, v_rest, tau_m)", "min(v, v_rest, tau_m)", "cannot compare `v` and `tau_m`", None),
        (
            "exp(v)",
            "v",
            "`exp` takes a number without a unit, but `v` is a voltage [mV]",
            "divide it by a quantity in [mV] first",
        ),
        ("v ** n", "n", "its exponent must be a number that is written out", None),
        ("n ** v", "v", "an exponent is a number without a unit, but `v` is a voltage [mV]", None),
    ],
)
def test_mismatch(text: str, at: str, message: str, help: str | None) -> None:
    found = only(text)
    assert found.code == "E0401"
    assert found.span is not None
    assert text[found.span.start : found.span.end] == at
    assert message in found.message
    if help is not None:
        assert found.help == help


@pytest.mark.parametrize(
    ("text", "at", "help"),
    [
        ("v > -50", "-50", "write `-50 mV`"),
        ("3 + v", "3", "write `3 mV`"),
        ("v - 2 * pi", "2 * pi", "write `(2 * pi) * 1 mV`"),
        ("max(v, 1.5)", "1.5", "write `1.5 mV`"),
        ("v if n > 1 else 1", "1", "write `1 mV`"),
        ("1 / tau_m < 5", "5", "write `5 Hz`"),
        ("(v + 1) / tau_m", "1", "write `1 mV`"),
    ],
)
def test_missing_unit(text: str, at: str, help: str) -> None:
    found = only(text)
    assert found.code == "E0402"
    assert found.span is not None
    assert text[found.span.start : found.span.end] == at
    assert found.help == help


@pytest.mark.parametrize(
    ("expected", "text", "code", "message", "help"),
    [
        (VOLTAGE / TIME, "(v_rest - v) / tau_m", None, "", None),
        (VOLTAGE, "0", None, "", None),
        (None, "v", None, "", None),
        (VOLTAGE, "any", None, "", None),
        (
            VOLTAGE / TIME,
            "v_rest - v",
            "E0401",
            "`x` is a voltage/time [mV/ms], but `v_rest - v` is a voltage [mV]",
            "divide by a ms quantity to make it a voltage/time [mV/ms]",
        ),
        (VOLTAGE, "-65", "E0402", "`x` is a voltage [mV], but `-65` has no unit", "write `-65 mV`"),
        (VOLTAGE, "n", "E0401", "`n` is a number without a unit", "multiply by a quantity in [mV]"),
        (
            DIMENSIONLESS,
            "v",
            "E0401",
            "`x` is a number without a unit, but `v` is a voltage [mV]",
            "divide by a quantity in [mV]",
        ),
        (DIMENSIONLESS, "1", None, "", None),
        (TIME, "v + tau_m", "E0401", "cannot add", None),
    ],
)
def test_assignment(expected: Dimension | None, text: str, code: str | None, message: str, help: str | None) -> None:
    sink = Sink()
    fits = check_assignable(expected, tree_of(text), ENV, sink, "`x`")
    assert fits == (code is None)
    assert [d.code for d in sink.items] == ([] if code is None else [code])
    for d in sink.items:
        assert message in d.message
        assert help is None or d.help == help


def test_erasure() -> None:
    assert show(erase(tree_of("v - -0.065 V + 8 Hz * n"))) == "v - -65.0 + 0.008 * n"
    same = tree_of("a + b")
    assert erase(same) is same
    assert erase(Quantity(20, "ms")) == Num(20.0)
    with pytest.raises(ValueError, match="unknown unit"):
        erase(Quantity(20, "bogus"))
