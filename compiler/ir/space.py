"""Element types, storage roles, affine indices and names of arrays, shared by the IR levels.

Assumes: names of a model are identifiers, dotted where they belong to something.
Guarantees: plain immutable data. `<owner>.<variable>` is the array of a variable. What the compiler stores of an owner,
or of what another array holds, is that name, `'` and what it is: `exc'spikes`, `exc.ge'delivered`. A name says which
array it is, and one of the model is none of the compiler's. Lowering and runner agree.
Does not: depend on kernels, models or targets; name arrays of layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class DType(StrEnum):
    """Element types. `REAL` is replaced by F32 or F64 (numerics.precision) when a program is lowered. BF16 is a way to
    store F32, with 8 significant bits: kernels compute in F32 and round at stores."""

    F32 = "f32", 4, "float32"
    F64 = "f64", 8, "float64"
    BF16 = "bf16", 2, "uint16"
    I32 = "i32", 4, "int32"
    U32 = "u32", 4, "uint32"
    I64 = "i64", 8, "int64"
    U64 = "u64", 8, "uint64"
    U8 = "u8", 1, "uint8"

    bytes: int
    numpy: str
    """The numpy name of this type; of the bits of a BF16, which numpy has not."""

    def __new__(cls, text: str, size: int, numpy: str) -> DType:
        self = str.__new__(cls, text)
        self._value_, self.bytes, self.numpy = text, size, numpy
        return self

    @property
    def is_real(self) -> bool:
        return self in (DType.F32, DType.F64, DType.BF16)

    @property
    def computed(self) -> DType:
        """The type of a loaded element."""
        return DType.F32 if self is DType.BF16 else self


class Role(StrEnum):
    """Arenas. Every array lives in the arena of its role, at a byte offset that is data.

    STATE and WEIGHT (and EVENT) make a checkpoint. WORK arrays may share memory when their lifetimes
    do not overlap. DATA is written by the host, RECORD is drained by it.
    """

    STATE = "state"
    WEIGHT = "weight"
    CONST = "const"
    SYNAPSE = "synapse"
    EVENT = "event"
    DATA = "data"
    WORK = "work"
    RECORD = "record"


@dataclass(frozen=True)
class Affine:
    """index = (const + sum(coefficient * dim)) / div, defined where div divides it.

    `terms`: ((dim name, coefficient), ...), each dim at most once, coefficients nonzero.
    """

    terms: tuple[tuple[str, int], ...] = ()
    const: int = 0
    div: int = 1


def along(dim: str) -> Affine:
    """The index that is one dim itself."""
    return Affine(((dim, 1),))


def stays_inside(axis: Affine, extents: Mapping[str, int], size: int) -> bool:
    """Whether an index stays in bounds, [0, size): with padding it never does, for any sizes."""
    if axis.div != 1:
        return False
    low = axis.const + sum(min(0, c * (extents[d] - 1)) for d, c in axis.terms)
    high = axis.const + sum(max(0, c * (extents[d] - 1)) for d, c in axis.terms)
    return low >= 0 and high < size


def plain_dim(axis: Affine) -> str | None:
    """The dim of a plain index, else None."""
    if len(axis.terms) == 1 and axis.terms[0][1] == 1 and axis.const == 0 and axis.div == 1:
        return axis.terms[0][0]
    return None


OWN = "'"


def array_name(owner: str, variable: str) -> str:
    """The array of a variable, an input or a parameter of a population or of the synapses of a projection."""
    return f"{owner}.{variable}"


def own_array(of: str, part: str) -> str:
    """What the compiler stores of a population, of an event, of the synapses of a projection, or of another array."""
    return f"{of}'{part}"
