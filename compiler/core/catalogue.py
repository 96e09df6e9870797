"""The catalogue of diagnostic codes, which `netloom explain E0101` prints.

Assumes: codes.md beside this module: a heading of the second level for each code, then a paragraph, then a list of what
is wrong and right in YAML, where an example fits.
Guarantees: one entry per code, in the order of the text.
Does not: say which code reports what; tests/unit/test_codes.py checks that each is used and each is listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class CodeInfo:
    """The documentation of one code; the examples are YAML, empty where none fits."""

    title: str
    explanation: str
    example_bad: str
    example_good: str


TEXT: Final = Path(__file__).with_name("codes.md")
_EXAMPLE: Final = r"(?:- {}:(?: `+([^`].*[^`])`+|\n\n((?: {{6}}.*\n)+))\n?)?"
_ENTRY: Final = re.compile(
    r"^## ([EW]\d{4}): (.+)\n((?:(?!- ).+\n)+)" + _EXAMPLE.format("Wrong") + _EXAMPLE.format("Right"), re.MULTILINE
)


def _listed() -> Mapping[str, CodeInfo]:
    found = {}
    for code, title, text, *examples in _ENTRY.findall(TEXT.read_text("utf-8")):
        bad, good = (line or dedent(lines).strip() for line, lines in zip(examples[::2], examples[1::2], strict=True))
        found[code] = CodeInfo(title, " ".join(text.splitlines()), bad, good)
    return MappingProxyType(found)


CATALOGUE: Final = _listed()
"""Every code, in the order of the groups."""


def explain(code: str) -> str | None:
    """The catalogue's text about `code`, ready to be shown; None when there is no such code."""
    info = CATALOGUE.get(code.upper())
    if info is None:
        return None
    parts = [f"{code.upper()}: {info.title}", info.explanation]
    for label, example in (("Wrong:", info.example_bad), ("Right:", info.example_good)):
        if example:
            parts.append(f"{label}\n\n" + "\n".join(f"    {line}" for line in example.split("\n")))
    return "\n\n".join(parts) + "\n"
