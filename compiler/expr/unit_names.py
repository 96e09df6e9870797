"""Unit names of other simulators: `pAmp`, `mvolt`, `msecond`, `MS`.

Assumes: a word that is no unit.
Guarantees: the symbol that was probably intended, or None.
Does not: accept such a word; a message names the symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.units import UNITS

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
