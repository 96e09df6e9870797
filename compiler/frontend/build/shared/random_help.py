"""Help with random numbers in the syntax of other simulators: `uniform(-65, -50)`, `5 * randn()`.

Assumes: diagnostics of an expression that has been checked.
Guarantees: codes, spans and messages are kept; the help is valid at the span: a distribution, or a draw. Does not:
detect errors.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from compiler.core.diagnostics import Diagnostic
from compiler.expr.units import Dimension, canonical_name
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node

_NUMBERS: Final = {
    **dict.fromkeys(("uniform", "rand", "random"), ("uniform", "low", "high")),
    **dict.fromkeys(("normal", "randn", "gauss", "gaussian"), ("normal", "mean", "std")),
    "lognormal": ("lognormal", "mean", "std"),
    "exponential": ("exponential", "mean", ""),
}
"""Random functions, of this language and others: the distribution, and the names of its parameters."""
_DRAWS: Final = "|".join(_NUMBERS)
_CALL: Final = re.compile(rf"\s*({_DRAWS})\(([^(),]*)(?:,([^(),]*))?\)\s*", re.ASCII)
_SCALED: Final = re.compile(rf"\s*([^()+*]+)\+\s*([^()+*]+?)\s*\*\s*({_DRAWS})\(\)\s*", re.ASCII)
_NAMED: Final = re.compile(rf"`({_DRAWS})`")
_BARE: Final = re.compile(r"\s*-?[\d.]+(?:e-?\d+)?\s*")
_ABOUT_DRAWS: Final = ("E0303", "E0304", "E0309")


def draws(d: Diagnostic) -> str | None:
    """The random function that the error is about; None for any other error."""
    if d.code == "E0309":
        at = d.span
        text = "" if at is None else at.file.text[at.start : at.end]
        return next((n for n in _NUMBERS if text.startswith(n)), "random")
    found = _NAMED.search(d.message) if d.code in _ABOUT_DRAWS else None
    return None if found is None else found[1]


def with_distribution(
    d: Diagnostic, text: str, dimension: Dimension | None, lead: str = "write ", more: str = ""
) -> Diagnostic:
    """`d`, about the value `text`, with the equivalent distribution as help, `lead` before it and `more` at its end."""
    name = draws(d)
    if name is None:
        return d
    return replace(d, help=f"{lead}`{distribution(name, text, dimension)[:-2]}{more}}}}}`")


def distribution(name: str, text: str, dimension: Dimension | None) -> str:
    """The distribution equivalent to `text`, a call of another simulator's function `name`."""
    kind, first, second = _NUMBERS[name]
    call, scaled = _CALL.fullmatch(text), _SCALED.fullmatch(text)
    a, b = "...", "..."
    if call is not None and call[2].strip():
        a, b = call[2], call[3] or "..."
    elif scaled is not None:
        a, b = scaled[1], scaled[2]
        if kind == "uniform":
            b = f"{a.strip()} + {b.strip()}"
    numbers = [f"{n}: {_with_unit(v, dimension)}" for n, v in ((first, a), (second, b)) if n]
    return f"{{{kind}: {{{', '.join(numbers)}}}}}"


def _with_unit(text: str, dimension: Dimension | None) -> str:
    bare = _BARE.fullmatch(text) is not None and dimension is not None and not dimension.dimensionless
    return f"{text.strip()} {canonical_name(dimension)}" if bare and dimension is not None else text.strip()


def without_draw(d: Diagnostic, reason: str | None, text: str) -> Diagnostic:
    """`d` of an expression where random numbers are not allowed, for a `reason`; None: they are."""
    name = draws(d)
    if name is None or d.code == "E0309":
        return d
    if reason is not None:
        return replace(d, help=reason)
    call = _CALL.fullmatch(text)
    a, b = (call[2].strip(), (call[3] or "").strip()) if call is not None else ("", "")
    kind = _NUMBERS[name][0]
    if not a or not b:
        return d
    span = f"({b} - {a})" if re.fullmatch(r"[\w.]+( \w+)?", a) else f"({b} - ({a}))"
    help = {"uniform": f"{a} + {span} * random()", "normal": f"{a} + {b} * normal()"}.get(kind)
    return d if help is None else replace(d, help=f"write `{help}`")


WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)


def words_of(node: Node) -> set[str]:
    """Every word in the texts of `node`."""
    return {word for x in tree.texts(node) for word in WORD.findall(x.text)}
