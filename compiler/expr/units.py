"""Physical dimensions, units, and the coherent system of canonical units into which quantities are
erased.

Assumes: nothing; pint is imported only when a unit is not in the table below (importing it is
slow).
Guarantees: the canonical units are coherent (mV / ms * ms is mV, nS * mV is pA, pF / nS is ms), so
an erased expression needs no factors; conversion is exact decimal arithmetic, rounded once (20 ms
-> 20.0, 0.1 ms -> 0.1, 8 Hz -> 0.008).
Does not: convert scales with an offset (degC); such a unit is unknown here. Accept names of other simulators (`pAmp`,
`mvolt`): a message names the symbol.

Canonical units: ms, um, pA, ng, K, amol, cd; hence mV, nS, GOhm, pF, fC, 1/ms, mM (= mol/m**3), aJ,
fW, pN.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import mul, truediv
from types import MappingProxyType
from typing import Final

Exponent = int | Fraction

_BASES: Final = ("mass", "length", "time", "current", "temperature", "substance", "luminosity")
# the canonical unit of each base in SI: 1e-12 kg, 1e-6 m, 1e-3 s, 1e-12 A, 1 K, 1e-18 mol, 1 cd
_BASE_DIGITS: Final = (-12, -6, -3, -12, 0, -18, 0)


def _tidy(x: Exponent) -> Exponent:
    return x.numerator if isinstance(x, Fraction) and x.denominator == 1 else x


@dataclass(frozen=True)
class Dimension:
    """Exponents of (mass, length, time, current, temperature, substance, luminosity)."""

    exponents: tuple[Exponent, ...] = (0, 0, 0, 0, 0, 0, 0)

    def __mul__(self, other: Dimension) -> Dimension:
        pairs = zip(self.exponents, other.exponents, strict=True)
        return Dimension(tuple(_tidy(a + b) for a, b in pairs))

    def __truediv__(self, other: Dimension) -> Dimension:
        pairs = zip(self.exponents, other.exponents, strict=True)
        return Dimension(tuple(_tidy(a - b) for a, b in pairs))

    def __pow__(self, power: Exponent) -> Dimension:
        return Dimension(tuple(_tidy(a * power) for a in self.exponents))

    @property
    def dimensionless(self) -> bool:
        return not any(self.exponents)

    def __str__(self) -> str:
        """ "voltage", "time", "frequency", "voltage/time", or the canonical unit."""
        return dimension_name(self)

    def __repr__(self) -> str:
        return f"Dimension<{canonical_name(self)}>"


DIMENSIONLESS: Final = Dimension()
MASS, LENGTH, TIME, CURRENT, TEMPERATURE, SUBSTANCE, LUMINOSITY = (
    Dimension(tuple(int(i == index) for i in range(7))) for index in range(7)
)
FREQUENCY: Final = DIMENSIONLESS / TIME
CHARGE: Final = CURRENT * TIME
FORCE: Final = MASS * LENGTH / TIME**2
ENERGY: Final = FORCE * LENGTH
POWER: Final = ENERGY / TIME
VOLTAGE: Final = POWER / CURRENT
CONDUCTANCE: Final = CURRENT / VOLTAGE
RESISTANCE: Final = VOLTAGE / CURRENT
CAPACITANCE: Final = CHARGE / VOLTAGE
CONCENTRATION: Final = SUBSTANCE / LENGTH**3
PRESSURE: Final = FORCE / LENGTH**2

# (dimension, its name, its canonical unit)
_NAMED: Final = (
    (VOLTAGE, "voltage", "mV"),
    (TIME, "time", "ms"),
    (CURRENT, "current", "pA"),
    (CONDUCTANCE, "conductance", "nS"),
    (CAPACITANCE, "capacitance", "pF"),
    (RESISTANCE, "resistance", "GOhm"),
    (FREQUENCY, "frequency", "1/ms"),
    (LENGTH, "length", "um"),
    (LENGTH**2, "area", "um**2"),
    (LENGTH**3, "volume", "um**3"),
    (CONCENTRATION, "concentration", "mM"),
    (CHARGE, "charge", "fC"),
    (TEMPERATURE, "temperature", "K"),
    (SUBSTANCE, "amount of substance", "amol"),
    (MASS, "mass", "ng"),
    (ENERGY, "energy", "aJ"),
    (POWER, "power", "fW"),
    (FORCE, "force", "pN"),
    (LUMINOSITY, "luminous intensity", "cd"),
)
_NAME_OF: Final[Mapping[Dimension, tuple[str, str]]] = MappingProxyType({d: (name, unit) for d, name, unit in _NAMED})

_DIGITS: Final = MappingProxyType(
    {"a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "µ": -6, "μ": -6, "m": -3, "c": -2, "d": -1}
    | {"": 0, "k": 3, "M": 6, "G": 9}
)

# symbols, prefixes, dimension, SI value of the symbol without prefix
_SYMBOLS: Final = (
    (("s",), ("", "m", "u", "µ", "μ", "n", "p"), TIME, Fraction(1)),
    (("min",), ("",), TIME, Fraction(60)),
    (("h", "hour"), ("",), TIME, Fraction(3600)),
    (("day",), ("",), TIME, Fraction(86400)),
    (("V",), ("", "k", "m", "u", "µ", "μ", "n"), VOLTAGE, Fraction(1)),
    (("A",), ("", "m", "u", "µ", "μ", "n", "p", "f"), CURRENT, Fraction(1)),
    (("F",), ("", "m", "u", "µ", "μ", "n", "p", "f"), CAPACITANCE, Fraction(1)),
    (("S",), ("", "m", "u", "µ", "μ", "n", "p", "f"), CONDUCTANCE, Fraction(1)),
    (("ohm", "Ohm", "Ω", "Ω"), ("", "m", "k", "M", "G"), RESISTANCE, Fraction(1)),
    (("Hz",), ("", "m", "k", "M", "G"), FREQUENCY, Fraction(1)),
    (("m",), ("", "k", "d", "c", "m", "u", "µ", "μ", "n"), LENGTH, Fraction(1)),
    (("L", "l"), ("", "d", "m", "u", "µ", "μ"), LENGTH**3, Fraction(1, 1000)),
    (("mol",), ("", "m", "u", "µ", "μ", "n", "p", "f", "a"), SUBSTANCE, Fraction(1)),
    (("M",), ("", "m", "u", "µ", "μ", "n", "p"), CONCENTRATION, Fraction(1000)),
    (("g",), ("", "k", "m", "u", "µ", "μ", "n", "p"), MASS, Fraction(1, 1000)),
    (("C",), ("", "m", "u", "µ", "μ", "n", "p", "f"), CHARGE, Fraction(1)),
    (("K",), ("", "m"), TEMPERATURE, Fraction(1)),
    (("J",), ("", "k", "m", "u", "µ", "μ", "n", "p", "f", "a"), ENERGY, Fraction(1)),
    (("W",), ("", "k", "m", "u", "µ", "μ", "n", "p", "f"), POWER, Fraction(1)),
    (("N",), ("", "m", "u", "µ", "μ", "n", "p"), FORCE, Fraction(1)),
    (("Pa",), ("", "k", "m"), PRESSURE, Fraction(1)),
    (("cd",), ("",), LUMINOSITY, Fraction(1)),
    (("rad",), ("",), DIMENSIONLESS, Fraction(1)),
)


def _canonical_scale(dimension: Dimension, si_value: Fraction) -> Fraction:
    """The number of canonical units in one unit of `si_value` SI units. Integer exponents only."""
    digits = sum(int(power) * ten for power, ten in zip(dimension.exponents, _BASE_DIGITS, strict=True))
    return si_value / Fraction(10) ** digits


def _table() -> dict[str, tuple[Dimension, Fraction]]:
    return {
        prefix + symbol: (d, _canonical_scale(d, si * Fraction(10) ** _DIGITS[prefix]))
        for symbols, prefixes, d, si in _SYMBOLS
        for symbol in symbols
        for prefix in prefixes
    }


UNITS: Final[Mapping[str, tuple[Dimension, Fraction]]] = MappingProxyType(_table())
"""Common units by symbol: (dimension, canonical units in one of it). Verified against pint in the
tests."""


@functools.cache
def unit_word(word: str) -> tuple[Dimension, Fraction] | None:
    """The unit of one symbol or name ("ms", "Torr"), from the table or else from pint; None when
    there is none."""
    return UNITS.get(word) or _pint_unit(word)


@functools.cache
def _pint_registry() -> object:
    import pint  # slow: only for units that are not in the table

    return pint.UnitRegistry(non_int_type=Fraction)


_PINT_BASES: Final = MappingProxyType({f"[{name}]": i for i, name in enumerate(_BASES)})


def _pint_unit(word: str) -> tuple[Dimension, Fraction] | None:
    if not re.fullmatch(r"[^\W\d]\w*", word) or len(word) > 40:
        return None
    registry: object = _pint_registry()
    try:
        quantity = registry.Quantity(1, word)  # type: ignore[attr-defined]
        if not quantity._is_multiplicative:  # an offset scale such as degC
            return None
        base = quantity.to_base_units()
        exponents: list[Exponent] = [0] * 7
        for name, power in base.dimensionality.items():
            exponents[_PINT_BASES[name]] = _tidy(Fraction(power).limit_denominator(12))
        if any(isinstance(p, Fraction) for p in exponents):
            return None
        # the registry's base units are kg, m, s, A, K, mol, cd
        dimension = Dimension(tuple(exponents))
        return dimension, _canonical_scale(dimension, Fraction(base.magnitude))
    except Exception:  # pint raises its own, token's and Python's errors for words that it does not know
        return None


_UNIT_TOKEN: Final = re.compile(r"\s*(?:([^\W\d]\w*)|(\d+(?:\.\d+)?)|(\*\*|[*/()^-]))")


@functools.lru_cache(maxsize=4096)
def parse_unit(text: str) -> tuple[Dimension, Fraction] | None:
    """A unit expression such as "mV", "nS/cm**2", "1/ms", "pA*ms/(mV*um**2)": (dimension, canonical
    units in one).

    Products, quotients (from left to right), powers by a number, parentheses; "1" is no unit. None
    when it is not a unit or not one that can be converted by a factor.
    """
    if len(text) > 200:
        return None
    tokens: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        found = _UNIT_TOKEN.match(text, at)
        if found is None:
            return None
        tokens.append(found[1] or found[2] or found[3])
        at = found.end()
    tokens.append("")
    result = _product(tokens, 0, 0)
    if result is None or tokens[result[2]] != "":
        return None
    return result[0], result[1]


_Parsed = tuple[Dimension, Fraction, int]


def _product(tokens: list[str], at: int, depth: int) -> _Parsed | None:
    left = _power(tokens, at, depth)
    while left is not None and tokens[left[2]] in ("*", "/"):
        d, scale, at = left
        right = _power(tokens, at + 1, depth)
        if right is None:
            return None
        times = mul if tokens[at] == "*" else truediv
        left = times(d, right[0]), times(scale, right[1]), right[2]
    return left


def _power(tokens: list[str], at: int, depth: int) -> _Parsed | None:
    word = tokens[at]
    if word == "(":
        inner = _product(tokens, at + 1, depth + 1) if depth < 20 else None
        if inner is None or tokens[inner[2]] != ")":
            return None
        d, scale, at = inner[0], inner[1], inner[2] + 1
    elif word == "1":
        d, scale, at = DIMENSIONLESS, Fraction(1), at + 1
    else:
        known = unit_word(word) if word and (word[0].isalpha() or word[0] == "_") else None
        if known is None:
            return None
        d, scale, at = *known, at + 1
    if tokens[at] not in ("**", "^"):
        return d, scale, at
    negative = tokens[at + 1] == "-"
    at += 2 if negative else 1
    if not re.fullmatch(r"\d{1,2}(\.\d{1,3})?", tokens[at]):
        return None
    exponent = Fraction(tokens[at]) * (-1 if negative else 1)
    if exponent.denominator != 1:
        if scale != 1:
            return None  # a root of a factor is not exact; write the canonical unit
        return d**exponent, scale, at + 1
    return d ** int(exponent), scale ** int(exponent), at + 1


def to_canonical(value: int | float, unit: str) -> float:
    """`value` of `unit` in canonical units: the nearest float64 to the decimal number as it was
    written.

    Raises ValueError for an unknown unit and OverflowError for a result beyond float64.
    """
    known = parse_unit(unit)
    if known is None:
        raise ValueError(f"unknown unit `{unit}`")
    scale = known[1]
    if scale == 1:
        return float(value)
    # repr is the shortest decimal that reads back: what the user wrote, up to 17 digits
    result = float(Fraction(repr(value)) * scale)
    return -0.0 if result == 0.0 and repr(value).startswith("-") else result


@functools.cache
def canonical_name(dimension: Dimension) -> str:
    """The canonical unit as text ("mV", "1/ms", "mV/ms", "1"); `parse_unit` reads it back with
    scale 1."""
    if dimension.dimensionless:
        return "1"
    if dimension in _NAME_OF:
        return _NAME_OF[dimension][1]
    return _quotient(dimension, 1) or _powers(dimension)


@functools.cache
def dimension_name(dimension: Dimension) -> str:
    """The name of the dimension in physics: "voltage", "voltage/time", or its canonical unit where it has no name."""
    if dimension.dimensionless:
        return "number without a unit"
    if dimension in _NAME_OF:
        return _NAME_OF[dimension][0]
    return _quotient(dimension, 0) or canonical_name(dimension)


def describe(dimension: Dimension) -> str:
    """For messages: "a voltage [mV]", "a number without a unit"."""
    if dimension.dimensionless:
        return "a number without a unit"
    name, unit = dimension_name(dimension), canonical_name(dimension)
    if name == unit:
        return f"a quantity in [{unit}]"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} [{unit}]"


def _quotient(dimension: Dimension, part: int) -> str | None:
    """`dimension` as a product or quotient of two that have names (part 0) and plain units (part
    1)."""
    plain = [row for row in _NAMED if row[0] != FREQUENCY]
    for d, *names in plain:
        if dimension == d * d:
            return f"{names[part]}**2"
        if dimension == DIMENSIONLESS / d:
            return f"1/{names[part]}"
    for over in (TIME, LENGTH**2, LENGTH, *(row[0] for row in plain)):
        top = dimension * over
        if top in _NAME_OF and top != FREQUENCY:
            return f"{_NAME_OF[top][part]}/{_NAME_OF[over][part]}"
    return None


def _powers(dimension: Dimension) -> str:
    """`dimension` as a product of powers of mV, pA, ms, um, K, mM, cd."""
    mass, length, time, current, temperature, substance, luminosity = dimension.exponents
    powers = (
        ("mV", mass),
        ("pA", current + mass),
        ("ms", time + 3 * mass),
        ("um", length - 2 * mass + 3 * substance),
        ("K", temperature),
        ("mM", substance),
        ("cd", luminosity),
    )
    top = [_raised(unit, p) for unit, p in powers if p > 0]
    bottom = [_raised(unit, -p) for unit, p in powers if p < 0]
    return "/".join(["*".join(top) or "1", *bottom])


def _raised(unit: str, power: Exponent) -> str:
    power = _tidy(power)
    if power == 1:
        return unit
    return f"{unit}**{power if isinstance(power, int) else repr(float(power))}"


_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("amp", "amps", "ampere", "amperes"), "A"),
        **dict.fromkeys(("volt", "volts"), "V"),
        **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("siemens", "sie", "mho"), "S"),
        **dict.fromkeys(("farad", "farads"), "F"),
        **dict.fromkeys(("ohm", "ohms"), "Ohm"),
        **dict.fromkeys(("hertz", "hz"), "Hz"),
        **dict.fromkeys(("meter", "metre", "meters", "metres"), "m"),
        **dict.fromkeys(("molar",), "M"),
        **dict.fromkeys(("coulomb", "coulombs"), "C"),
    }
)
_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {"": "", "f": "f", "p": "p", "n": "n", "u": "u", "m": "m", "k": "k", "M": "M", "G": "G"}
    | {"femto": "f", "pico": "p", "nano": "n", "micro": "u", "milli": "m", "kilo": "k", "mega": "M", "giga": "G"}
)


def unit_meant(word: str) -> str | None:
    """The symbol of the unit that `word`, which is none, spells out: "pA" for "pAmp", "mV" for "mv"."""
    for name, symbol in _WORDS.items():
        if word.lower().endswith(name):
            before = word[: len(word) - len(name)]
            prefix = _PREFIXES.get(before, _PREFIXES.get(before.lower()))
            if prefix is not None and prefix + symbol in UNITS:
                return prefix + symbol
    alike = [u for u in UNITS if u.lower() == word.lower() and u.isascii()] if len(word) > 1 else []
    return alike[0] if len(alike) == 1 else None
