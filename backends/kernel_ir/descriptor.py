"""Descriptors of compiled kernels: what loading and launching need to know of a program's code, without its text.

Assumes: an emitter that fills them in while it prints.
Guarantees: an artifact carries one CompiledKernel for each template; `packed` and `unpacked` are its form in JSON, in
the stamp of a build folder. Loading prints nothing: names, threads of a block and the division of work among threads
are taken from here.
Does not: hold rows, sizes or launches, which are data of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Division(StrEnum):
    """How the threads of a function share the work of a row."""

    OWN = "own"
    """As its body divides it: counted in blocks by the kind of the template."""
    POINTS = "points"
    """A thread computes a point, with all its terms."""
    FEW = "few"
    """So, and four neighbours at a time in large launches."""
    EIGHT = "eight"
    """So, and eight."""
    TERMS = "terms"
    """Threads share the terms of a point, and join their partial sums: a thread, a warp, a block or several blocks."""
    NEIGHBOURS = "neighbours"
    """So, and the terms of a point are neighbours in memory."""
    COLUMNS = "columns"
    """Neighbouring threads have neighbouring points, and share the terms of each: sums over the rows of a matrix."""
    WIDE_COLUMNS = "wide columns"
    """So, and a thread has four neighbouring points, where the last dim has a multiple of four."""
    ROWS = "rows"
    """A block at most shares the terms of a point, and all its threads go on after the sums, with its elements."""
    POSITIONS = "positions"
    """A block for each position that asks for a row (backends/cuda/kernels/nests/rows_added.py)."""


@dataclass(frozen=True)
class CompiledFunction:
    """A function that is launched."""

    name: str
    block: int
    """Threads of a block, at most."""
    division: Division = Division.OWN
    joins: bool = False
    """Whether the threads of a block share memory in it, or blocks join partial sums."""
    resident: int = 0
    """Blocks that a processor holds at least, by its registers; 0: as many as the compiler left room for."""
    by_event: bool = False
    """Whether it calls a function of the synapses of one event, which several warps share."""
    tiles: tuple[int, ...] = ()
    """Shapes of tiles, by number, of the rows that it computes; none: all rows."""


@dataclass(frozen=True)
class CompiledKernel:
    """The code of a template."""

    function: str
    """Its plain function."""
    columns: tuple[int, ...]
    """The formals that its rows have, by number: the arguments that a row brings."""
    fields: tuple[str, ...]
    """What they are called in the row's structure."""
    functions: tuple[CompiledFunction, ...] = ()
    """Those that are launched, where the host divides the work; the plain one first."""
    flat: bool = False
    """Whether every point has its own thread: no sum, one dimension."""
    wave: int = 0
    """Which of the kernels between two grid barriers calls its functions, too, from 1 (backends/cuda/waves/waves.py);
    0: none."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, where a column has 8; a row without columns is one of them wide."""
        return 8 * max(len(self.columns), 1)


Compiled = tuple[CompiledKernel, ...]
"""By template."""


def packed(kernels: Compiled) -> list[dict[str, Any]]:
    """Descriptors as values of JSON."""
    return [asdict(k) for k in kernels]


def unpacked(values: Sequence[Any]) -> Compiled:
    """What `packed` made. Raises KeyError, TypeError, ValueError for anything else."""
    return tuple(_kernel(**x) for x in values)


def _kernel(functions: Sequence[Any], columns: Sequence[int], fields: Sequence[str], **rest: Any) -> CompiledKernel:
    return CompiledKernel(
        columns=tuple(columns), fields=tuple(fields), functions=tuple(_function(**x) for x in functions), **rest
    )


def _function(division: str, tiles: Sequence[int], **rest: Any) -> CompiledFunction:
    return CompiledFunction(division=Division(division), tiles=tuple(tiles), **rest)
