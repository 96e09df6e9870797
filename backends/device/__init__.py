"""Run-time library in C that the C and the CUDA backend include in their emitted text.

Assumes: the texts are package data beside this file.
Guarantees: `source(name)` gives the text of `math.h` (elementary functions: the file, and what `c_text.py` prints of
elementary.py), `philox.h` (random numbers), `rings.h` (slots of steps) or `tables.h` (lookup tables; it and philox.h
need `math.h` before them), the same in a checkout and in an installed wheel.
Does not: compile them, or offer a folder for an include path: a file named math.h there would hide
the system's.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from backends.device.c_text import c_functions

TextName = Literal["math", "philox", "rings", "tables"]


def source(name: TextName) -> str:
    """The text of `<name>.h`. Raises FileNotFoundError for a name that is not there."""
    text = files(__name__).joinpath(f"{name}.h").read_text(encoding="utf-8")
    return text.removesuffix("#endif\n") + c_functions() + "#endif\n" if name == "math" else text
