"""Types of variables, of what pointers point to, and of the values of expressions.

Assumes: a type as C, CUDA C++ and OpenCL C write it, up to the name that it declares.
Guarantees: `typed` reads a text once, and a Type prints as it. `join` is the type of arithmetic on two numbers.
Does not: know sizes, or fields of structures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from compiler.ir.space import DType

REAL: Final = "real"
"""The number whose precision is the program's."""
_NUMBERS: Final = {
    "bool": "bool",
    **dict.fromkeys(["char", "nl_i8", "nl_u8"], DType.U8),
    **dict.fromkeys(["int", "nl_i32"], DType.I32),
    "nl_u32": DType.U32,
    "nl_i64": DType.I64,
    "nl_u64": DType.U64,
    "nl_bfloat": DType.BF16,
    "float": DType.F32,
    "double": DType.F64,
    REAL: REAL,
}
_APART: Final = str.maketrans("<>*&", "    ")
"""What stands between the names in a type."""


@dataclass(frozen=True)
class Type:
    """`number`: what it holds, or what its elements are where it has some (`many`: a pointer or an array); "": no
    number. `fixed`: whether none is stored to it, or to its elements."""

    number: str
    many: bool = False
    fixed: bool = False
    text: str = ""
    names: frozenset[str] = field(default=frozenset(), compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def known(self) -> bool:
        return bool(self.number)

    @property
    def real(self) -> bool:
        return self.number in (REAL, DType.F32, DType.F64, DType.BF16)

    @property
    def element(self) -> Type:
        """Of an array of it, or of what it points to."""
        return replace(self, many=False)

    @property
    def array(self) -> Type:
        """Of elements of it."""
        return replace(self, many=True)


UNKNOWN: Final = Type("")
"""Of what no declaration tells: structures, functions of a target."""


Typed = Type | str
"""A type, or its text: `const real *const`."""


def typed(x: Typed) -> Type:
    return x if isinstance(x, Type) else _read(x)


@cache
def _read(text: str) -> Type:
    names = text.translate(_APART).split()
    before, star, after = text.partition("*")
    words = before.replace("&", " ").split()
    number = next((_NUMBERS[x] for x in words if x in _NUMBERS), "")
    if "*" in after or "<" in before:
        number = ""
    return Type(number, bool(star), "const" in words, text, frozenset(names))


_RANK: Final = ("bool", DType.U8, DType.I32, DType.U32, DType.I64, DType.U64, DType.BF16, DType.F32, DType.F64)


def wider(a: str, b: str) -> bool:
    """Whether `a` holds numbers that `b` does not."""
    return _RANK.index(a) > _RANK.index(b)


def join(a: Type, b: Type) -> Type:
    """Of arithmetic on two numbers."""
    if not (a.known and b.known):
        return UNKNOWN
    return a if a == b and a.number != "bool" else Type(max(a.number, b.number, DType.I32, key=_RANK.index))
